"""TRANSPOSE_CONV: one convolution that computes every phase of the stride as output channels of its own.

A result pixel at row i * stride + phase only sees window rows phase, phase + stride, ...: for each phase this
is an ordinary convolution with a window of ceil(window / stride) rows. All phases are computed together;
their results are then interleaved, and the border is cut off.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qimport import prim
from qimport.ir.graph import Array, Value
from qimport.ir.types import TensorType
from qimport.lower.requantization import emit_requantization
from qimport.lower.rule import Emitter, Use, rule
from qimport.lower.weighted import as_bytes
from qimport.qnn.hybrid_transpose_conv import HybridTransposeConv
from qimport.qnn.requantization import Requantization
from qimport.qnn.transpose_conv import TransposeConv


@dataclass(frozen=True)
class Axis:
    """One image dimension: ``taps`` of a phase's window, and the blocks of ``stride`` result rows computed.

    ``before`` and ``after`` are the input's padding, negative where input rows are not needed; ``blocks`` of
    rows come out, of which ``extent`` from ``begin`` on are the result.
    """

    taps: int
    before: int
    after: int
    blocks: int
    begin: int
    extent: int

    @classmethod
    def of(cls, size: int, window: int, stride: int, offset: int, extent: int) -> Axis:
        """For an input of ``size``, and ``extent`` result rows after the first ``offset``."""
        taps = -(-window // stride)
        first, last = offset // stride, (offset + extent - 1) // stride
        return cls(taps, taps - 1 - first, last - size + 1, last - first + 1, offset - first * stride, extent)


@rule(TransposeConv)
def lower_transpose_conv(emit: Emitter, op: TransposeConv, use: Use) -> Value:
    """Mac over all phases, requantization, interleaving; the latter first where rounding depends on place."""
    w, bias = as_bytes(emit, use.operand(1)), use.operands[2] if len(use.operands) > 2 else None
    outputs = w.type.shape[0]
    if bias is None:
        bias = emit.constant(np.zeros(outputs, op.accumulator(use.call)))
    zeros = (use.call.input(0).quant.zero_point, use.call.input(1).quant.zero_point)
    acc, axes = emit_phases(emit, op, (use.operand(0), w, bias), zeros, use.output.shape)
    form, rest = op.requantization(use.call), op.flat_leftover(use.call)
    if form.leftover is None and not rest:
        phases = op.stride[0] * op.stride[1]
        codes = emit_requantization(emit, acc, form.repeated(phases, outputs), use.output.dtype)
        return interleave(emit, codes, op.stride, axes)
    acc = interleave(emit, acc, op.stride, axes)
    if not rest:
        return emit_requantization(emit, acc, form, use.output.dtype)
    return _in_flat_blocks(emit, acc, form, rest, use.output.dtype)


def emit_phases(
    emit: Emitter,
    op: TransposeConv | HybridTransposeConv,
    operands: tuple[Value, Value, Value],
    zeros: tuple[int, int],
    shape: tuple[int, ...],
) -> tuple[Value, tuple[Axis, Axis]]:
    """Sums for a result of ``shape``, each phase in channels of its own, and what :func:`interleave` needs.

    ``operands`` are x, w and bias, ``zeros`` the zero points of the first two.
    """
    x, w, bias = operands
    _, kh, kw, _ = w.type.shape
    axes = (
        Axis.of(x.type.shape[1], kh, op.stride[0], op.offset[0], shape[1]),
        Axis.of(x.type.shape[2], kw, op.stride[1], op.offset[1], shape[2]),
    )
    x = _cut(emit, x, axes)
    padding = tuple((max(axis.before, 0), max(axis.after, 0)) for axis in axes)
    mac = prim.Mac(padding=padding, input_zero=zeros[0], weight_zero=zeros[1])  # type: ignore[arg-type]
    repeated = emit.concat([bias] * (op.stride[0] * op.stride[1]), 0)
    weights = _phase_weights(emit, w, op.stride, (axes[0].taps, axes[1].taps), zeros[1])
    acc = emit.emit(mac, (x, weights, repeated), mac.result_type(x.type, weights.type, bias.type.dtype))
    return acc, axes


def _cut(emit: Emitter, x: Value, axes: tuple[Axis, Axis]) -> Value:
    """The input rows and columns that some result needs."""
    begin = [0, *(max(-axis.before, 0) for axis in axes), 0]
    sizes = [
        size - max(-axis.before, 0) - max(-axis.after, 0)
        for size, axis in zip(x.type.shape[1:3], axes, strict=True)
    ]
    shape = (x.type.shape[0], *sizes, x.type.shape[3])
    return x if shape == x.type.shape else emit.slice(x, begin, shape, (1, 1, 1, 1))


def _phase_weights(
    emit: Emitter, w: Value, stride: tuple[int, int], taps: tuple[int, int], zero: int
) -> Value:
    """[phase row, phase column, O] x taps x I, the last tap first; the zero point behind the window."""
    outputs, kh, kw, depth = w.type.shape
    after = tuple(count * step - size for count, step, size in zip(taps, stride, (kh, kw), strict=True))
    padded_shape = (outputs, kh + after[0], kw + after[1], depth)
    split = (outputs, taps[0], stride[0], taps[1], stride[1], depth)
    shape = (stride[0] * stride[1] * outputs, *taps, depth)
    order = (2, 4, 0, 1, 3, 5)
    if w.data is not None:
        widths = ((0, 0), (0, after[0]), (0, after[1]), (0, 0))
        data: Array = np.pad(w.data, widths, constant_values=zero).reshape(split)[:, ::-1, :, ::-1]
        return emit.constant(np.ascontiguousarray(data.transpose(order)).reshape(shape), w.name)
    pad = prim.Pad((0, 0, 0, 0), (0, *after, 0), zero)
    padded = emit.emit(pad, (w,), TensorType(w.type.dtype, padded_shape)) if any(after) else w
    begin = (0, taps[0] - 1, 0, taps[1] - 1, 0, 0)
    flipped = emit.slice(emit.reshape(padded, split), begin, split, (1, -1, 1, -1, 1, 1))
    moved = TensorType(w.type.dtype, tuple(split[axis] for axis in order))
    return emit.reshape(emit.emit(prim.Transpose(order), (flipped,), moved), shape)


def interleave(emit: Emitter, y: Value, stride: tuple[int, int], axes: tuple[Axis, Axis]) -> Value:
    """[N, rows, columns, phase row, phase column, O] as an image, cut to the result."""
    batch, rows, columns, channels = y.type.shape
    outputs = channels // (stride[0] * stride[1])
    if stride != (1, 1):
        split = (batch, rows, columns, *stride, outputs)
        order = (0, 1, 3, 2, 4, 5)
        moved = TensorType(y.type.dtype, tuple(split[axis] for axis in order))
        y = emit.emit(prim.Transpose(order), (emit.reshape(y, split),), moved)
        y = emit.reshape(y, (batch, rows * stride[0], columns * stride[1], outputs))
    shape = (batch, axes[0].extent, axes[1].extent, outputs)
    if y.type.shape == shape:
        return y
    return emit.slice(y, (0, axes[0].begin, axes[1].begin, 0), shape, (1, 1, 1, 1))


def _in_flat_blocks(emit: Emitter, acc: Value, form: Requantization, rest: int, dtype: str) -> Value:
    """The last ``rest`` elements round half away from zero."""
    size = acc.type.size
    flat = emit.reshape(acc, (size,))
    head = emit.slice(flat, (0,), (size - rest,), (1,))
    tail = emit.slice(flat, (size - rest,), (rest,), (1,))
    codes = [
        emit_requantization(emit, head, form, dtype),
        emit_requantization(emit, tail, form.rounded_as("double_away"), dtype),
    ]
    return emit.reshape(emit.concat(codes, 0), acc.type.shape)
