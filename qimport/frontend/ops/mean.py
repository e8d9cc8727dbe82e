"""MEAN."""

from __future__ import annotations

from qimport.frontend.ops import checks
from qimport.frontend.ops.context import OperatorContext, importer
from qimport.qnn.mean import Mean


@importer("MEAN", versions=range(1, 4))
def mean(context: OperatorContext) -> None:
    """Mean over a constant set of dimensions, which may be negative and repeat."""
    context.operands(2)
    x = context.input(0)
    checks.eight_bit(context, x, context.out)
    rank = len(x.type.shape)
    axes = {context.axis(axis, rank) for axis in context.integers(1, "list of dimensions")}
    if not axes:
        context.unsupported("the list of dimensions is empty; expected at least one", context.input(1))
    keep = bool(context.option("keep_dims"))
    shape = [1 if i in axes else size for i, size in enumerate(x.type.shape) if keep or i not in axes]
    context.emit(Mean(axes=tuple(sorted(axes)), keep_dims=keep), (x,), shape)
