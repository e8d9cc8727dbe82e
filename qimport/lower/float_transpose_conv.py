"""TRANSPOSE_CONV of floats.

The kernels that add one product after the other are convolutions of the input with zeros between its pixels:
their products change no sum. Sums by columns of the window from the first to the last walk through the input
backwards, so that everything is reversed before and after.
"""

from __future__ import annotations

import numpy as np

from qimport import prim
from qimport.ir.graph import Value
from qimport.ir.types import TensorType
from qimport.lower.float_weighted import (
    PIXEL,
    Window,
    constant_or_reshape,
    emit_activation,
    emit_sums,
    part_of,
)
from qimport.lower.rule import Emitter, Use, rule
from qimport.lower.weighted import transposed
from qimport.qnn.float_transpose_conv import FloatTransposeConv
from qimport.qnn.float_weighted import OPTIMIZED, Sums
from qimport.qnn.hybrid_transpose_conv import HybridTransposeConv


@rule(FloatTransposeConv)
def lower_float_transpose_conv(emit: Emitter, op: FloatTransposeConv, use: Use) -> Value:
    """Sums, then the activation."""
    bias = use.operands[2] if len(use.operands) > 2 else None
    sums = op.sums(use.call)
    lower = _products_then_sums if sums.optimized else _sums_of_spread
    result = lower(emit, op, use, bias, sums)
    return emit_activation(emit, result, op.activation, op.kernel_family(use.call))


def _sums_of_spread(emit: Emitter, op: FloatTransposeConv, use: Use, bias: Value | None, sums: Sums) -> Value:
    w = use.operand(1)
    size = w.type.shape[1:3]
    x = placed(emit, op, use, spread(emit, use.operand(0), op.stride), (size[0] - 1, size[1] - 1), size)
    w = transposed(emit, w, (1, 2, 3, 0))
    assert x is not None, "every window sees a pixel"
    if sums.fused:
        x = _reversed(emit, x)
    else:
        w = _reversed_window(emit, w)
    result = emit_sums(emit, x, w, bias, Window(), sums)
    return _reversed(emit, result) if sums.fused else result


def _products_then_sums(
    emit: Emitter, op: FloatTransposeConv, use: Use, bias: Value | None, sums: Sums
) -> Value:
    """Every image times all weights; then one placed image per tap, the last tap first."""
    x, w = use.operand(0), use.operand(1)
    outputs, kh, kw, depth = w.type.shape
    batch = x.type.shape[0]
    matrix = constant_or_reshape(emit, transposed(emit, w, (3, 1, 2, 0)), (1, 1, depth, kh * kw * outputs))
    parts = [
        emit_sums(emit, part_of(emit, x, 0, (number, number + 1)), matrix, None, PIXEL, OPTIMIZED)
        for number in range(batch)
    ]
    products = emit.concat(parts, 0)
    total = emit.constant(np.zeros(use.output.shape, np.float32))
    for tap in reversed(range(kh * kw)):
        own = part_of(emit, products, 3, (tap * outputs, (tap + 1) * outputs))
        image = placed(emit, op, use, spread(emit, own, op.stride), divmod(tap, kw), (1, 1))
        total = total if image is None else emit.binary("add", total, image)
    return total if bias is None else emit.binary("add", total, bias)


def spread(emit: Emitter, x: Value, stride: tuple[int, int]) -> Value:
    """x with stride - 1 zeros after every pixel."""
    if stride == (1, 1):
        return x
    batch, height, width, channels = x.type.shape
    split = emit.reshape(x, (batch, height, 1, width, 1, channels))
    pad = prim.Pad((0,) * 6, (0, 0, stride[0] - 1, 0, stride[1] - 1, 0), 0)
    shape = (batch, height, stride[0], width, stride[1], channels)
    filled = emit.emit(pad, (split,), TensorType("float32", shape))
    return emit.reshape(filled, (batch, height * stride[0], width * stride[1], channels))


def placed(
    emit: Emitter,
    op: FloatTransposeConv | HybridTransposeConv,
    use: Use,
    x: Value,
    before: tuple[int, ...],
    window: tuple[int, ...],
) -> Value | None:
    """The pixels of x that windows over the result see, if x starts ``before`` pixels after the border."""
    low = [before[a] - op.offset[a] for a in (0, 1)]
    wanted = [use.output.shape[1 + a] + window[a] - 1 for a in (0, 1)]
    high = [wanted[a] - low[a] - x.type.shape[1 + a] for a in (0, 1)]
    begin = [max(-n, 0) for n in low]
    end = [x.type.shape[1 + a] - max(-high[a], 0) for a in (0, 1)]
    if begin[0] >= end[0] or begin[1] >= end[1]:
        return None
    for axis in (0, 1):
        x = part_of(emit, x, 1 + axis, (begin[axis], end[axis]))
    pad = prim.Pad((0, *(max(n, 0) for n in low), 0), (0, *(max(n, 0) for n in high), 0), 0)
    if not any((*pad.before, *pad.after)):
        return x
    shape = (x.type.shape[0], *wanted, x.type.shape[3])
    return emit.emit(pad, (x,), TensorType("float32", shape))


def _reversed(emit: Emitter, x: Value) -> Value:
    """x with rows and columns from the last to the first."""
    _, height, width, _ = x.type.shape
    return emit.slice(x, (0, height - 1, width - 1, 0), x.type.shape, (1, -1, -1, 1))


def _reversed_window(emit: Emitter, w: Value) -> Value:
    """HWIO weights with rows and columns from the last to the first."""
    if w.data is not None:
        return emit.constant(np.ascontiguousarray(w.data[::-1, ::-1]))
    kh, kw, _, _ = w.type.shape
    return emit.slice(w, (kh - 1, kw - 1, 0, 0), w.type.shape, (-1, -1, 1, 1))
