"""Code for gemmlowp's functions of :mod:`qimport.fixedpoint`, on 64-bit lanes that hold int32 values."""

from __future__ import annotations

from typing import Any

from qimport.codegen.function import I32, I64, KernelFunction, index
from qimport.codegen.vector import clamp_signed, like
from qimport.fixedpoint import INT32_MAX, INT32_MIN


def high_mul(fn: KernelFunction, a: Any, b: Any) -> Any:
    """``saturating_rounding_doubling_high_mul`` of operands that are not both INT32_MIN."""
    product = fn.b.mul(a, b)
    return fn.b.ashr(fn.b.add(product, like(product, 1 << 30)), like(product, 31))


def saturated32(fn: KernelFunction, x: Any) -> Any:
    """``saturate32``."""
    return clamp_signed(fn, x, INT32_MIN, INT32_MAX)


def wrapped32(fn: KernelFunction, x: Any) -> Any:
    """``wrap32`` of one number."""
    return fn.b.sext(fn.b.trunc(x, I32), I64)


def one_over_one_plus_x(fn: KernelFunction, x: Any) -> Any:
    """The function of that name, of an i32."""
    b = fn.b
    half = b.ashr(b.add(b.sext(x, I64), index(2**31)), index(1))
    value = wrapped32(fn, b.add(index(1515870810), high_mul(fn, half, index(-1010580540))))
    for _ in range(3):
        error = wrapped32(fn, b.sub(index(1 << 29), high_mul(fn, half, value)))
        step = saturated32(fn, b.shl(high_mul(fn, value, error), index(2)))
        value = wrapped32(fn, b.add(value, step))
    return saturated32(fn, b.shl(value, index(1)))
