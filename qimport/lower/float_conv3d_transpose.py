"""CONV_3D_TRANSPOSE of floats."""

from __future__ import annotations

from itertools import product

import numpy as np

from qimport.ir.graph import Value
from qimport.lower.float_conv3d import emit_conv3d
from qimport.lower.float_weighted import PIXEL, emit_activation, emit_sums, part_of
from qimport.lower.rule import Emitter, Use, rule
from qimport.qnn.float_conv3d import FloatConv3d
from qimport.qnn.float_conv3d_transpose import FloatConv3dTranspose
from qimport.qnn.float_weighted import OPTIMIZED, REFERENCE


@rule(FloatConv3dTranspose)
def lower_float_conv3d_transpose(emit: Emitter, op: FloatConv3dTranspose, use: Use) -> Value:
    """Sums, then the activation."""
    lower = _products_then_sums if op.sums(use.call).optimized else _sums_of_spread
    return emit_activation(emit, lower(emit, op, use), op.activation, op.kernel_family(use.call))


def _sums_of_spread(emit: Emitter, op: FloatConv3dTranspose, use: Use) -> Value:
    """A convolution of the input with zeros between its voxels: their products change no sum."""
    w = emit.transpose(use.operand(1), (0, 1, 2, 4, 3))
    size = w.type.shape[:3]
    backwards = emit.slice(w, (*(n - 1 for n in size), 0, 0), w.type.shape, (-1, -1, -1, 1, 1))
    spread = _spread(emit, use.operand(0), op.stride)
    x = _placed(emit, op, use, spread, tuple(n - 1 for n in size), size)
    assert x is not None, "every window sees a voxel"
    return emit_conv3d(emit, FloatConv3d(), (x, backwards, _bias(use)), use.output.shape, REFERENCE)


def _products_then_sums(emit: Emitter, op: FloatConv3dTranspose, use: Use) -> Value:
    """Every image times all weights; then one placed image per tap, the last tap first."""
    x, w = use.operand(0), use.operand(1)
    *size, outputs, depth = w.type.shape
    taps = int(np.prod(size))
    matrix = emit.transpose(emit.reshape(w, (taps * outputs, depth)), (1, 0))
    matrix = emit.reshape(matrix, (1, 1, depth, taps * outputs))
    rows = emit.reshape(x, (x.type.shape[0], x.type.size // (x.type.shape[0] * depth), 1, depth))
    parts = [
        emit_sums(emit, part_of(emit, rows, 0, (n, n + 1)), matrix, None, PIXEL, OPTIMIZED)
        for n in range(x.type.shape[0])
    ]
    products = emit.reshape(emit.concat(parts, 0), (*x.type.shape[:4], taps * outputs))
    total = emit.constant(np.zeros(use.output.shape, np.float32))
    for number, tap in reversed(list(enumerate(product(*map(range, size))))):
        own = part_of(emit, products, 4, (number * outputs, (number + 1) * outputs))
        image = _placed(emit, op, use, _spread(emit, own, op.stride), tap, (1, 1, 1))
        total = total if image is None else emit.binary("add", total, image)
    bias = _bias(use)
    return total if bias is None else emit.binary("add", total, bias)


def _bias(use: Use) -> Value | None:
    return use.operands[2] if len(use.operands) > 2 else None


def _spread(emit: Emitter, x: Value, stride: tuple[int, int, int]) -> Value:
    """x with stride - 1 zeros after every voxel."""
    batch, *extent, channels = x.type.shape
    for axis, step in enumerate(stride):
        if step > 1:
            before, after = extent[: axis + 1], extent[axis + 1 :]
            split = emit.reshape(x, (batch, *before, 1, *after, channels))
            rank = len(split.type.shape)
            room = tuple(step - 1 if place == axis + 2 else 0 for place in range(rank))
            extent[axis] *= step
            x = emit.reshape(emit.pad(split, (0,) * rank, room, 0), (batch, *extent, channels))
    return x


def _placed(
    emit: Emitter,
    op: FloatConv3dTranspose,
    use: Use,
    x: Value,
    before: tuple[int, ...],
    window: tuple[int, ...],
) -> Value | None:
    """The voxels of x that windows over the result see, if x starts ``before`` voxels after the border."""
    extent = x.type.shape[1:4]
    low = [first - offset for first, offset in zip(before, op.offset, strict=True)]
    wanted = [size + reach - 1 for size, reach in zip(use.output.shape[1:4], window, strict=True)]
    high = [whole - first - size for whole, first, size in zip(wanted, low, extent, strict=True)]
    spans = [
        (max(-first, 0), size - max(-last, 0)) for first, last, size in zip(low, high, extent, strict=True)
    ]
    if any(begin >= end for begin, end in spans):
        return None
    for axis, span in enumerate(spans):
        x = part_of(emit, x, 1 + axis, span)
    room, behind = ((0, *(max(n, 0) for n in ends), 0) for ends in (low, high))
    return emit.pad(x, room, behind, 0) if any((*room, *behind)) else x
