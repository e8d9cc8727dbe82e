"""CONV_2D of float activations and int8 weights."""

from __future__ import annotations

from qimport import prim
from qimport.ir.graph import Value
from qimport.lower.hybrid import emit_hybrid
from qimport.lower.rule import Emitter, Use, rule
from qimport.qnn.hybrid_conv2d import HybridConv2d


@rule(HybridConv2d)
def lower_hybrid_conv2d(emit: Emitter, op: HybridConv2d, use: Use) -> Value:
    """The weights already lie as ``prim.mac`` wants them."""
    mac = prim.Mac(op.stride, op.dilation, op.padding, op.groups)
    return emit_hybrid(emit, op, use, use.operand(0), use.operand(1), mac)
