"""Float to integer with every rounding and overflow rule, without library calls.

LLVM's fptosi is undefined outside the integer's range, so operands are brought inside first.
"""

from __future__ import annotations

from typing import Any, Literal

from qimport.codegen.function import F64, I32, KernelFunction
from qimport.codegen.vector import clamp_float, constant, element_of, like, magnitude, mangled, retyped

INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1


def to_float(fn: KernelFunction, value: Any, element: Any) -> Any:
    """Signed integers to floats of type ``element``, ties to even."""
    return fn.b.sitofp(value, retyped(value, element))


def small_even(fn: KernelFunction, value: Any, low: int, high: int, offset: int) -> Any:
    """round_half_even(clamp(value, low, high)) + offset for float32 and bounds within 2^22, as int32.

    Adding 1.5 * 2^23 leaves the rounded number in the low bits. A NaN counts as ``low``.
    """
    magic, bits = 1.5 * 2**23, 0x4B400000
    shifted = fn.b.fadd(clamp_float(fn, value, low, high), like(value, magic))
    integer = fn.b.bitcast(shifted, retyped(value, I32))
    return fn.b.add(integer, like(integer, offset - bits))


def nearest_even(fn: KernelFunction, value: Any) -> Any:
    """The value rounded to an integer, ties to even, still a float; huge values, infinities and NaNs stay.

    The sign of a zero is any.
    """
    if fn.target.has("sse4.2") or fn.target.has("neon"):
        return fn.intrinsic(f"llvm.roundeven.{mangled(value.type)}", value.type, [value])
    limit = like(value, float(2**52 if element_of(value.type) == F64 else 2**23))
    size = magnitude(fn, value)
    rounded = fn.b.fsub(fn.b.fadd(size, limit), limit)
    signed = fn.b.select(fn.b.fcmp_ordered("<", value, like(value, 0.0)), fn.b.fneg(rounded), rounded)
    return fn.b.select(fn.b.fcmp_ordered("<", size, limit), signed, value)


def to_int32(
    fn: KernelFunction,
    value: Any,
    rounding: Literal["even", "away"],
    saturate: bool,
    nan_to_zero: bool = False,
) -> Any:
    """float32 or float64 to int32 as ``prim.to_int`` specifies."""
    if nan_to_zero:
        value = fn.b.select(fn.b.fcmp_ordered("ord", value, value), value, like(value, 0.0))
    double = element_of(value.type) == F64
    if rounding == "even":
        value = nearest_even(fn, value)
    # The smallest and largest operands whose rounded value fits; float32 knows no fractions there.
    half = 0.5 if double and rounding == "away" else 0.0
    above = float(INT32_MAX) + 0.5 if double else 2.0**31
    over = fn.b.fcmp_unordered(">=", value, like(value, above))
    low_ok = ">" if half else ">="
    inside = fn.b.and_(
        fn.b.not_(over), fn.b.fcmp_ordered(low_ok, value, like(value, float(INT32_MIN) - half))
    )
    safe = fn.b.select(inside, value, like(value, 0.0))
    result = fn.b.fptosi(safe, retyped(value, I32))
    if rounding == "away":
        result = _step_away(fn, safe, result)
    outside = constant(result.type, INT32_MIN)
    if saturate:
        outside = fn.b.select(over, constant(result.type, INT32_MAX), outside)
    return fn.b.select(inside, result, outside)


def truncated(fn: KernelFunction, value: Any, integer: Any, low: int, high: int) -> Any:
    """float32 or float64 toward zero, saturating to [low, high] of lanes ``integer``; NaN is ``high``.

    Both low and high + 1 are powers of two or 0, so that every float type has them.
    """
    over = fn.b.fcmp_unordered(">=", value, like(value, float(high + 1)))
    under = fn.b.fcmp_ordered("<", value, like(value, float(low)))
    safe = fn.b.select(fn.b.or_(over, under), like(value, 0.0), value)
    result = fn.b.fptosi(safe, retyped(value, integer))
    result = fn.b.select(under, like(result, low), result)
    return fn.b.select(over, like(result, high), result)


def _step_away(fn: KernelFunction, value: Any, truncated: Any) -> Any:
    """One further from zero where the cut-off fraction, which is exact, reaches one half."""
    rest = fn.b.fsub(value, fn.b.sitofp(truncated, value.type))
    up = fn.b.fcmp_ordered(">=", rest, like(value, 0.5))
    down = fn.b.fcmp_ordered("<=", rest, like(value, -0.5))
    stepped = fn.b.add(truncated, fn.b.zext(up, truncated.type))
    return fn.b.sub(stepped, fn.b.zext(down, truncated.type))


def divide_away(fn: KernelFunction, value: Any, divisor: Any, element: Any) -> Any:
    """int32 / positive int32, ties away from zero: trunc((|value| + divisor // 2) / divisor), value's sign.

    ``element`` is a float type that holds the numerator and never rounds the quotient up to an integer.
    """
    signed = to_float(fn, value, element)
    half = to_float(fn, fn.b.lshr(divisor, like(divisor, 1)), element)
    numerator = fn.b.fadd(magnitude(fn, signed), half)
    quotient = fn.b.fdiv(numerator, to_float(fn, divisor, element))
    negative = fn.b.fcmp_ordered("<", signed, like(signed, 0.0))
    return fn.b.fptosi(fn.b.select(negative, fn.b.fneg(quotient), quotient), value.type)
