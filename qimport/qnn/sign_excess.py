"""What dot products of the classic hybrid kernels are larger by than the exact sums.

``MatrixBatchVectorMultiplyAccumulate`` moves the sign of a code to the weight, in 8 bits: there -(-128) is
-128. So a weight of -128 under a negative code counts as if the code were positive. This happens in whole
vectors of 16 elements of a row, and is measured.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qimport.fixedpoint import Int
from qimport.ir.types import INTEGER_RANGE

SIGN_BLOCK = 16
"""Products that the kernel adds up at once."""

EXCESS = 256
"""How far the product of a negative code with the smallest weight is off, over that code."""


def whole_vectors(depth: int) -> int:
    """How many of ``depth`` products lie in whole vectors."""
    return depth // SIGN_BLOCK * SIGN_BLOCK


def smallest(weights: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Where weights [outputs, n] are -128 and in whole vectors; [outputs, m] with m up to n."""
    found: npt.NDArray[np.bool_] = weights[:, : whole_vectors(weights.shape[1])] == INTEGER_RANGE["int8"][0]
    return found


def sign_excess(codes: Int, weights: npt.NDArray[Any]) -> Int:
    """256 * the sum of min(code, 0) over weights of -128 in whole vectors: [rows, outputs]."""
    found = smallest(weights)
    negative = np.minimum(codes, 0)[:, : found.shape[1]]
    return np.asarray(EXCESS * (negative @ found.astype(np.int64).T))
