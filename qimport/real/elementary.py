"""Functions that are no algebra, in float64 with a relative error below 2^-45.

Rounded to float32 once they are the correctly rounded functions in all but about one case in a million.
"""

from __future__ import annotations

import math

from qimport.real.steps import Lanes, Steps, negative, not_a_number, polynomial

_LOG2_E = math.log2(math.e)
_LN2_HIGH, _LN2_LOW = float.fromhex("0x1.62e42feep-1"), float.fromhex("0x1.a39ef35793c76p-33")
"""ln 2 in two parts: products of the first with exponents of float32 are exact."""

_MAGIC = 1.5 * 2.0**52
"""Adding it leaves an integer in the low bits of a float64."""

_EXPM1_TERMS = [1.0 / math.factorial(n) for n in range(1, 15)]


def _exponential(at: Steps, x: Lanes) -> tuple[Lanes, Lanes]:
    """(2^k, q) with exp(x) = 2^k * (1 + q) and |q| < 0.42, for |x| <= 700."""
    shifted = x * _LOG2_E + _MAGIC
    k = shifted - _MAGIC
    r = (x - k * _LN2_HIGH) - k * _LN2_LOW
    power = at.floats((at.bits(shifted) << 52) + (1023 << 52))
    return power, r * polynomial(r, _EXPM1_TERMS)


def _bounded(at: Steps, x: Lanes, limit: float) -> Lanes:
    """x within [-limit, limit]; NaN gives the limit."""
    below = at.choose(x < limit, x, limit)
    return at.choose(below > -limit, below, -limit)


def exp(at: Steps, x: Lanes) -> Lanes:
    """e^x."""
    power, q = _exponential(at, _bounded(at, x, 200.0))
    return at.choose(x == x, power * (1.0 + q), x)


def logistic(at: Steps, x: Lanes) -> Lanes:
    """1 / (1 + e^-x)."""
    power, q = _exponential(at, _bounded(at, negative(at, x), 200.0))
    return at.choose(x == x, 1.0 / (1.0 + power * (1.0 + q)), x)


_SQRT_HALF_BITS = 0x3FE6A09E667F3BCD
_FRACTION = (1 << 52) - 1
_ATANH_TERMS = [2.0 / n for n in range(1, 24, 2)]


def log(at: Steps, x: Lanes) -> Lanes:
    """The natural logarithm: k ln 2 + 2 atanh(f / (2 + f)) of x = 2^k (1 + f), 1 + f about 1."""
    shifted = at.bits(x) + ((1023 << 52) - _SQRT_HALF_BITS)
    k = at.floats((shifted >> 52) | (0x433 << 52)) - (2.0**52 + 1023)
    f = at.floats((shifted & _FRACTION) + _SQRT_HALF_BITS) - 1.0
    s = f / (2.0 + f)
    value = k * _LN2_HIGH + (s * polynomial(s * s, _ATANH_TERMS) + k * _LN2_LOW)
    value = at.choose(x < math.inf, value, x)
    value = at.choose(x < 0.0, not_a_number(at, x), value)
    return at.choose(x == 0.0, -math.inf, value)
