"""DYNAMIC_UPDATE_SLICE."""

from __future__ import annotations

from qimport.frontend.ops import checks
from qimport.frontend.ops.context import OperatorContext, importer
from qimport.qnn.dynamic_slice import DynamicUpdateSlice


@importer("DYNAMIC_UPDATE_SLICE", versions=range(1, 7))
def dynamic_update_slice(context: OperatorContext) -> None:
    """A box of the first operand replaced at a place computed at run time."""
    context.operands(3)
    x, content, begin = (context.input(index) for index in range(3))
    checks.moves(context, x, content, context.out)
    checks.one_of(context, begin, ("int32", "int64"))
    shape, box = x.type.shape, content.type.shape
    if len(box) != len(shape) or any(a > b for a, b in zip(box, shape, strict=True)):
        context.misfit(f"tensor {content.name!r} of shape {box} does not fit into {shape}", content)
    if begin.type.shape != (len(shape),):
        context.misfit(f"begin has shape {begin.type.shape}; expected {(len(shape),)}", begin)
    context.emit(DynamicUpdateSlice(), (x, content, begin), shape)
