"""FULLY_CONNECTED: a convolution of one-pixel images."""

from __future__ import annotations

from qimport import prim
from qimport.ir.graph import Value
from qimport.lower.rule import Emitter, Use, rule
from qimport.lower.weighted import emit_weighted, reshaped
from qimport.qnn.dense import Dense


@rule(Dense)
def lower_dense(emit: Emitter, op: Dense, use: Use) -> Value:
    """Mac over [rows, 1, 1, K], Rescale, Clamp."""
    x, w = use.operand(0), use.operand(1)
    outputs, depth = w.type.shape
    rows = emit.reshape(x, (x.type.size // depth, 1, 1, depth))
    input_zero, weight_zero = (use.call.input(i).quant.zero_point for i in (0, 1))
    mac = prim.Mac(input_zero=input_zero, weight_zero=weight_zero)
    result = emit_weighted(emit, op, use, rows, reshaped(emit, w, (outputs, 1, 1, depth)), mac)
    return emit.reshape(result, use.output.shape)
