"""POW."""

from __future__ import annotations

from qimport.frontend.ops import checks
from qimport.frontend.ops.context import OperatorContext, importer
from qimport.ir.graph import Value
from qimport.qnn.pow import Pow

EPSILON = 1e-5
"""How far an exponent may be from a whole number to count as one."""


@importer("POW", versions=range(1, 2))
def pow_(context: OperatorContext) -> None:
    """One number that is stretched is another computation, so its content must be known."""
    context.operands(2)
    x, y = context.input(0), context.input(1)
    if x.type.dtype not in ("int32", "float32"):
        context.unsupported(f"the element type is {x.type.dtype}; expected int32 or float32", x)
    checks.same_type(context, x, y)
    checks.same_type(context, x, context.out)
    shape = checks.broadcast(context, (x, y))
    exponent = _whole(context, y) if y.type.size == 1 and x.type.shape != y.type.shape else None
    if exponent is None:
        context.emit(Pow(), (x, y), shape)
    else:
        context.emit(Pow(exponent), (x,), shape)


def _whole(context: OperatorContext, y: Value) -> int | None:
    """Return the exponent if it is a positive whole number."""
    number = float(context.constant(1, "exponent of one element").reshape(-1)[0])
    nearest = round(number)
    return nearest if abs(number - nearest) < EPSILON and nearest >= 1 else None
