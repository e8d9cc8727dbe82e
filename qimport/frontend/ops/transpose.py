"""TRANSPOSE."""

from __future__ import annotations

from qimport.frontend.ops import checks
from qimport.frontend.ops.context import OperatorContext, importer
from qimport.qnn.transpose import Transpose


@importer("TRANSPOSE", versions=range(1, 10))
def transpose(context: OperatorContext) -> None:
    """Dimensions in another order; entries may count from the back."""
    context.operands(2)
    x, order = context.input(0), context.integers(1, "permutation")
    checks.moves(context, x, context.out)
    rank = len(x.type.shape)
    permutation = tuple(context.axis(axis, rank) for axis in order)
    if sorted(permutation) != list(range(rank)):
        context.misfit(f"{order} is no permutation of the {rank} dimensions of tensor {x.name!r}", x)
    context.emit(Transpose(permutation=permutation), (x,), [x.type.shape[axis] for axis in permutation])
