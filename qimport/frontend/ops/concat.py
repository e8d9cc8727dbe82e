"""CONCATENATION."""

from __future__ import annotations

from qimport.frontend.ops import checks
from qimport.frontend.ops.context import OperatorContext, importer
from qimport.qnn.concat import Concat


@importer("CONCATENATION", versions=range(1, 8))
def concatenation(context: OperatorContext) -> None:
    """Operands one after the other; uint8 operands may be quantized unlike the result, int8 ones may not."""
    context.operands(1, len(context.inputs))
    parts = [context.input(index) for index in range(len(context.inputs))]
    checks.moves(context, *parts, context.out)
    activation = context.option("fused_activation_function")
    context.require(activation == "NONE", f"the fused activation is {activation}; expected NONE")
    first = parts[0].type.shape
    axis = context.axis(context.option("axis"), len(first))
    for part in parts:
        shape = part.type.shape
        if len(shape) != len(first) or shape[:axis] + shape[axis + 1 :] != first[:axis] + first[axis + 1 :]:
            sentence = f"tensor {part.name!r} has shape {shape}; expected {first} outside dimension {axis}"
            context.misfit(sentence, part)
        if part.type.dtype == "int8":
            checks.equal_quantization(context, part)
    total = sum(part.type.shape[axis] for part in parts)
    context.emit(Concat(axis=axis), parts, (*first[:axis], total, *first[axis + 1 :]))
