"""DEPTHWISE_CONV_2D of float activations and int8 weights."""

from __future__ import annotations

from qimport import prim
from qimport.ir.graph import Value
from qimport.lower.hybrid import emit_hybrid
from qimport.lower.rule import Emitter, Use, rule
from qimport.lower.weighted import transposed
from qimport.qnn.hybrid_depthwise_conv2d import HybridDepthwiseConv2d


@rule(HybridDepthwiseConv2d)
def lower_hybrid_depthwise_conv2d(emit: Emitter, op: HybridDepthwiseConv2d, use: Use) -> Value:
    """One group per input channel."""
    x = use.operand(0)
    mac = prim.Mac(op.stride, op.dilation, op.padding, x.type.shape[3])
    return emit_hybrid(emit, op, use, x, transposed(emit, use.operand(1), (3, 1, 2, 0)), mac)
