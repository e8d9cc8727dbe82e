"""``qnn.one_hot``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from qimport.ir.check import require
from qimport.ir.graph import Array, Call, operation
from qimport.qnn.base import QnnOperation


@operation
@dataclass(frozen=True)
class OneHot(QnnOperation):
    """A new dimension ``axis`` (>= 0) of ``depth`` with ``on`` at each index and ``off`` elsewhere.

    Operands indices, on, off (any type); all modes equal. An index outside [0, depth) gives off everywhere.

    C1 indices are int32 or int64; on and off are one element each of the result's type. C2 the result has the
    shape of indices with a dimension more at ``axis``.
    """

    NAME = "qnn.one_hot"
    TFLITE: ClassVar[tuple[str, ...]] = ("ONE_HOT",)

    axis: int

    def verify(self, call: Call) -> None:
        """Check C1, C2."""
        indices, on, off, out = (*(call.input(i) for i in range(3)), call.output)
        require(indices.dtype in ("int32", "int64"), "C1", f"{indices} holds no indices of int32 or int64")
        for value in (on, off):
            require(value.dtype == out.dtype and value.size == 1, "C1", f"{value} is no element of {out}")
        fits = 0 <= self.axis < len(out.shape)
        fits = fits and indices.shape == (*out.shape[: self.axis], *out.shape[self.axis + 1 :])
        require(fits, "C2", f"{indices} does not give {out}")

    def counting(self, call: Call) -> Array:
        """The numbers along the new dimension, shaped to broadcast."""
        rank, depth = len(call.output.shape), call.output.shape[self.axis]
        shape = [1] * rank
        shape[self.axis] = depth
        return np.arange(depth, dtype=call.input(0).numpy).reshape(shape)

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """NumPy where."""
        hot = np.expand_dims(call.array(0), self.axis) == self.counting(call)
        on, off = (call.array(i).reshape(-1)[0] for i in (1, 2))
        return (np.where(hot, on, off).astype(call.output.numpy),)
