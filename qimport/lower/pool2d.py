"""AVERAGE_POOL_2D, MAX_POOL_2D and L2_POOL_2D: reductions over windows."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from qimport import prim
from qimport.ir.graph import Array, Value
from qimport.ir.types import INTEGER_RANGE, TensorType
from qimport.lower.rule import Emitter, Use, rule
from qimport.qnn.float_pool import reciprocals
from qimport.qnn.pool2d import AveragePool2d, L2Pool2d, MaxPool2d, Pool


@rule(AveragePool2d)
def lower_average_pool2d(emit: Emitter, op: AveragePool2d, use: Use) -> Value:
    """Window sums, divided by the constant counts of pixels inside the image."""
    x, counts = use.operand(0), op.counts(use.call)
    if op.real(use.call):
        return _bounded(emit, op, use, _real_average(emit, op, use, counts))
    total = _window(emit, op, x, use, "sum", "int32")
    mean = emit.emit(prim.DivRound(), (total, _per_pixel(emit, counts)), total.type)
    low, high = op.codes_range(use.call)
    return emit.clamp(mean, 0, low, high, use.output.dtype)


def _real_average(emit: Emitter, op: AveragePool2d, use: Use, counts: npt.NDArray[np.int32]) -> Value:
    x = use.operand(0)
    if op.kernel_family(use.call) != "xnnpack":
        total = _window(emit, op, x, use, "sum", "float32")
        return emit.binary("div", total, _per_pixel(emit, counts.astype(np.float32)))
    if op.size == (1, 1):
        return x
    before, after = (tuple(pair[side] for pair in op.padding) for side in (0, 1))
    padded = [size + b + a for size, b, a in zip(x.type.shape[1:3], before, after, strict=True)]
    shape = (x.type.shape[0], *padded, x.type.shape[3])
    if shape != x.type.shape:
        pad = prim.Pad((0, *before, 0), (0, *after, 0), 0.0)
        x = emit.emit(pad, (x,), TensorType("float32", shape))
    window = prim.Window("sum", op.size, op.stride, ((0, 0), (0, 0)), "passes")
    total = emit.emit(window, (x,), TensorType("float32", use.output.shape))
    return emit.binary("mul", total, _per_pixel(emit, reciprocals(counts)))


@rule(MaxPool2d)
def lower_max_pool2d(emit: Emitter, op: MaxPool2d, use: Use) -> Value:
    """Window maxima, clamped only where an activation narrows the range."""
    largest = _window(emit, op, use.operand(0), use, "max", use.output.dtype)
    if op.real(use.call):
        bounded = _bounded(emit, op, use, largest)
        return emit.binary("add", bounded, 0.0) if op.loses_sign(use.call) else bounded
    low, high = op.codes_range(use.call)
    if (low, high) == INTEGER_RANGE[use.output.dtype]:
        return largest
    return emit.clamp(emit.cast(largest, "int32"), 0, low, high, use.output.dtype)


@rule(L2Pool2d)
def lower_l2_pool2d(emit: Emitter, op: L2Pool2d, use: Use) -> Value:
    """Squares, window sums, means, roots."""
    x, counts = use.operand(0), op.counts(use.call)
    total = _window(emit, op, emit.binary("mul", x, x), use, "sum", "float32")
    if op.kernel_family(use.call) == "reference":
        mean = emit.binary("div", total, _per_pixel(emit, counts.astype(np.float32)))
    else:
        mean = emit.binary("mul", total, _per_pixel(emit, reciprocals(counts)))
    return _bounded(emit, op, use, emit.math("sqrt", mean))


def _window(emit: Emitter, op: Pool, x: Value, use: Use, kind: prim.WindowKind, dtype: str) -> Value:
    window = prim.Window(kind, op.size, op.stride, op.padding)
    return emit.emit(window, (x,), TensorType(dtype, use.output.shape))


def _per_pixel(emit: Emitter, numbers: Array) -> Value:
    """[1, OH, OW, 1], or one number if all are equal."""
    uniform = np.all(numbers == numbers.flat[0])
    return emit.constant(numbers.reshape(-1)[:1] if uniform else numbers)


def _bounded(emit: Emitter, op: Pool, use: Use, x: Value) -> Value:
    """float32 within the activation's bounds; NaN, and a zero that equals a bound, stay as they are."""
    low, high = op.real_range(use.call)
    if low > -math.inf:
        x = emit.binary("max", x, low)
    return emit.binary("min", x, high) if high < math.inf else x
