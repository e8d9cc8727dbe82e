"""Functions of float32 as XNNPACK's kernels for AVX-512 compute them, which run on the interpreter's x86-64.

Polynomials and rational functions in fused multiply-adds. Constants are those of its sources, every step is
one IEEE operation. The kernels run with denormal numbers switched off: operands and results below 2^-126 are
0. No difference in 400,000 operands per function.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import wraps

import numpy as np

from qimport.real.rounding import LOWEST_EXPONENT, nearest_even, scaled_down
from qimport.real.steps import Function, Lanes, Steps, flushed, settled, sign_bit


def _f32(value: float) -> float:
    return float(np.float32(value))


def _numbers(*values: float) -> list[float]:
    return [_f32(value) for value in values]


_LOG2_E = float.fromhex("0x1.715476p+0")


def _horner(at: Steps, x: Lanes, coefficients: Sequence[float]) -> Lanes:
    """A polynomial in fused steps, lowest power first."""
    result = at.fma(x, coefficients[-1], coefficients[-2])
    for coefficient in reversed(coefficients[:-2]):
        result = at.fma(x, result, coefficient)
    return result


def _at_most(at: Steps, x: Lanes, limit: Lanes | float) -> Lanes:
    """``limit`` where it is smaller."""
    return at.choose(x > limit, limit, x)


def _at_least(at: Steps, x: Lanes, limit: Lanes | float) -> Lanes:
    """``limit`` where it is larger."""
    return at.choose(x < limit, limit, x)


def _within(at: Steps, x: Lanes, limit: float) -> Lanes:
    return _at_least(at, _at_most(at, x, limit), -limit)


def _kernel(function: Function) -> Function:
    """``function`` from and to numbers that are not denormal."""

    @wraps(function)
    def flushing(at: Steps, x: Lanes) -> Lanes:
        return flushed(at, function(at, flushed(at, x)))

    return flushing


_SIGMOID_STEPS = 32
_SIGMOID_POWERS = [_f32(2.0 ** (k / _SIGMOID_STEPS)) for k in range(_SIGMOID_STEPS)]
_SIGMOID_MAGIC = 1.5 * 2.0**18
_SIGMOID_LN2 = (float.fromhex("0x1.62E430p-1"), float.fromhex("-0x1.05C61p-29"))
_SIGMOID_TERMS = (float.fromhex("0x1.0000F6p-0"), 0.5)


@_kernel
def logistic(at: Steps, x: Lanes) -> Lanes:
    """``f32_vsigmoid``: e / (e + 1) of e = exp(-|x|), a table for 2^(k/32) and a square; 1 - that above 0.

    NaN comes back with its sign set.
    """
    z = at.floats(at.bits(x) | sign_bit(at))
    shifted = at.fma(z, _LOG2_E, _SIGMOID_MAGIC)
    power = at.pick(at.bits(shifted), _SIGMOID_POWERS)
    n = shifted - _SIGMOID_MAGIC
    t = at.fma(n, -_SIGMOID_LN2[0], z)
    t = at.fma(n, -_SIGMOID_LN2[1], t)
    p = at.fma(t * power, _horner(at, t, _SIGMOID_TERMS), power)
    e = at.choose(n == -math.inf, 0.0, at.choose(n < LOWEST_EXPONENT, p * 0.0, scaled_down(at, p, n)))
    quotient = e / (e + 1.0)
    positive = (at.bits(x) & sign_bit(at)) == 0
    return settled(at, z, at.choose(positive, 1.0 - quotient, quotient))


_TANH_LIMIT = _f32(7.9807181358)
_TANH_NUMERATOR = _numbers(1, 1.3412411511e-01, 3.5330520477e-03, 2.1235626264e-05, 1.4248920266e-08)
_TANH_DENOMINATOR = _numbers(1, 4.6745735407e-01, 2.6018999517e-02, 3.3472978976e-04, 8.1365948290e-07)


def _odd_quotient(at: Steps, x: Lanes, numerator: Sequence[float], denominator: Sequence[float]) -> Lanes:
    """x p(x^2) / q(x^2)."""
    square = x * x
    return (x * _horner(at, square, numerator)) / _horner(at, square, denominator)


@_kernel
def tanh(at: Steps, x: Lanes) -> Lanes:
    """``f32_vtanh``: a quotient of polynomials."""
    bounded = _within(at, x, _TANH_LIMIT)
    return settled(at, x, _odd_quotient(at, bounded, _TANH_NUMERATOR, _TANH_DENOMINATOR))


_EXP_NUMERATOR = _numbers(6.9314718246e-01, 4.8078041524e-02, 5.5375634693e-03)
_EXP_DENOMINATOR = _numbers(1, -2.7721086144e-01, 2.3987604305e-02)
_MAGIC = 1.5 * 2.0**23
"""Adding it leaves an integer in the low bits of a float32."""


@_kernel
def exp(at: Steps, x: Lanes) -> Lanes:
    """``f32_vexp``: 2^z 2^r of x log2(e) = z + r, the product rounded and kept from -127 to 128.

    2^-127 counts as 0, 2^128 as infinity, and NaN as what the bounds make of it: the lower one.
    """
    product = x * _LOG2_E
    product = _at_most(at, at.choose(product > -127.0, product, -127.0), 128.0)
    z = (product + _MAGIC) - _MAGIC
    r = product - z
    quotient = (r * _horner(at, r, _EXP_NUMERATOR)) / _horner(at, r, _EXP_DENOMINATOR)
    return at.floats(at.bits(z + (2.0**23 + 127)) << 23) * (quotient + 1.0)


_GELU_LIMIT = _f32(5.1638283730)
_GELU_NUMERATOR = _numbers(
    7.9788452387e-01, 6.6972173750e-02, 9.3065137044e-03, 3.2973114867e-04, 1.2609783880e-05, 4.5835321316e-08
)
_GELU_DENOMINATOR = _numbers(
    1, 2.5060352683e-01, 2.8431978077e-02, 1.8622842617e-03, 7.2267655923e-05, 1.1988805682e-06
)
_GELU_TANH_LIMIT = _f32(4.84974098)
_GELU_TANH_NUMERATOR = _numbers(
    7.9788458347e-01, 6.0803253204e-02, 7.2898347862e-03, 2.6887017884e-04, 1.4302649106e-05, 4.9544411240e-08
)
_GELU_TANH_DENOMINATOR = _numbers(
    1, 2.4369759858e-01, 2.4381054565e-02, 1.3060354395e-03, 7.6477612311e-05, 1.3433452750e-06
)


@_kernel
def gelu(at: Steps, x: Lanes) -> Lanes:
    """``f32_vgelu``: x / 2 times one more than a quotient of polynomials."""
    quotient = _odd_quotient(at, _within(at, x, _GELU_LIMIT), _GELU_NUMERATOR, _GELU_DENOMINATOR)
    return settled(at, x, (x * 0.5) * (quotient + 1.0))


@_kernel
def gelu_tanh(at: Steps, x: Lanes) -> Lanes:
    """``f32_vapproxgelu``: likewise."""
    bounded = _within(at, x, _GELU_TANH_LIMIT)
    quotient = _odd_quotient(at, bounded, _GELU_TANH_NUMERATOR, _GELU_TANH_DENOMINATOR)
    return settled(at, x, (x * 0.5) * (quotient + 1.0))


_LN2 = float.fromhex("0x1.62E430p-1")
_SHIFTING_MAGIC = float.fromhex("0x1.8000FEp23")
"""Adding it leaves an integer, plus the bias of exponents, in the low bits of a float32."""

_ELU_CUTOFF = float.fromhex("-0x1.154246p+4")
_ELU_TERMS = [
    float.fromhex(c)
    for c in ("0x1.FFFFFEp-2", "0x1.5554B0p-3", "0x1.555716p-5", "0x1.12278Ep-7", "0x1.6B7338p-10")
]


@_kernel
def elu(at: Steps, x: Lanes) -> Lanes:
    """``f32_velu``: below 0 a polynomial for e^t - 1 around the nearest power of two."""
    z = _at_least(at, x, _ELU_CUTOFF)
    shifted = at.fma(z, _LOG2_E, _SHIFTING_MAGIC)
    power = at.floats(at.bits(shifted) << 23)
    t = at.fma(shifted - _SHIFTING_MAGIC, -_LN2, z)
    p = _horner(at, t, _ELU_TERMS) * t
    t = t * power
    return at.choose(x < 0.0, at.fma(p, t, t) + (power - 1.0), x)


_SOFTMAX_LN2 = (float.fromhex("0x1.62E400p-1"), float.fromhex("0x1.7F7D1Cp-20"))
_SOFTMAX_CUTOFF = float.fromhex("-0x1.5D589Ep6")
_SOFTMAX_TERMS = [
    float.fromhex(c)
    for c in ("0x1.FFFFF6p-1", "0x1.FFFDC6p-2", "0x1.555A80p-3", "0x1.573A1Ap-5", "0x1.0F9F9Cp-7")
]


@_kernel
def exp_of_difference(at: Steps, x: Lanes) -> Lanes:
    """``f32_raddstoreexpminusmax``: e^x of x <= 0, a polynomial around the nearest power of two.

    0 below about 2^-126.
    """
    shifted = at.fma(x, _LOG2_E, _SHIFTING_MAGIC)
    power = at.floats(at.bits(shifted) << 23)
    n = shifted - _SHIFTING_MAGIC
    t = at.fma(n, -_SOFTMAX_LN2[0], x)
    t = at.fma(n, -_SOFTMAX_LN2[1], t)
    result = at.fma(flushed(at, t * power), _horner(at, t, _SOFTMAX_TERMS), power)
    return settled(at, x, at.choose(x < _SOFTMAX_CUTOFF, 0.0, result))


_PI = _f32(3.1415927)
_TURN_INVERSE = _f32(0.15915494)
_QUARTER = (_f32(1.5707963705e00), _f32(-4.3711388e-08))
_TURN = (6.28125, _f32(1.9353072e-3))
_SINE_NUMERATOR = _numbers(1, -1.3314664364e-01, 3.2340581529e-03)
_SINE_DENOMINATOR = _numbers(1, 3.3519912511e-02, 4.8770775902e-04)


def _turned(at: Steps, x: Lanes) -> Lanes:
    turns = nearest_even(at, x * _TURN_INVERSE)
    return at.fma(turns, -_TURN[1], at.fma(turns, -_TURN[0], x))


def _sine(at: Steps, angle: Lanes) -> Lanes:
    """The sine of an angle within half a turn, which is folded to a quarter."""
    angle = _at_most(at, angle, _PI - angle)
    angle = _at_least(at, angle, -_PI - angle)
    angle = _at_most(at, angle, _PI - angle)
    return _odd_quotient(at, angle, _SINE_NUMERATOR, _SINE_DENOMINATOR)


@_kernel
def sin(at: Steps, x: Lanes) -> Lanes:
    """``f32_vsin``: a quotient of polynomials, after a short reduction."""
    return settled(at, x, _sine(at, _turned(at, x)))


@_kernel
def cos(at: Steps, x: Lanes) -> Lanes:
    """``f32_vcos``: the sine of what is left to a quarter of a turn."""
    return settled(at, x, _sine(at, (_QUARTER[0] - _turned(at, x)) + _QUARTER[1]))


_ROOT_TWO = _f32(1.4142134190)
_ROOT_HALF = _f32(7.0710688829e-01)
_LOG_NUMERATOR = _numbers(1, 1, 1.824996918440e-01)
_LOG_DENOMINATOR = _numbers(1, 1.5, 0.599170029163, 0.049584995955)
_FRACTION = (1 << 23) - 1
_ONE = 127 << 23
_LOG_NAN = 0x7FC00001
"""What the logarithm of a negative number is."""


@_kernel
def log(at: Steps, x: Lanes) -> Lanes:
    """``f32_vlog``: a quotient of polynomials of what remains of x beside the nearest power of two."""
    scaled = x * _ROOT_TWO
    bits = at.bits(scaled)
    exponent = at.floats((bits >> 23) | (0x4B << 24)) - (2.0**23 + 127)
    rest = at.floats((bits & _FRACTION) | _ONE) * _ROOT_HALF - 1.0
    quotient = (rest * _horner(at, rest, _LOG_NUMERATOR)) / _horner(at, rest, _LOG_DENOMINATOR)
    result = at.fma(exponent, _f32(math.log(2)), quotient)
    result = at.choose(scaled < math.inf, result, scaled)
    result = at.choose(x < 0.0, at.floats((bits & 0) | _LOG_NAN), result)
    return at.choose(x == 0.0, -math.inf, result)
