"""ONE_HOT."""

from __future__ import annotations

from qimport.frontend.ops import checks
from qimport.frontend.ops.context import OperatorContext, importer
from qimport.qnn.one_hot import OneHot


@importer("ONE_HOT", versions=range(1, 2))
def one_hot(context: OperatorContext) -> None:
    """A new dimension of constant depth, the last one for axis -1."""
    context.operands(4)
    indices, on, off = context.input(0), context.input(2), context.input(3)
    checks.moves(context, on, off, context.out)
    checks.one_of(context, indices, ("int32", "int64"))
    depths = context.integers(1, "depth")
    if len(depths) != 1 or on.type.size != 1 or off.type.size != 1:
        context.malformed("depth, on and off must be one element each")
    shape = indices.type.shape
    axis = context.axis(context.option("axis"), len(shape) + 1)
    context.emit(OneHot(axis=axis), (indices, on, off), (*shape[:axis], depths[0], *shape[axis:]))
