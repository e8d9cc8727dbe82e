"""Functions of one tensor."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from qimport.frontend.ops import checks
from qimport.frontend.ops.context import OperatorContext, importer
from qimport.ir.graph import Value
from qimport.qnn.checks import QUANTIZED
from qimport.qnn.hard_swish import HardSwish
from qimport.qnn.real_function import Ceil, Cos, Floor, Round, Sin, Square
from qimport.qnn.relu import LeakyRelu, Relu, Relu0To1, Relu6, ReluN1To1
from qimport.qnn.root import Rsqrt, Sqrt
from qimport.qnn.sign import Abs, Neg, Sign
from qimport.qnn.tabulated import Elu, Exp, Gelu, Log, Logistic, Tanh
from qimport.qnn.unary import UnaryOperation

ScaleCheck = Callable[[OperatorContext, Value], None]
Make = Callable[[OperatorContext], UnaryOperation]


def _any_scale(_context: OperatorContext, _x: Value) -> None:
    """Nothing to check."""


def _result_scale(context: OperatorContext, _x: Value) -> None:
    count = 2**15 if context.out.type.dtype == "int16" else 2**8
    scale = context.out.type.quant.scale
    context.require(scale == 1 / count, f"the scale is {scale:.9g}; expected 1/{count}", context.out)


def _result_scale_of_int16(context: OperatorContext, x: Value) -> None:
    if context.out.type.dtype == "int16":
        _result_scale(context, x)


def _hard_swish_scale(context: OperatorContext, x: Value) -> None:
    before, after = x.type.quant.scale, context.out.type.quant.scale
    with np.errstate(over="ignore"):
        factor = np.float32(before / 128) / np.float32(after)
    context.require(
        bool(factor < 1), f"the scale is {after:.9g}; expected more than {before / 128:.9g}", context.out
    )


def _factor(context: OperatorContext, x: Value) -> None:
    factor = x.type.quant.scale / context.out.type.quant.scale
    checks.scale_factor(context, factor, "input scale / output scale")


UNARY: tuple[tuple[str, range, type[UnaryOperation], ScaleCheck], ...] = (
    ("ABS", range(1, 6), Abs, _factor),
    ("CEIL", range(1, 2), Ceil, _any_scale),
    ("COS", range(1, 3), Cos, _any_scale),
    ("ELU", range(1, 2), Elu, _any_scale),
    ("EXP", range(1, 3), Exp, _any_scale),
    ("FLOOR", range(1, 2), Floor, _any_scale),
    ("HARD_SWISH", range(1, 2), HardSwish, _hard_swish_scale),
    ("LOG", range(1, 3), Log, _any_scale),
    ("LOGISTIC", range(1, 4), Logistic, _result_scale),
    ("NEG", range(1, 2), Neg, _any_scale),
    ("RELU", range(1, 4), Relu, _factor),
    ("RELU6", range(1, 4), Relu6, _factor),
    ("RELU_0_TO_1", range(1, 2), Relu0To1, _factor),
    ("RELU_N1_TO_1", range(1, 2), ReluN1To1, _factor),
    ("ROUND", range(1, 2), Round, _any_scale),
    ("RSQRT", range(1, 4), Rsqrt, _any_scale),
    ("SIGN", range(1, 3), Sign, _any_scale),
    ("SIN", range(1, 3), Sin, _any_scale),
    ("SQRT", range(1, 3), Sqrt, _any_scale),
    ("SQUARE", range(1, 2), Square, _any_scale),
    ("TANH", range(1, 4), Tanh, _result_scale_of_int16),
)
"""Operator, its versions, its operation, and what it asks of the scales of quantized tensors."""


def _unary(operation: type[UnaryOperation], make: Make, check: ScaleCheck, context: OperatorContext) -> None:
    context.operands(1)
    x, out = context.input(0), context.out
    if x.type.dtype not in operation.TYPES:
        wanted = ", ".join(operation.TYPES)
        context.unsupported(f"the element type is {x.type.dtype}; expected one of {wanted}", x)
    checks.same_type(context, x, out)
    if x.type.dtype in QUANTIZED and not operation.ANY_QUANTIZATION:
        for value in (x, out):
            checks.per_tensor(context, value)
        if operation.CENTRED:
            _zero_points(context, x, out)
        check(context, x)
    context.emit(make(context), (x,), x.type.shape)


def _zero_points(context: OperatorContext, *values: Value) -> None:
    for value in values:
        zero = value.type.quant.zero_point
        fits = value.type.dtype != "int16" or zero == 0
        context.require(fits, f"the zero point is {zero}; expected 0 for int16", value)


def _plain(operation: type[UnaryOperation], _context: OperatorContext) -> UnaryOperation:
    return operation()


for _name, _versions, _operation, _check in UNARY:
    importer(_name, versions=_versions)(partial(_unary, _operation, partial(_plain, _operation), _check))


def _leaky_relu_scale(context: OperatorContext, x: Value) -> None:
    _factor(context, x)
    factor = abs(context.option("alpha")) * x.type.quant.scale / context.out.type.quant.scale
    checks.scale_factor(context, factor, "alpha * input scale / output scale")


importer("LEAKY_RELU", versions=range(1, 3))(
    partial(_unary, LeakyRelu, lambda context: LeakyRelu(context.option("alpha")), _leaky_relu_scale)
)
importer("GELU", versions=range(1, 4))(
    partial(_unary, Gelu, lambda context: Gelu(bool(context.option("approximate"))), _any_scale)
)
