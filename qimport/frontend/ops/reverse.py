"""REVERSE_V2 and REVERSE_SEQUENCE."""

from __future__ import annotations

from qimport.frontend.ops import checks
from qimport.frontend.ops.context import OperatorContext, importer
from qimport.qnn.reverse import Reverse, ReverseSequence


@importer("REVERSE_V2", versions=range(1, 5))
def reverse(context: OperatorContext) -> None:
    """Along constant dimensions."""
    context.operands(2)
    x, listed = context.input(0), context.integers(1, "list of dimensions")
    checks.moves(context, x, context.out)
    axes = {context.axis(axis, len(x.type.shape)) for axis in listed}
    if len(axes) != len(listed):
        context.malformed(f"the dimensions {listed} are not distinct")
    context.emit(Reverse(axes=tuple(sorted(axes))), (x,), x.type.shape)


@importer("REVERSE_SEQUENCE", versions=range(1, 2))
def reverse_sequence(context: OperatorContext) -> None:
    """The beginning of each sequence of a batch."""
    context.operands(2)
    x, lengths = context.input(0), context.input(1)
    checks.moves(context, x, context.out)
    checks.one_of(context, lengths, ("int32", "int64"))
    rank = len(x.type.shape)
    sequence, batch = (context.axis(context.option(name), rank) for name in ("seq_dim", "batch_dim"))
    if sequence == batch:
        context.malformed(f"seq_dim and batch_dim are both {batch}")
    if lengths.type.shape != (x.type.shape[batch],):
        context.misfit(f"there are {lengths.type.size} lengths for shape {x.type.shape}", lengths)
    context.emit(ReverseSequence(seq_dim=sequence, batch_dim=batch), (x, lengths), x.type.shape)
