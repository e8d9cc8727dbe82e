"""SELECT and SELECT_V2; WHERE of a constant."""

from __future__ import annotations

import numpy as np

from qimport.frontend.ops import checks
from qimport.frontend.ops.context import OperatorContext, importer
from qimport.ir.graph import Value
from qimport.qnn.reshape import Reshape
from qimport.qnn.select import Select


@importer("SELECT", versions=range(1, 5))
def select(context: OperatorContext) -> None:
    """The condition is one for all, one per index of the first dimension, or one per element."""
    condition, a, b = _operands(context)
    shape, given = a.type.shape, condition.type.shape
    if b.type.shape != shape or given not in ((), shape[:1], shape):
        sentence = f"shapes {given}, {shape} and {b.type.shape}; expected equal ones, or a condition of shape"
        context.misfit(f"{sentence} () or {shape[:1]}", condition)
    if given == shape[:1] and len(shape) > 1:
        type_ = condition.type.with_shape((*given, *(1,) * (len(shape) - 1)))
        condition = context.step(Reshape(), (condition,), type_, f"{condition.name}_rows")
    context.emit(Select(), (condition, a, b), shape)


@importer("SELECT_V2", versions=range(1, 3))
def select_v2(context: OperatorContext) -> None:
    """The three operands broadcast."""
    values = _operands(context)
    context.emit(Select(), values, checks.broadcast(context, values))


def _operands(context: OperatorContext) -> tuple[Value, Value, Value]:
    context.operands(3)
    condition, a, b = (context.input(index) for index in range(3))
    if condition.type.dtype != "bool":
        context.unsupported(
            f"the condition has element type {condition.type.dtype}; expected bool", condition
        )
    checks.same_type(context, a, b)
    checks.same_type(context, a, context.out)
    return condition, a, b


@importer("WHERE", versions=range(1, 3))
def where(context: OperatorContext) -> None:
    """Indices of what is not zero; their number is the result's shape, so the operand must be known."""
    context.operands(1)
    if context.out.type.dtype != "int64":
        context.unsupported(f"the element type is {context.out.type.dtype}; expected int64", context.out)
    condition = context.constant(0, "condition, which decides the shape of the result,")
    context.emit_constant(np.argwhere(condition).astype(np.int64))
