"""ATAN2."""

from __future__ import annotations

from qimport.frontend.ops import checks
from qimport.frontend.ops.context import OperatorContext, importer
from qimport.qnn.atan2 import Atan2


@importer("ATAN2", versions=range(1, 2))
def atan2(context: OperatorContext) -> None:
    """(y, x) of one shape."""
    context.operands(2)
    y, x = context.input(0), context.input(1)
    for value in (y, x, context.out):
        checks.one_of(context, value, ("float32",))
    if y.type.shape != x.type.shape:
        context.misfit(f"the operands have shapes {y.type.shape} and {x.type.shape}; expected the same", x)
    context.emit(Atan2(), (y, x), y.type.shape)
