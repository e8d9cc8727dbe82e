"""float32 windows: the arithmetic of AVERAGE_POOL_2D, MAX_POOL_2D and L2_POOL_2D."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from qimport.ir.graph import Array
from qimport.summation import fold_in_order

Float32 = npt.NDArray[np.float32]

LOWEST = -float(np.finfo(np.float32).max)

PatchFunction = Callable[[Float32], Float32]
"""From the pixels of a window, [N, rows, columns, C], to [N, C]."""


def ordered_sum(patch: Float32) -> Float32:
    """The sum from 0 by index."""
    return np.asarray(fold_in_order(patch, (1, 2), 0.0, np.add)[:, 0, 0], np.float32)


def square_sum(patch: Float32) -> Float32:
    """The sum of squares from 0 by index."""
    return ordered_sum(np.asarray(patch * patch, np.float32))


def largest(patch: Float32) -> Float32:
    """x if x > best, by index, from the smallest finite number."""
    found = fold_in_order(patch, (1, 2), LOWEST, lambda best, x: np.where(x > best, x, best))
    return np.asarray(found[:, 0, 0], np.float32)


def clamp(x: Array, low: float, high: float) -> Array:
    """min(max(x, low), high); NaN stays."""
    bounded = np.where(x < np.float32(low), np.float32(low), x)
    return np.where(bounded > np.float32(high), np.float32(high), bounded)


def reciprocals(counts: npt.NDArray[np.int32]) -> Float32:
    """float32(1 / n)."""
    return np.asarray(np.float32(1) / counts.astype(np.float32), np.float32)
