"""Softmax: the table of exponentials is computed here, the rows are normalized by ``prim.softmax``."""

from __future__ import annotations

from qimport import prim
from qimport.ir.graph import Value
from qimport.lower.rule import Emitter, Use, rule
from qimport.qnn.softmax import Softmax


@rule(Softmax)
def lower_softmax(emit: Emitter, op: Softmax, use: Use) -> Value:
    """Fixed point in the reference kernels, float in the others."""
    x, scale = use.operand(0), use.call.input(0).quant.scale
    if op.kernel_family(use.call) == "reference":
        return emit.emit(prim.Softmax("fixed"), (x, emit.constant(op.fixed_table(scale))), x.type)
    primitive = prim.Softmax("float", use.output.quant.scale)
    return emit.emit(primitive, (x, emit.constant(op.float_table(scale))), x.type)
