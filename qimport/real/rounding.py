"""Functions of float32 that are exact or correctly rounded as they are."""

from __future__ import annotations

from qimport.real.steps import Lanes, Steps, absolute, not_a_number, with_sign


def sign(at: Steps, x: Lanes) -> Lanes:
    """1, 0 or -1; NaN gives NaN, -0 gives 0."""
    return at.choose(x > 0.0, 1.0, at.choose(x < 0.0, -1.0, at.choose(x == x, 0.0, x)))


def nearest_even(at: Steps, x: Lanes) -> Lanes:
    """The nearest integer, ties to even; zeros keep the sign of x."""
    size, limit = absolute(at, x), 2.0**at.mantissa
    rounded = (size + limit) - limit
    return at.choose(size < limit, with_sign(at, rounded, x), x)


def nearest_even_upwards(at: Steps, x: Lanes) -> Lanes:
    """As :func:`nearest_even`, but only a zero gives -0 (TFLite's ``RoundToNearest``)."""
    return at.choose(x == 0.0, x, nearest_even(at, x) + 0.0)


def floor(at: Steps, x: Lanes) -> Lanes:
    """The largest integer that is not above x."""
    nearest = nearest_even(at, x)
    return with_sign(at, at.choose(nearest > x, nearest - 1.0, nearest), x)


def ceil(at: Steps, x: Lanes) -> Lanes:
    """The smallest integer that is not below x."""
    nearest = nearest_even(at, x)
    return with_sign(at, at.choose(nearest < x, nearest + 1.0, nearest), x)


def square_root(at: Steps, x: Lanes) -> Lanes:
    """Correctly rounded; numbers below zero give NaN.

    The root is that of |x|: LLVM takes one NaN for another and would drop a choice between two.
    """
    root = at.choose(x == x, at.sqrt(absolute(at, x)), x)
    return at.choose(x < 0.0, not_a_number(at, x), root)


LOWEST_EXPONENT = -180.0
"""Numbers about 1 times this power of two are 0 in float32."""

_MAGIC = 1.5 * 2.0**23
"""Adding it leaves an integer in the low bits of a float32."""


def scaled_down(at: Steps, x: Lanes, exponent: Lanes) -> Lanes:
    """x * 2^floor(exponent) of float32, rounded once, for x about 1 and exponents up to 0.

    The first of two factors leaves a normal number.
    """
    whole = floor(at, at.choose(exponent > LOWEST_EXPONENT, exponent, LOWEST_EXPONENT))
    first = at.choose(whole > -64.0, whole, -64.0)
    return (x * _power_of_two(at, first)) * _power_of_two(at, whole - first)


def _power_of_two(at: Steps, exponent: Lanes) -> Lanes:
    return at.floats((at.bits(exponent + _MAGIC) << 23) + (127 << 23))
