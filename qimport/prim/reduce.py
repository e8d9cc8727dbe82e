"""Reductions over axes and over sliding windows."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from qimport.fixedpoint import multiply_by_quantized_multiplier_64, wrap32
from qimport.ir.check import require
from qimport.ir.graph import Array, Call, Operation, operation
from qimport.ir.types import INTEGER_RANGE
from qimport.prim.checks import require_padding, require_steps
from qimport.summation import RowOrder, fold_in_order, fused_multiply_add, sum_in_passes, sum_row

ReduceKind = Literal["sum", "prod", "max", "min", "max_last", "min_last"]

WindowKind = Literal["sum", "max"]


ReduceStart = Literal["neutral", "zero", "finite", "first"]
"""What a reduction begins with: what changes nothing (-0.0 for a sum, an infinity for an extremum), +0.0, the
largest or smallest finite number, or the first element."""

WIDENED = ("int8", "uint8", "int16")
_SUMS = {**dict.fromkeys(WIDENED, ("int32",)), "int32": ("int32", "int64"), "int64": ("int64",)}


def _require_axes(call: Call, axes: tuple[int, ...]) -> None:
    x, out = call.input(0), call.output
    valid = len(set(axes)) == len(axes) and all(0 <= a < len(x.shape) for a in axes)
    require(valid, "C1", f"axes {axes} are not distinct dimensions of {x}")
    wanted = tuple(1 if i in axes else size for i, size in enumerate(x.shape))
    require(out.shape == wanted, "C2", f"result must have shape {wanted}")


@operation
@dataclass(frozen=True)
class Reduce(Operation):
    """Sum, product or extremum over ``axes``; they stay with size 1.

    sum: 8/16-bit or int32 -> int32, int32 or int64 -> int64, float32. prod: any integers, float32. max, min:
    any integers, bool, float32. A sum of float32 with a ``factor`` is fma(x, factor, sum). Integers wrap.
    float32 is reduced by index, beginning as ``start`` says; max takes x if x > best, max_last keeps best if
    best > x (they differ for NaN), min and min_last likewise.

    C1 axes are distinct and in range. C2 the result shape has 1 at the axes. C3 element types as above.
    C4 the kind is one of these; extrema have something to choose from; ``start`` is one of its names, and not
    ``neutral`` for float32 only.
    """

    NAME = "prim.reduce"

    kind: ReduceKind
    axes: tuple[int, ...]
    start: ReduceStart = "neutral"
    factor: float | None = None

    def verify(self, call: Call) -> None:
        """Check C1-C4."""
        x, out = call.input(0), call.output
        require(self.kind in get_args(ReduceKind), "C4", f"there is no reduction {self.kind}")
        require(self.start in _STARTS[self.kind], "C4", f"{self.kind} does not start {self.start}")
        scaled = self.kind == "sum" and x.dtype == "float32"
        require(self.factor is None or scaled, "C4", f"no factor for {self.kind} of {x}")
        require(self.start == "neutral" or x.dtype == "float32", "C4", f"{x} starts with what is neutral")
        _require_axes(call, self.axes)
        sums = self.kind == "sum" and x.dtype != "float32"
        results = _SUMS.get(x.dtype, ()) if sums else (x.dtype,)
        require(out.dtype in results, "C3", "wrong result element type")
        last = self.kind.endswith("_last")
        known = x.dtype == "float32" or (x.dtype in INTEGER_RANGE and not last)
        require(known or (x.dtype == "bool" and self.extremum and not last), "C3", f"no {self.kind} of {x}")
        require(not self.extremum or x.size > 0 or out.size == 0, "C4", f"{x} holds nothing to choose from")

    @property
    def extremum(self) -> bool:
        """Whether one of the elements is chosen."""
        return self.kind.startswith("m")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """NumPy reduction."""
        x, out = call.array(0), call.output
        if x.dtype == np.float32:
            with np.errstate(all="ignore"):
                return (fold_in_order(x, self.axes, self.first_value(), self._step),)
        if self.extremum:
            reduce = np.max if self.kind == "max" else np.min
            return (np.asarray(reduce(x, axis=self.axes, keepdims=True)),)
        if self.kind == "prod":
            return (fold_in_order(x, self.axes, 1, np.multiply),)
        total = x.astype(np.int64).sum(self.axes, keepdims=True)
        return ((wrap32(total) if out.dtype == "int32" else total).astype(out.numpy),)

    def _step(self, best: Array, x: Array) -> Array:
        if self.factor is not None:
            return fused_multiply_add(x, np.float32(self.factor), best)
        return np.asarray(_STEPS[self.kind](best, x))

    def first_value(self) -> float | None:
        """What a float32 reduction begins with; None for the first element."""
        if self.start == "first":
            return None
        sign = -1.0 if self.kind.startswith("max") else 1.0
        if self.start == "finite":
            return sign * float(np.finfo(np.float32).max)
        if self.extremum:
            return sign * math.inf
        return 1.0 if self.kind == "prod" else (0.0 if self.start == "zero" else -0.0)


_STARTS: dict[str, tuple[str, ...]] = {
    "sum": ("neutral", "zero"),
    "prod": ("neutral",),
    **dict.fromkeys(("max", "min", "max_last", "min_last"), ("neutral", "finite", "first")),
}
_STEPS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": np.add,
    "prod": np.multiply,
    "max": lambda best, x: np.where(x > best, x, best),
    "min": lambda best, x: np.where(x < best, x, best),
    "max_last": lambda best, x: np.where(best > x, best, x),
    "min_last": lambda best, x: np.where(best < x, best, x),
}


@operation
@dataclass(frozen=True)
class RowSum(Operation):
    """Sum of float32 along the last dimension, which stays with size 1, in the order of a vector kernel.

    ``order`` as in :func:`qimport.summation.sum_row`. C1 float32 throughout, at least one dimension, no row
    is empty. C2 the result has size 1 there. C3 the order is one of the three.
    """

    NAME = "prim.row_sum"

    order: RowOrder

    def verify(self, call: Call) -> None:
        """Check C1-C3."""
        x, out = call.input(0), call.output
        require(x.dtype == out.dtype == "float32" and len(x.shape) > 0, "C1", f"no row sums of {x} as {out}")
        require(x.shape[-1] > 0, "C1", "rows are empty")
        require(out.shape == (*x.shape[:-1], 1), "C2", f"the result has shape {(*x.shape[:-1], 1)}")
        require(self.order in get_args(RowOrder), "C3", f"there is no order {self.order}")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """:func:`qimport.summation.sum_row`."""
        return (sum_row(call.array(0), self.order),)


@operation
@dataclass(frozen=True)
class RescaledProduct(Operation):
    """M(p), where p = x0 - zero_point, then p = M(p * (x - zero_point)) for every further element by index.

    M multiplies an int64 by ``multiplier`` and ``exponent`` with one rounding
    (:func:`qimport.fixedpoint.multiply_by_quantized_multiplier_64`). ``axes`` stay with size 1.

    C1 axes are distinct and in range. C2 the result shape has 1 at the axes. C3 8/16-bit -> int32; something
    is multiplied. C4 the exponent is below 15 and above -48.
    """

    NAME = "prim.rescaled_product"

    axes: tuple[int, ...]
    zero_point: int
    multiplier: int
    exponent: int

    def verify(self, call: Call) -> None:
        """Check C1-C4."""
        x, out = call.input(0), call.output
        _require_axes(call, self.axes)
        require(x.dtype in WIDENED and out.dtype == "int32", "C3", f"no product of {x} as {out}")
        require(x.size > 0, "C3", f"{x} holds nothing to multiply")
        require(-48 < self.exponent < 15, "C4", f"exponent {self.exponent}")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """The docstring's formula."""

        def scaled(value: Array) -> Array:
            return wrap32(multiply_by_quantized_multiplier_64(value, self.multiplier, self.exponent))

        centred = call.array(0).astype(np.int64) - self.zero_point
        product = fold_in_order(centred, self.axes, None, lambda p, x: scaled(p * x))
        return (scaled(product).astype(np.int32),)


