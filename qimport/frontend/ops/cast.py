"""CAST: the tensors say the element types, the options only repeat them."""

from __future__ import annotations

from qimport.frontend.ops.context import OperatorContext, importer
from qimport.qnn.cast import ELEMENT_TYPES, Cast


@importer("CAST", versions=range(1, 10))
def cast(context: OperatorContext) -> None:
    """From and to the element types with arithmetic."""
    context.operands(1)
    x = context.input(0)
    for value in (x, context.out):
        if value.type.dtype not in ELEMENT_TYPES:
            wanted = ", ".join(ELEMENT_TYPES)
            context.unsupported(f"the element type is {value.type.dtype}; expected one of {wanted}", value)
    context.emit(Cast(), (x,), x.type.shape)
