"""Functions of one tensor: a table for 8 bits, ``prim.math`` for float32, integers otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from qimport import fixedpoint as fp
from qimport.ir.graph import Value
from qimport.ir.types import INTEGER_RANGE
from qimport.lower.rule import Emitter, Use, rule
from qimport.lower.sigmoid16 import emit_logistic16, emit_tanh16
from qimport.lower.tables import emit_table, emit_table_in_blocks
from qimport.numerics import Family
from qimport.qnn.checks import EIGHT_BIT
from qimport.qnn.hard_swish import HardSwish
from qimport.qnn.real_function import REAL_FUNCTIONS
from qimport.qnn.relu import RELU_FAMILY, BoundedIdentity, LeakyRelu
from qimport.qnn.root import Rsqrt, Sqrt
from qimport.qnn.sign import Abs, Neg, Sign
from qimport.qnn.tabulated import TABULATED, Exp, Gelu, Log, Logistic, TabulatedFunction, Tanh
from qimport.qnn.unary import UnaryOperation


def lower_unary(emit: Emitter, op: UnaryOperation, use: Use) -> Value:
    """By the element type."""
    x, family = use.operand(0), op.kernel_family(use.call)
    if x.type.dtype == "float32":
        return _real(emit, op, x, family)
    if x.type.dtype in EIGHT_BIT:
        block = op.code_block(use.call)
        return emit_table_in_blocks(emit, op, use, block) if block else emit_table(emit, op, use)
    return WIDE_INTEGERS[type(op)](emit, op, use)


def _real(emit: Emitter, op: UnaryOperation, x: Value, family: Family) -> Value:
    kind = op.real_function(family)
    leftover = op.leftover(family)
    if leftover is None:
        return emit.math(kind, x)
    block, rest = leftover
    return emit.in_blocks(x, block, lambda part: emit.math(kind, part), lambda part: emit.math(rest, part))


def _knots(emit: Emitter, op: TabulatedFunction | Rsqrt, use: Use) -> Value:
    return emit.lut16(use.operand(0), op.knots(use.call.input(0), use.output, op.kernels(use.call)))


def _scaled(emit: Emitter, x: Value, factor: float, bounds: tuple[int, int]) -> Value:
    """int16 times a factor, as int16 within ``bounds``."""
    return emit.clamp(emit.rescale(emit.cast(x, "int32"), factor), 0, *bounds, "int16")


def _bounded(emit: Emitter, op: BoundedIdentity, use: Use) -> Value:
    factor = fp.f32(use.call.input(0).quant.scale / use.output.quant.scale)
    return _scaled(emit, use.operand(0), factor, op.bounds(use.output))


def _leaky(emit: Emitter, op: LeakyRelu, use: Use) -> Value:
    x = emit.cast(use.operand(0), "int32")
    above, below = op.factors(use.call.input(0), use.output)
    if below >= 0:
        small = emit.rescale(x, below)
    elif op.kernel_family(use.call) == "reference":
        small = emit.negative(emit.rescale(x, -below))
    else:
        small = emit.rescale(emit.negative(x), -below)
    chosen = emit.select(emit.compare("greater_equal", x, 0), emit.rescale(x, above), small)
    return emit.clamp(chosen, 0, *INTEGER_RANGE["int16"], "int16")


def _sqrt(emit: Emitter, op: Sqrt, use: Use) -> Value:
    x = emit.binary("max", emit.cast(use.operand(0), "int32"), 0)
    scaled = emit.binary("mul", emit.cast(x, "float32"), use.call.input(0).quant.scale)
    root = emit.binary("div", emit.math("sqrt", scaled), use.output.quant.scale)
    return emit.clamp(emit.cast(root, "int32"), 0, *INTEGER_RANGE["int16"], "int16")


def _abs(emit: Emitter, op: Abs, use: Use) -> Value:
    x = emit.cast(use.operand(0), "int32")
    size = emit.binary("max", x, emit.negative(x))
    if use.output.dtype == "int32":
        return size
    before, after = use.call.input(0).quant.scale, use.output.quant.scale
    if before != after:
        size = emit.rescale(size, fp.f32(before / after))
    return emit.clamp(size, 0, *INTEGER_RANGE["int16"], "int16")


def _negative(emit: Emitter, op: Neg, use: Use) -> Value:
    return emit.negative(use.operand(0))


def _logistic(emit: Emitter, op: Logistic, use: Use) -> Value:
    return emit_logistic16(emit, use.operand(0), use.call.input(0).quant.scale, op.kernel_family(use.call))


def _tanh(emit: Emitter, op: Tanh, use: Use) -> Value:
    return emit_tanh16(emit, use.operand(0), use.call.input(0).quant.scale, op.kernel_family(use.call))


WIDE_INTEGERS: dict[type[UnaryOperation], Callable[[Emitter, Any, Use], Value]] = {
    **dict.fromkeys(RELU_FAMILY, _bounded),
    **dict.fromkeys((Exp, Gelu, Log, Rsqrt), _knots),
    Abs: _abs,
    LeakyRelu: _leaky,
    Logistic: _logistic,
    Neg: _negative,
    Sqrt: _sqrt,
    Tanh: _tanh,
}
"""How functions of int16, int32 and int64 are lowered."""

for _operation in (*TABULATED, *RELU_FAMILY, *REAL_FUNCTIONS, Abs, HardSwish, Neg, Rsqrt, Sqrt):
    rule(_operation)(lower_unary)


@rule(LeakyRelu)
def lower_leaky_relu(emit: Emitter, op: LeakyRelu, use: Use) -> Value:
    """float32 needs a product and a choice."""
    x = use.operand(0)
    if x.type.dtype != "float32":
        return lower_unary(emit, op, use)
    below = emit.binary("mul", x, float(np.float32(op.alpha)))
    if op.kernel_family(use.call) == "xnnpack":
        return emit.select(emit.compare("less", x, 0.0), below, x)
    return emit.select(emit.compare("greater", x, 0.0), x, below)


@rule(Sign)
def lower_sign(emit: Emitter, op: Sign, use: Use) -> Value:
    """Comparisons choose between constants; only a NaN differs from itself."""
    x = use.operand(0)
    zero, one, minus_one = (emit.number(number, x) for number in (0, 1, -1))
    rest = emit.select(emit.compare("equal", x, x), zero, x)
    rest = emit.select(emit.compare("less", x, zero), minus_one, rest)
    return emit.select(emit.compare("greater", x, zero), one, rest)
