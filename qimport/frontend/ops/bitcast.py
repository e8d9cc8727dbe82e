"""BITCAST."""

from __future__ import annotations

from qimport.frontend.ops import checks
from qimport.frontend.ops.context import OperatorContext, importer
from qimport.qnn.bitcast import ELEMENTS, Bitcast


@importer("BITCAST", versions=range(1, 2))
def bitcast(context: OperatorContext) -> None:
    """The bytes of the operand with the element type of the result."""
    context.operands(1)
    x, out = context.input(0), context.out
    checks.one_of(context, x, ELEMENTS)
    checks.one_of(context, out, ("bool",) if x.type.dtype == "bool" == out.type.dtype else _not_bool())
    shape = Bitcast.result_shape(x.type, out.type)
    if shape is None:
        sentence = f"elements of {x.type.dtype} of shape {x.type.shape} do not make {out.type.dtype}"
        context.misfit(sentence, x)
    context.emit(Bitcast(), (x,), shape)


def _not_bool() -> tuple[str, ...]:
    return tuple(dtype for dtype in ELEMENTS if dtype != "bool")
