"""DEPTHWISE_CONV_2D: a convolution with as many groups as input channels."""

from __future__ import annotations

from qimport import prim
from qimport.ir.graph import Value
from qimport.lower.rule import Emitter, Use, rule
from qimport.lower.weighted import emit_weighted, transposed
from qimport.qnn.depthwise_conv2d import DepthwiseConv2d


@rule(DepthwiseConv2d)
def lower_depthwise_conv2d(emit: Emitter, op: DepthwiseConv2d, use: Use) -> Value:
    """Mac, Rescale, Clamp; the weights [1, KH, KW, C * m] become [C * m, KH, KW, 1]."""
    x, w = use.operand(0), use.operand(1)
    input_zero, weight_zero = (use.call.input(i).quant.zero_point for i in (0, 1))
    mac = prim.Mac(op.stride, op.dilation, op.padding, x.type.shape[3], input_zero, weight_zero)
    return emit_weighted(emit, op, use, x, transposed(emit, w, (3, 1, 2, 0)), mac)
