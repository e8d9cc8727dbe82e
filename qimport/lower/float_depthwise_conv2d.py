"""DEPTHWISE_CONV_2D of floats."""

from __future__ import annotations

from qimport.ir.graph import Value
from qimport.lower.float_weighted import Window, emit_activation, emit_sums
from qimport.lower.rule import Emitter, Use, rule
from qimport.lower.weighted import transposed
from qimport.qnn.float_depthwise_conv2d import FloatDepthwiseConv2d


@rule(FloatDepthwiseConv2d)
def lower_float_depthwise_conv2d(emit: Emitter, op: FloatDepthwiseConv2d, use: Use) -> Value:
    """Sums over windows in one group per input channel, then the activation."""
    x = use.operand(0)
    w = transposed(emit, use.operand(1), (1, 2, 0, 3))
    window = Window(op.stride, op.dilation, op.padding, x.type.shape[3])
    result = emit_sums(emit, x, w, use.operands[2], window, op.sums(use.call))
    return emit_activation(emit, result, op.activation, op.kernel_family(use.call))
