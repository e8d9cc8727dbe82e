"""DIV of codes: a Newton reciprocal in 64-bit integers."""

from __future__ import annotations

from qimport import prim
from qimport.fixedpoint import INT32_MAX, INT32_MIN
from qimport.ir.graph import Value
from qimport.lower.binary import centred
from qimport.lower.rule import Emitter, Use, rule
from qimport.qnn.div import Div

NEWTON_STEPS = 3


@rule(Div)
def lower_div(emit: Emitter, op: Div, use: Use) -> Value:
    """See the docstring of :class:`qimport.qnn.Div`; names as in its ``evaluate``."""
    a, b = (centred(emit, use, index, use.operand(index)) for index in (0, 1))
    negative = emit.compare("less", b, 0)
    a = emit.select(negative, emit.binary("mul", a, -1), a)
    b = emit.select(negative, emit.binary("mul", b, -1), b)
    multiplier, exponent = op.factor(use.call)
    zeros = _leading_zeros(emit, b)
    # A divisor of 0 has 32 leading zeros; its quotient does not matter, but no shift may be that far.
    raised = emit.binary("shift_left", b, emit.binary("min", zeros, 31))
    inverse = _one_over_one_plus_x(emit, emit.binary("sub", raised, INT32_MIN))
    signs = _leading_zeros(emit, emit.binary("xor", a, emit.binary("shift_right", a, 31)))
    signs = emit.binary("sub", signs, 1)
    high = high_mul(emit, emit.cast(emit.binary("shift_left", a, signs), "int64"), inverse)
    scaled = emit.cast(high_mul(emit, high, multiplier), "int32")
    shift = emit.binary("sub", emit.binary("sub", signs, zeros), exponent - 31)
    low, top = op.codes_range(use.call)
    codes = emit.clamp(_shifted(emit, scaled, shift), use.output.quant.zero_point, low, top, use.output.dtype)
    return emit.reshape(codes, use.output.shape)


def _leading_zeros(emit: Emitter, x: Value) -> Value:
    return emit.emit(prim.LeadingZeros(), (x,), x.type)


def high_mul(emit: Emitter, a: Value, b: Value | int) -> Value:
    """gemmlowp ``SaturatingRoundingDoublingHighMul`` of int32 values held as int64."""
    product = emit.binary("add", emit.binary("mul", a, b), 1 << 30)
    return emit.binary("min", emit.binary("shift_right", product, 31), INT32_MAX)


def _saturated(emit: Emitter, x: Value) -> Value:
    return emit.binary("min", emit.binary("max", x, INT32_MIN), INT32_MAX)


def _one_over_one_plus_x(emit: Emitter, value: Value) -> Value:
    """:func:`qimport.fixedpoint.one_over_one_plus_x` of int32, as int64."""
    wide = emit.cast(value, "int64")
    half = emit.binary("shift_right", emit.binary("add", wide, INT32_MAX + 1), 1)
    x = emit.binary("add", high_mul(emit, half, -1010580540), 1515870810)
    for _ in range(NEWTON_STEPS):
        error = emit.binary("sub", emit.number(1 << 29, half), high_mul(emit, half, x))
        step = emit.binary("shift_left", high_mul(emit, x, error), 2)
        x = emit.binary("add", x, _saturated(emit, step))
    return _saturated(emit, emit.binary("shift_left", x, 1))


def _shifted(emit: Emitter, x: Value, shift: Value) -> Value:
    """x shifted down, ties away from zero; from 32 bits on as x86 does it."""
    small = emit.binary("and", shift, 31)
    whole = emit.binary("sub", emit.binary("shift_left", emit.number(1, x), small), 1)
    mask = emit.select(emit.compare("less", shift, 32), whole, emit.number(-1, x))
    sign = emit.binary("shift_right", x, 31)
    threshold = emit.binary("sub", emit.binary("shift_right", mask, 1), sign)
    up = emit.cast(emit.compare("greater", emit.binary("and", x, mask), threshold), "int32")
    return emit.binary("add", emit.binary("shift_right", x, small), up)
