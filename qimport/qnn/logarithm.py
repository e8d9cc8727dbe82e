"""The natural logarithm in fixed point (``reference_ops::log_x_for_x_greater_than_or_equal_to_1``).

A number z of Q12.19 is 2^n * r. n is found once from z and once from z * sqrt(1/2), so that r can be chosen
from sqrt(1/2) to 1; log r is a rational function about fourth root of 1/2.
The steps are written once, for :class:`Numbers` in NumPy and for values of a graph that is being lowered.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from qimport import fixedpoint as fp
from qimport.fixedpoint import Int

Number = Any
"""An int32 number in int64, that knows + - * with numbers and with Python's."""

INTEGER_BITS, RESULT_BITS, WORKING_BITS = 12, 5, 6
LN_2, SQRT_HALF, FOURTH_ROOT_HALF = 1488522236, 1518500250, 1805811301
QUARTER = 2**29 >> WORKING_BITS
ALPHA_N, ALPHA_D, ALPHA_I, ALPHA_F = 117049297, 127690142, 1057819769, 638450708


class Numbers(Protocol):
    """What numbers cannot do with operators alone."""

    def wrap(self, a: Number) -> Number:
        """Modulo 2^32 into the range of int32."""

    def saturate(self, a: Number) -> Number:
        """Clamped to the range of int32."""

    def shift_left(self, a: Number, count: Number | int) -> Number:
        """a * 2^count."""

    def shift_right(self, a: Number, count: Number | int) -> Number:
        """Rounded down."""

    def leading_zeros(self, a: Number) -> Number:
        """Of 32 bits."""

    def smaller(self, a: Number, b: Number) -> Number:
        """The minimum."""

    def larger(self, a: Number, b: Number) -> Number:
        """The maximum."""


def high_mul(on: Numbers, a: Number, b: Number | int) -> Number:
    """``saturating_rounding_doubling_high_mul`` of numbers that are not both -2^31."""
    return on.shift_right(a * b + 2**30, 31)


def divide_by_pot(on: Numbers, a: Number, exponent: int) -> Number:
    """``rounding_divide_by_pot``."""
    return on.shift_right(a + on.shift_right(a, 63) + (1 << (exponent - 1)), exponent)


def reciprocal(on: Numbers, a: Number) -> Number:
    """``one_over_one_plus_x``."""
    half = on.shift_right(a + 2**31, 1)
    x = on.wrap(high_mul(on, half, -1010580540) + 1515870810)
    for _ in range(3):
        error = on.wrap(high_mul(on, half, x) * -1 + 2**29)
        x = on.wrap(x + on.saturate(on.shift_left(high_mul(on, x, error), 2)))
    return on.saturate(on.shift_left(x, 1))


def logarithm(on: Numbers, z: Number) -> Number:
    """log z of raw Q12.19 z >= 1, raw Q5.26."""

    def power(zeros: Number, offset: int) -> Number:
        raw = on.saturate(on.shift_left(zeros * -1 + INTEGER_BITS, 31 - WORKING_BITS))
        return on.saturate(raw + offset)

    zeros = on.leading_zeros(z)
    first = high_mul(on, on.saturate(on.shift_left(z, zeros + -1)), SQRT_HALF)
    first, first_power = on.saturate(on.shift_left(first, 1)), power(zeros, QUARTER)
    zeros = on.leading_zeros(high_mul(on, z, SQRT_HALF)) + -1
    second, second_power = on.saturate(on.shift_left(z, zeros)), power(zeros, -QUARTER)
    r = on.smaller(first, second)
    total = r + FOURTH_ROOT_HALF
    p = on.shift_right(total + 1, 1)
    q = on.wrap((r + -FOURTH_ROOT_HALF) * 2)
    c = high_mul(on, q, q)
    cubic = high_mul(on, high_mul(on, q, c), ALPHA_N)
    numerator = on.wrap(high_mul(on, q, r) + cubic)
    inner = on.wrap(on.wrap(q + ALPHA_I) + high_mul(on, c, ALPHA_D))
    denominator = on.wrap(high_mul(on, p, inner) + high_mul(on, q, ALPHA_F))
    quotient = high_mul(on, divide_by_pot(on, numerator, WORKING_BITS), reciprocal(on, denominator))
    whole = high_mul(on, on.larger(first_power, second_power), LN_2)
    return on.saturate(on.shift_left(on.wrap(whole + quotient), WORKING_BITS - RESULT_BITS))


class _Arrays:
    """:class:`Numbers` on int64 arrays."""

    def wrap(self, a: Int) -> Int:
        return fp.wrap32(a)

    def saturate(self, a: Int) -> Int:
        return fp.saturate32(a)

    def shift_left(self, a: Int, count: Number) -> Int:
        return np.asarray(a << count, np.int64)

    def shift_right(self, a: Int, count: Number) -> Int:
        return np.asarray(a >> count, np.int64)

    def leading_zeros(self, a: Int) -> Int:
        return fp.count_leading_zeros32(a & 0xFFFFFFFF)

    def smaller(self, a: Int, b: Int) -> Int:
        return np.asarray(np.minimum(a, b), np.int64)

    def larger(self, a: Int, b: Int) -> Int:
        return np.asarray(np.maximum(a, b), np.int64)


def log_of_at_least_one(z: Int) -> Int:
    """:func:`logarithm` of an array."""
    return np.asarray(logarithm(_Arrays(), z), np.int64)
