"""SHAPE."""

from __future__ import annotations

from qimport.frontend.ops.context import FOLDED_TYPES, OperatorContext, importer
from qimport.qnn.shape import Shape


@importer("SHAPE", versions=range(1, 2))
def shape(context: OperatorContext) -> None:
    """Give the dimensions of a tensor: a constant, as shapes are chosen at import."""
    context.operands(1)
    x, out = context.input(0), context.out
    if out.type.dtype not in FOLDED_TYPES:
        context.unsupported(
            f"the element type is {out.type.dtype}; expected {' or '.join(FOLDED_TYPES)}", out
        )
    context.emit(Shape(), (x,), (len(x.type.shape),))
