"""ADD, SUB, MUL, DIV and SQUARED_DIFFERENCE: of codes, or of plain numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from qimport.frontend.ops import checks
from qimport.frontend.ops.arithmetic import emit_arithmetic
from qimport.frontend.ops.context import OperatorContext, importer
from qimport.frontend.values import tensor_type
from qimport.ir.graph import Value
from qimport.qnn.arithmetic import KINDS
from qimport.qnn.base import QnnOperation
from qimport.qnn.binary import CODES, Mul
from qimport.qnn.div import Div
from qimport.qnn.squared_difference import SquaredDifference
from qimport.qnn.sums import LEFT_SHIFT, Add, Sub

LIMIT = 1 - 2.0**-32
"""Factors below this have a fixed-point form without left shift."""


@importer("ADD", versions=range(1, 7))
def add(context: OperatorContext) -> None:
    """Sum; an absurdly small result scale ends the interpreter's process and is refused."""
    _follow_operand(context)
    _binary(context, "add", _sum(context, Add), _check_sum_scale)


@importer("SUB", versions=range(1, 6))
def sub(context: OperatorContext) -> None:
    """Difference; where ADD would end the interpreter's process SUB gives garbage, and is refused as well."""
    _follow_operand(context)
    _binary(context, "sub", _sum(context, Sub), _check_sum_scale)


@importer("MUL", versions=range(1, 9))
def mul(context: OperatorContext) -> None:
    """Product; whether of a tensor with itself, the delegate wants to know."""
    square = len(context.inputs) == 2 and context.inputs[0] is context.inputs[1]
    _binary(context, "mul", partial(Mul, square=square), _check_product_scale)


@importer("DIV", versions=range(1, 3))
def div(context: OperatorContext) -> None:
    """Quotient."""
    _binary(context, "div", Div, _no_check)


@importer("SQUARED_DIFFERENCE", versions=range(1, 3))
def squared_difference(context: OperatorContext) -> None:
    """Of int8 codes, int32 or float32."""
    context.operands(2)
    a, b = context.input(0), context.input(1)
    if a.type.dtype != "int8":
        emit_arithmetic(context, "squared_difference")
        return
    for value in (a, b, context.out):
        checks.same_type(context, a, value)
        checks.per_tensor(context, value)
    context.emit(SquaredDifference(), (a, b), checks.broadcast(context, (a, b)))


def _binary(
    context: OperatorContext,
    kind: str,
    operation: Callable[[str], QnnOperation],
    check_scales: Callable[[OperatorContext, Value, Value], None],
) -> None:
    context.operands(2)
    a, b = context.input(0), context.input(1)
    if a.type.dtype in KINDS[kind].dtypes:
        emit_arithmetic(context, kind, checks.activation(context))
        return
    _check_codes(context, a, b)
    check_scales(context, a, b)
    shape = checks.broadcast(context, (a, b))
    context.emit(operation(checks.activation(context)), (a, b), shape)


def _follow_operand(context: OperatorContext) -> None:
    """The result of a quantized sum has the second operand's element type, whatever the file says."""
    context.operands(2)
    dtype, (result,) = context.input(1).type.dtype, context.results
    if dtype in CODES and result.value.type.dtype != dtype:
        stated = context.tensors[context.operator.outputs[0]]
        type_ = tensor_type(replace(stated, dtype=dtype), result.value.type.shape)
        context.results = (replace(result, value=Value(type_, result.value.name)),)


def _sum(
    context: OperatorContext, operation: Callable[[str, bool], QnnOperation]
) -> Callable[[str], QnnOperation]:
    powers = bool(context.option("pot_scale_int16")) and context.out.type.dtype == "int16"
    return lambda activation: operation(activation, powers)


def _check_codes(context: OperatorContext, a: Value, b: Value) -> None:
    if a.type.dtype not in CODES:
        wanted = ", ".join(dict.fromkeys((*CODES, *KINDS["add"].dtypes)))
        context.unsupported(f"the element type is {a.type.dtype}; expected one of {wanted}", a)
    checks.same_type(context, a, b)
    for value in (a, b, context.out):
        checks.per_tensor(context, value)


def _check_sum_scale(context: OperatorContext, a: Value, b: Value) -> None:
    shift = LEFT_SHIFT.get(context.out.type.dtype, 0)
    twice = 2 * max(a.type.quant.scale, b.type.quant.scale)
    out = context.out.type.quant.scale
    smallest = twice / 2**shift
    sentence = (
        f"the scale is {out:.9g}; expected more than {smallest:.9g}, the larger input scale / 2^{shift - 1}"
    )
    context.require(twice / (out * 2**shift) < LIMIT, sentence, context.out)


def _no_check(context: OperatorContext, a: Value, b: Value) -> None:
    """The operation itself checks all scales."""


def _check_product_scale(context: OperatorContext, a: Value, b: Value) -> None:
    factor = a.type.quant.scale * b.type.quant.scale / context.out.type.quant.scale
    sentence = f"the product of the input scales / output scale is {factor:g}; expected less than 2^127"
    context.require(factor < 2.0**127, sentence, context.out)
