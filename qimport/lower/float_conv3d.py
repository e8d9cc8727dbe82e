"""CONV_3D of floats."""

from __future__ import annotations

import math
from itertools import product

import numpy as np

from qimport.ir.graph import Value
from qimport.lower.float_weighted import PIXEL, constant_or_reshape, emit_activation, emit_sums
from qimport.lower.rule import Emitter, Use, rule
from qimport.qnn.float_conv3d import FloatConv3d
from qimport.qnn.float_weighted import Sums


@rule(FloatConv3d)
def lower_float_conv3d(emit: Emitter, op: FloatConv3d, use: Use) -> Value:
    """A product of patches, as images of one pixel, and all weights."""
    bias = use.operands[2] if len(use.operands) > 2 else None
    operands, sums = (use.operand(0), use.operand(1), bias), op.sums(use.call)
    result = emit_conv3d(emit, op, operands, use.output.shape, sums)
    return emit_activation(emit, result, op.activation, op.kernel_family(use.call))


def emit_conv3d(
    emit: Emitter,
    op: FloatConv3d,
    operands: tuple[Value, Value, Value | None],
    out: tuple[int, ...],
    sums: Sums,
) -> Value:
    """Sums for a result of shape ``out`` from x, w and bias."""
    x, w, bias = operands
    depth, outputs = w.type.size // out[4], out[4]
    if np.any(op.padding):
        before, after = zip(*op.padding, strict=True)
        x = emit.pad(x, (0, *before, 0), (0, *after, 0), 0)
    shape, step = (*out[:4], x.type.shape[4]), (1, *op.stride, 1)
    spans = [op.span(tap, out[1:4]) for tap in product(*map(range, w.type.shape[:3]))]
    parts = [emit.slice(x, (0, *(span.start for span in tap), 0), shape, step) for tap in spans]
    patches = emit.reshape(emit.concat(parts, 4), (math.prod(out[:4]), 1, 1, depth))
    weights = constant_or_reshape(emit, w, (1, 1, depth, outputs))
    return emit.reshape(emit_sums(emit, patches, weights, bias, PIXEL, sums), out)
