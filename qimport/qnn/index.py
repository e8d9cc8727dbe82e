"""``qnn.index``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from qimport.ir.check import require
from qimport.ir.graph import Array, Call, operation
from qimport.qnn.base import QnnOperation


@operation
@dataclass(frozen=True)
class Index(QnnOperation):
    """x[..., indices[entries[k]], ...] along ``axes[k]``, which the result lacks. Any type, all modes equal.

    This is STRIDED_SLICE with shrink_axis_mask and a begin computed at run time. Negative indices count from
    the back; those outside are clamped, as in the interpreter for negative ones (over the end it reads what
    lies behind its tensor).

    C1 indices are a vector of int32; x and the result have one element type. C2 axes ascend, each with an
    entry that indices have. C3 the result has x's shape without the axes.
    """

    NAME = "qnn.index"
    TFLITE: ClassVar[tuple[str, ...]] = ("STRIDED_SLICE",)

    axes: tuple[int, ...]
    entries: tuple[int, ...]

    def verify(self, call: Call) -> None:
        """Check C1-C3."""
        x, indices, out = call.input(0), call.input(1), call.output
        vector = indices.dtype == "int32" and len(indices.shape) == 1
        require(vector and x.dtype == out.dtype, "C1", f"{indices} do not select from {x} for {out}")
        ascend = sorted(set(self.axes)) == list(self.axes) and set(self.axes) <= set(range(len(x.shape)))
        require(ascend, "C2", f"{x} has no dimensions {self.axes}")
        known = len(self.entries) == len(self.axes) and set(self.entries) <= set(range(indices.size))
        require(known, "C2", f"entries {self.entries} of {indices}")
        wanted = tuple(size for axis, size in enumerate(x.shape) if axis not in self.axes)
        require(out.shape == wanted, "C3", f"the result must have shape {wanted}")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """NumPy take, the last dimension first."""
        x, indices = call.array(0), call.array(1)
        for axis, entry in reversed(list(zip(self.axes, self.entries, strict=True))):
            number, size = int(indices[entry]), x.shape[axis]
            number = number + size if number < 0 else number
            x = np.take(x, min(max(number, 0), size - 1), axis)
        return (x,)