@operation
@dataclass(frozen=True)
class Window(Operation):
    """Sum (8/16-bit -> int32) or max (type kept) over a sliding window of an NHWC tensor, in-image taps only.

    float32 is reduced by index: a sum from +0.0, max takes x if x > best, from the smallest finite number.
    ``passes`` adds the taps, down the columns, as :func:`qimport.summation.sum_in_passes` does.
    ``padding`` is ((top, bottom), (left, right)). C1 rank 4. C2 size and stride are positive, padding is not
    negative, and the result shape follows. C3 every window holds at least one in-image tap. C4 kind and
    element types as above; passes are for sums of float32 without padding.
    """

    NAME = "prim.window"

    kind: WindowKind
    size: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[tuple[int, int], tuple[int, int]]
    order: Literal["index", "passes"] = "index"

    def spans(self, extent: int, count: int, axis: int) -> list[tuple[int, int]]:
        """First and one past the last in-image index of ``count`` windows along an axis (0 = height)."""
        starts = [i * self.stride[axis] - self.padding[axis][0] for i in range(count)]
        return [(max(start, 0), min(start + self.size[axis], extent)) for start in starts]

    def taps(self, image: tuple[int, ...], result: tuple[int, ...]) -> Array:
        """In-image taps of every window, int32[OH, OW]."""
        rows, columns = (
            np.array([end - first for first, end in self.spans(image[1 + a], result[1 + a], a)], np.int32)
            for a in (0, 1)
        )
        return np.multiply.outer(rows, columns)

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
        integral = x.dtype in WIDENED
        require(integral or x.dtype == "float32", "C4", f"no windows over {x}")
        wanted = "int32" if self.kind == "sum" and integral else x.dtype
        require(out.dtype == wanted, "C4", "wrong result element type")
        unpadded = x.dtype == "float32" and self.kind == "sum" and self.padding == ((0, 0), (0, 0))
        require(self.order == "index" or (self.order == "passes" and unpadded), "C4", f"no {self.order} here")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """One NumPy reduction per output pixel position."""
        x, out = call.array(0), np.empty(call.output.shape, call.output.numpy)
        rows = self.spans(x.shape[1], out.shape[1], 0)
        cols = self.spans(x.shape[2], out.shape[2], 1)
        for i, (top, bottom) in enumerate(rows):
            for j, (left, right) in enumerate(cols):
                out[:, i, j] = self._patch(x[:, top:bottom, left:right])
        return (out,)

    def _patch(self, x: Array) -> Array:
        if self.order == "passes":
            taps = [x[:, row, column] for column in range(self.size[1]) for row in range(self.size[0])]
            with np.errstate(all="ignore"):
                return np.asarray(sum_in_passes(taps, np.zeros_like(taps[0]), np.add))
        if x.dtype == np.float32:
            start = -np.finfo(np.float32).max if self.kind == "max" else 0.0
            with np.errstate(all="ignore"):
                return fold_in_order(x, (1, 2), start, _STEPS[self.kind])[:, 0, 0]
        return np.asarray(x.max((1, 2)) if self.kind == "max" else x.astype(np.int64).sum((1, 2)))
