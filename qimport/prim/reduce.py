"""Reductions over axes and over sliding windows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from qimport.fixedpoint import wrap32
from qimport.ir.check import require
from qimport.ir.graph import Array, Call, Operation, operation
from qimport.prim.checks import require_padding, require_steps


@operation
@dataclass(frozen=True)
class Reduce(Operation):
    """Sum (8/16-bit or int32 -> int32, wrapping) or max/min (type kept) over ``axes``; they stay with size 1.

    C1 axes are distinct and in range. C2 the result shape has 1 at the axes. C3 element types as above.
    C4 the kind is one of these; max and min have something to choose from.
    """

    NAME = "prim.reduce"

    kind: Literal["sum", "max", "min"]
    axes: tuple[int, ...]

    def verify(self, call: Call) -> None:
        """Check C1-C3."""
        x, out = call.input(0), call.output
        valid = len(set(self.axes)) == len(self.axes) and all(0 <= a < len(x.shape) for a in self.axes)
        require(valid, "C1", f"axes {self.axes} are not distinct dimensions of {x}")
        wanted = tuple(1 if i in self.axes else size for i, size in enumerate(x.shape))
        require(out.shape == wanted, "C2", f"result must have shape {wanted}")
        require(out.dtype == ("int32" if self.kind == "sum" else x.dtype), "C3", "wrong result element type")
        require(self.kind in ("sum", "max", "min"), "C4", f"there is no reduction {self.kind}")
        require(self.kind == "sum" or x.size > 0 or out.size == 0, "C4", f"{x} holds nothing to choose from")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """NumPy reduction."""
        x = call.array(0)
        if self.kind == "sum":
            return (wrap32(x.astype(np.int64).sum(self.axes, keepdims=True)).astype(np.int32),)
        reduce = np.max if self.kind == "max" else np.min
        return (np.asarray(reduce(x, axis=self.axes, keepdims=True)),)


@operation
@dataclass(frozen=True)
class Window(Operation):
    """Sum (8-bit -> int32) or max (type kept) over a sliding window of an NHWC tensor, in-image taps only.

    ``padding`` is ((top, bottom), (left, right)). C1 rank 4. C2 size and stride are positive, padding is not
    negative, and the result shape follows. C3 every window holds at least one in-image tap. C4 kind and
    element types as above.
    """

    NAME = "prim.window"

    kind: Literal["sum", "max"]
    size: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[tuple[int, int], tuple[int, int]]

    def spans(self, extent: int, count: int, axis: int) -> list[tuple[int, int]]:
        """First and one past the last in-image index of ``count`` windows along an axis (0 = height)."""
        starts = [i * self.stride[axis] - self.padding[axis][0] for i in range(count)]
        return [(max(start, 0), min(start + self.size[axis], extent)) for start in starts]

    def verify(self, call: Call) -> None:
        """Check C1-C4."""
        x, out = call.input(0), call.output
        require(len(x.shape) == len(out.shape) == 4, "C1", "rank must be 4")
        require_steps("C2", "size", self.size)
        require_steps("C2", "stride", self.stride)
        require_padding("C2", self.padding)
        for a in (0, 1):
            count = (x.shape[1 + a] + sum(self.padding[a]) - self.size[a]) // self.stride[a] + 1
            require(out.shape[1 + a] == count, "C2", f"result extent must be {count}")
            spans = self.spans(x.shape[1 + a], count, a)
            require(all(first < end for first, end in spans), "C3", "a window lies outside the image")
        require(out.shape[0] == x.shape[0] and out.shape[3] == x.shape[3], "C2", "batch or channels change")
        require(self.kind in ("sum", "max"), "C4", f"there is no window {self.kind}")
        require(out.dtype == ("int32" if self.kind == "sum" else x.dtype), "C4", "wrong result element type")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """One NumPy reduction per output pixel position."""
        x, out = call.array(0), np.empty(call.output.shape, call.output.numpy)
        rows = self.spans(x.shape[1], out.shape[1], 0)
        cols = self.spans(x.shape[2], out.shape[2], 1)
        for i, (top, bottom) in enumerate(rows):
            for j, (left, right) in enumerate(cols):
                patch = x[:, top:bottom, left:right]
                out[:, i, j] = patch.max((1, 2)) if self.kind == "max" else patch.astype(np.int64).sum((1, 2))
        return (out,)
