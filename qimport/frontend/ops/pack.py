"""PACK."""

from __future__ import annotations

from qimport.frontend.ops import checks
from qimport.frontend.ops.context import OperatorContext, importer
from qimport.qnn.pack import Pack


@importer("PACK", versions=range(1, 6))
def pack(context: OperatorContext) -> None:
    """Operands of one shape stacked along a new dimension."""
    context.operands(1, len(context.inputs))
    parts = [context.input(index) for index in range(len(context.inputs))]
    checks.moves(context, *parts, context.out)
    count = context.option("values_count")
    if count != len(parts):
        context.malformed(f"it has {len(parts)} operands, but the option values_count says {count}")
    shape = parts[0].type.shape
    for part in parts:
        checks.equal_quantization(context, part)
        if part.type.shape != shape:
            context.misfit(f"tensor {part.name!r} has shape {part.type.shape}; expected {shape}", part)
    axis = context.axis(context.option("axis"), len(shape) + 1)
    context.emit(Pack(axis=axis), parts, (*shape[:axis], len(parts), *shape[axis:]))
