"""CONV_2D: one multiply-accumulate node; the weights already lie as it wants them."""

from __future__ import annotations

from qimport import prim
from qimport.ir.graph import Value
from qimport.lower.rule import Emitter, Use, rule
from qimport.lower.weighted import emit_weighted
from qimport.qnn.conv2d import Conv2d


@rule(Conv2d)
def lower_conv2d(emit: Emitter, op: Conv2d, use: Use) -> Value:
    """Mac, Rescale, Clamp."""
    input_zero, weight_zero = (use.call.input(i).quant.zero_point for i in (0, 1))
    mac = prim.Mac(op.stride, op.dilation, op.padding, op.groups, input_zero, weight_zero)
    return emit_weighted(emit, op, use, use.operand(0), use.operand(1), mac)
