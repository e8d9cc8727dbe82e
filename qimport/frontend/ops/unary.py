"""LOGISTIC, TANH, HARD_SWISH and the RELU family."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from qimport.frontend.ops import checks
from qimport.frontend.ops.context import OperatorContext, importer
from qimport.ir.graph import Value
from qimport.qnn.unary import (
    HardSwish,
    Logistic,
    Relu,
    Relu0To1,
    Relu6,
    ReluN1To1,
    Tanh,
    UnaryOperation,
)

ScaleCheck = Callable[[OperatorContext, Value], None]


def _any_scale(_context: OperatorContext, _x: Value) -> None:
    """Nothing to check."""


def _logistic_scale(context: OperatorContext, _x: Value) -> None:
    scale = context.out.type.quant.scale
    context.require(scale == 1 / 256, f"the scale is {scale:.9g}; expected 1/256", context.out)


def _hard_swish_scale(context: OperatorContext, x: Value) -> None:
    before, after = x.type.quant.scale, context.out.type.quant.scale
    with np.errstate(over="ignore"):
        factor = np.float32(before / 128) / np.float32(after)
    context.require(
        bool(factor < 1), f"the scale is {after:.9g}; expected more than {before / 128:.9g}", context.out
    )


def _relu_scale(context: OperatorContext, x: Value) -> None:
    factor = x.type.quant.scale / context.out.type.quant.scale
    checks.scale_factor(context, factor, "input scale / output scale")


UNARY: tuple[tuple[str, range, type[UnaryOperation], ScaleCheck], ...] = (
    ("LOGISTIC", range(1, 4), Logistic, _logistic_scale),
    ("TANH", range(1, 4), Tanh, _any_scale),
    ("HARD_SWISH", range(1, 2), HardSwish, _hard_swish_scale),
    ("RELU", range(1, 4), Relu, _relu_scale),
    ("RELU6", range(1, 4), Relu6, _relu_scale),
    ("RELU_N1_TO_1", range(1, 2), ReluN1To1, _relu_scale),
    ("RELU_0_TO_1", range(1, 2), Relu0To1, _relu_scale),
)
"""Operator, its versions, its operation, and what it asks of the scales."""


def _unary(operation: type[UnaryOperation], check: ScaleCheck, context: OperatorContext) -> None:
    context.operands(1)
    x = context.input(0)
    checks.eight_bit(context, x, context.out)
    check(context, x)
    context.emit(operation(), (x,), x.type.shape)


for _name, _versions, _operation, _check in UNARY:
    importer(_name, versions=_versions)(partial(_unary, _operation, _check))
