"""FULLY_CONNECTED of floats: a window of one pixel."""

from __future__ import annotations

from qimport.ir.graph import Value
from qimport.lower.float_weighted import PIXEL, constant_or_reshape, emit_activation, emit_sums
from qimport.lower.rule import Emitter, Use, rule
from qimport.lower.weighted import transposed
from qimport.qnn.float_dense import FloatDense


@rule(FloatDense)
def lower_float_dense(emit: Emitter, op: FloatDense, use: Use) -> Value:
    """Rows as images of one pixel, sums, the activation."""
    x, w = use.operand(0), use.operand(1)
    outputs, depth = w.type.shape
    rows = emit.reshape(x, (x.type.size // depth, 1, 1, depth))
    weights = constant_or_reshape(emit, transposed(emit, w, (1, 0)), (1, 1, depth, outputs))
    bias = use.operands[2] if len(use.operands) > 2 else None
    result = emit_sums(emit, rows, weights, bias, PIXEL, op.sums(use.call))
    return emit.reshape(
        emit_activation(emit, result, op.activation, op.kernel_family(use.call)), use.output.shape
    )
