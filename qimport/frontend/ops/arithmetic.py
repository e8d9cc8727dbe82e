"""Operators of two tensors of one element type without quantization arithmetic, LOGICAL_NOT and ADD_N."""

from __future__ import annotations

from qimport.frontend.ops import checks
from qimport.frontend.ops.context import OperatorContext, OperatorImporter, importer
from qimport.qnn.arithmetic import KINDS, AddN, Arithmetic, LogicalNot

VERSIONS = {
    "floor_div": range(1, 4),
    "floor_mod": range(1, 3),
    "maximum": range(1, 5),
    "minimum": range(1, 5),
    "and": range(1, 2),
    "or": range(1, 2),
    "xor": range(1, 2),
    "shift_right": range(1, 2),
}
"""Kinds that are an operator of their own; the others share one with quantized arithmetic."""


def emit_arithmetic(context: OperatorContext, kind: str, activation: str = "NONE") -> None:
    """Emit the kind for operands that have one of its element types."""
    form = KINDS[kind]
    a, b = context.input(0), context.input(1)
    if a.type.dtype not in form.dtypes:
        wanted = ", ".join(form.dtypes)
        context.unsupported(f"the element type is {a.type.dtype}; expected one of {wanted}", a)
    checks.same_type(context, a, b)
    checks.same_type(context, a, context.out)
    context.emit(Arithmetic(kind, activation), (a, b), checks.broadcast(context, (a, b)))


def _importer_of(kind: str) -> OperatorImporter:
    def import_kind(context: OperatorContext) -> None:
        context.operands(2)
        emit_arithmetic(context, kind)

    return import_kind


for _kind, _versions in VERSIONS.items():
    importer(KINDS[_kind].tflite, versions=_versions)(_importer_of(_kind))


@importer("LOGICAL_NOT", versions=range(1, 2))
def logical_not(context: OperatorContext) -> None:
    """Of bool."""
    context.operands(1)
    context.emit(LogicalNot(), (context.input(0),), context.input(0).type.shape)


@importer("ADD_N", versions=range(1, 2))
def add_n(context: OperatorContext) -> None:
    """Of tensors of one shape."""
    context.operands(1, len(context.inputs))
    values = [context.input(index) for index in range(len(context.inputs))]
    for value in values:
        checks.same_type(context, context.out, value)
    context.emit(AddN(), values, values[0].type.shape)
