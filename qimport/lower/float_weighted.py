"""What the lowering rules of weighted operations on floats share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from qimport import prim
from qimport.ir.graph import Value
from qimport.ir.types import TensorType
from qimport.lower.rule import Emitter
from qimport.numerics import Family
from qimport.qnn.float_weighted import Sums, bounds
from qimport.qnn.geometry import Padding
from qimport.qnn.optimized_product import Part, block_of, parts_of

NO_PADDING: Padding = ((0, 0), (0, 0))


@dataclass(frozen=True)
class Window:
    """How windows lie over NHWC; the default is one pixel."""

    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    padding: Padding = NO_PADDING
    groups: int = 1


PIXEL = Window()


def emit_sums(emit: Emitter, x: Value, w: Value, bias: Value | None, window: Window, sums: Sums) -> Value:
    """``prim.float_mac`` nodes for x NHWC and w HWIO."""
    if bias is None:
        bias = emit.constant(np.zeros(w.type.shape[3], np.float32))
    x = padded(emit, x, window.padding)
    if not sums.optimized:
        op = prim.FloatMac(
            window.stride,
            window.dilation,
            window.groups,
            fused=sums.fused,
            bias_first=sums.bias_first,
            columns_first=sums.columns_first,
        )
        return emit.emit(op, (x, w, bias), op.result_type(x.type, w.type))
    return _emit_optimized(emit, x, w, bias, window)


def _emit_optimized(emit: Emitter, x: Value, w: Value, bias: Value, window: Window) -> Value:
    """One node where all sums are sequential; otherwise patches, and a node per part of the product."""
    kh, kw, depth, outputs = w.type.shape
    plain = prim.FloatMac(window.stride, window.dilation)
    result = plain.result_type(x.type, w.type)
    rows, depth = result.size // outputs, kh * kw * depth
    parts, block = parts_of(rows, depth, outputs), block_of(rows, depth, outputs)
    if block == 0 and [part.order for part in parts] == ["sequential"]:
        return emit.emit(plain, (x, w, bias), result)
    seen = emit_patches(emit, x, (kh, kw), window, result.shape[1:3])
    matrix = emit.reshape(seen, (rows, 1, 1, depth))
    weights = constant_or_reshape(emit, w, (1, 1, depth, outputs))
    found: dict[tuple[int, int], list[Value]] = {}
    for part in parts:
        found.setdefault(part.outputs, []).append(_emit_part(emit, matrix, weights, bias, part, block))
    columns = [emit.concat(values, 0) for values in found.values()]
    return emit.reshape(emit.concat(columns, 3), result.shape)


def _emit_part(emit: Emitter, x: Value, w: Value, bias: Value, part: Part, block: int) -> Value:
    op = prim.FloatMac(order=part.order, block=block)
    operands = (
        part_of(emit, x, 0, part.rows),
        part_of(emit, w, 3, part.outputs),
        part_of(emit, bias, 0, part.outputs),
    )
    return emit.emit(op, operands, op.result_type(operands[0].type, operands[1].type))


def emit_patches(
    emit: Emitter, x: Value, size: tuple[int, int], window: Window, extent: Sequence[int]
) -> Value:
    """What every window sees, as channels: rows of the window, then columns, then channels of x."""
    batch, _, _, channels = x.type.shape
    if size == (1, 1) and window.stride == (1, 1):
        return x
    shape = (batch, extent[0], extent[1], channels)
    step = (1, *window.stride, 1)
    parts = [
        emit.slice(x, (0, row * window.dilation[0], column * window.dilation[1], 0), shape, step)
        for row in range(size[0])
        for column in range(size[1])
    ]
    return emit.concat(parts, 3)


def padded(emit: Emitter, x: Value, padding: Padding) -> Value:
    """x with zeros around its images."""
    if padding == NO_PADDING:
        return x
    (top, bottom), (left, right) = padding
    batch, height, width, channels = x.type.shape
    shape = (batch, top + height + bottom, left + width + right, channels)
    pad = prim.Pad((0, top, left, 0), (0, bottom, right, 0), 0)
    return emit.emit(pad, (x,), TensorType(x.type.dtype, shape))


def part_of(emit: Emitter, x: Value, axis: int, span: tuple[int, int]) -> Value:
    """Indices [start, stop) along an axis; at compile time where x is constant."""
    shape = x.type.shape
    if span == (0, shape[axis]):
        return x
    if x.data is not None:
        index = (*(slice(None) for _ in range(axis)), slice(*span))
        return emit.constant(np.ascontiguousarray(x.data[index]))
    begin = [span[0] if i == axis else 0 for i in range(len(shape))]
    wanted = (*shape[:axis], span[1] - span[0], *shape[axis + 1 :])
    return emit.slice(x, begin, wanted, [1] * len(shape))


def constant_or_reshape(emit: Emitter, x: Value, shape: tuple[int, ...]) -> Value:
    """x with another shape; at compile time where it is constant."""
    return emit.reshape(x, shape) if x.data is None else emit.constant(x.data.reshape(shape), x.name)


def emit_activation(emit: Emitter, x: Value, activation: str, family: Family) -> Value:
    """The bounds of a fused activation, where there are any."""
    low, high = bounds(activation, family)
    if low > -np.inf:
        x = emit.binary("max", x, low)
    return emit.binary("min", x, high) if high < np.inf else x
