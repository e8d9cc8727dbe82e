"""PRELU."""

from __future__ import annotations

from qimport.frontend.ops import checks
from qimport.frontend.ops.context import OperatorContext, importer
from qimport.qnn.prelu import SLOPES, Prelu


@importer("PRELU", versions=range(1, 2))
def prelu(context: OperatorContext) -> None:
    """With a slope for every element, or one that is stretched."""
    context.operands(2)
    x, alpha, out = context.input(0), context.input(1), context.out
    if x.type.dtype not in SLOPES:
        context.unsupported(f"the element type is {x.type.dtype}; expected one of {', '.join(SLOPES)}", x)
    checks.same_type(context, x, out)
    wanted = SLOPES[x.type.dtype]
    if alpha.type.dtype != wanted:
        context.unsupported(f"the element type of alpha is {alpha.type.dtype}; expected {wanted}", alpha)
    if x.type.dtype != "float32":
        for value in (x, alpha, out):
            checks.per_tensor(context, value)
        factor = x.type.quant.scale * max(alpha.type.quant.scale, 1.0) / out.type.quant.scale
        checks.scale_factor(context, factor, "input scale * alpha's scale / output scale")
    if checks.broadcast(context, (x, alpha)) != x.type.shape:
        context.misfit(f"alpha of shape {alpha.type.shape} does not stretch to {x.type.shape}", alpha)
    context.emit(Prelu(), (x, alpha), x.type.shape)
