"""SHAPE, RANK and BROADCAST_ARGS: shape arithmetic."""

from __future__ import annotations

from qimport.frontend.ops import checks
from qimport.frontend.ops.context import FOLDED_TYPES, OperatorContext, importer
from qimport.qnn.shape import BroadcastArgs, Rank, Shape


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


@importer("RANK", versions=range(1, 2))
def rank(context: OperatorContext) -> None:
    """Give the number of dimensions: a constant as well."""
    context.operands(1)
    if context.out.type.dtype != "int32":
        context.unsupported(f"the element type is {context.out.type.dtype}; expected int32", context.out)
    context.emit(Rank(), (context.input(0),), ())


@importer("BROADCAST_ARGS", versions=range(1, 2))
def broadcast_args(context: OperatorContext) -> None:
    """Give the shape to which two shapes broadcast."""
    context.operands(2)
    a, b = context.input(0), context.input(1)
    checks.one_of(context, a, FOLDED_TYPES)
    checks.moves(context, a, b, context.out)
    for value in (a, b):
        checks.rank(context, value, 1)
    context.emit(BroadcastArgs(), (a, b), (max(a.type.size, b.type.size),))
