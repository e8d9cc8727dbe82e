"""CONV_2D of floats."""

from __future__ import annotations

from qimport.ir.graph import Value
from qimport.lower.float_weighted import Window, emit_activation, emit_sums
from qimport.lower.rule import Emitter, Use, rule
from qimport.lower.weighted import transposed
from qimport.qnn.float_conv2d import FloatConv2d


@rule(FloatConv2d)
def lower_float_conv2d(emit: Emitter, op: FloatConv2d, use: Use) -> Value:
    """Sums over windows, then the activation."""
    w = transposed(emit, use.operand(1), (1, 2, 3, 0))
    window = Window(op.stride, op.dilation, op.padding, op.groups)
    result = emit_sums(emit, use.operand(0), w, use.operands[2], window, op.sums(use.call))
    return emit_activation(emit, result, op.activation, op.kernel_family(use.call))
