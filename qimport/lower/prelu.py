"""PRELU."""

from __future__ import annotations

from qimport.ir.graph import Value
from qimport.ir.types import INTEGER_RANGE
from qimport.lower.rule import Emitter, Use, rule
from qimport.qnn.prelu import Prelu


@rule(Prelu)
def lower_prelu(emit: Emitter, op: Prelu, use: Use) -> Value:
    """Both branches, then a choice."""
    x, alpha, out = use.operand(0), use.operand(1), use.output
    if out.dtype == "float32":
        return emit.select(emit.compare("greater_equal", x, 0.0), x, emit.binary("mul", x, alpha))
    d, slope = (_centred(emit, use, index) for index in (0, 1))
    above, below = op.factors(use.call)
    negative = emit.rescale(emit.binary("mul", d, slope), below)
    chosen = emit.select(emit.compare("greater_equal", d, 0), emit.rescale(d, above), negative)
    return emit.clamp(chosen, out.quant.zero_point, *INTEGER_RANGE[out.dtype], out.dtype)


def _centred(emit: Emitter, use: Use, index: int) -> Value:
    x = emit.cast(use.operand(index), "int32")
    zero = use.call.input(index).quant.zero_point
    return emit.binary("sub", x, zero) if zero else x
