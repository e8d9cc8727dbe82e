"""Functions of float32 as the Eigen library of the interpreter's kernels computes them.

Equal bits for 550,000 operands between -110 and 20; its packets have neither fused multiply-add nor more than
four lanes. Elements outside whole packets take the same tanh, but another exponential.
"""

from __future__ import annotations

import numpy as np

from qimport.real.glibc import exp
from qimport.real.rounding import floor, scaled_down
from qimport.real.steps import Function, Lanes, Steps, negative, polynomial, settled


def _f32(value: float) -> float:
    return float(np.float32(value))


_TANH_LIMIT = _f32(7.90738964080810547)
"""Where the quotient below first is 1."""

_TANH_NUMERATOR = [_f32(c) for c in (1.340216100e-1, 3.520756727e-3, 2.102733560e-5, 1.394553628e-8)]
_TANH_DENOMINATOR = [_f32(c) for c in (1.0, 4.673548340e-1, 2.597254514e-2, 3.326951409e-4, 8.015776984e-7)]

_LOGISTIC_LIMIT = _f32(16.6355324)
"""Where e^x / (1 + e^x) first is 1."""

_LOGISTIC_ZERO = -104.0
"""Results below this operand are 0."""

_LN2_HIGH, _LN2_LOW = 0.693359375, _f32(-2.12194440e-4)
_EXP_EVEN = [_f32(c) for c in (0.49999141693115234375, 4.1898667812347412109375e-2)]
_EXP_ODD = [_f32(c) for c in (0.16666877269744873046875, 8.33471305668354034423828125e-3)]
_MAGIC = 1.5 * 2.0**23
"""Adding it leaves an integer in the low bits of a float32."""


def tanh_rational(at: Steps, x: Lanes) -> Lanes:
    """``ptanh_float``: a quotient of polynomials."""
    bounded = at.choose(x < _TANH_LIMIT, x, _TANH_LIMIT)
    bounded = at.choose(bounded > -_TANH_LIMIT, bounded, -_TANH_LIMIT)
    square = bounded * bounded
    numerator = (square * bounded) * polynomial(square, _TANH_NUMERATOR) + bounded
    return at.choose(x == x, numerator / polynomial(square, _TANH_DENOMINATOR), x)


_HIGHEST = _f32(88.723)
_EVEN = [
    _f32(c)
    for c in (0.49999988079071044921875, 4.166965186595916748046875e-2, 1.37449637986719608306884765625e-3)
]
_ODD = [_f32(c) for c in (0.16666518151760101318359375, 8.36894474923610687255859375e-3)]


def exp_in_packets(at: Steps, x: Lanes) -> Lanes:
    """``pexp_float`` of x up to 0: a polynomial around the nearest power of two."""
    bounded = at.choose(x < _HIGHEST, x, _HIGHEST)
    m = floor(at, bounded * _f32(1.44269504088896341) + 0.5)
    r = m * -_LN2_LOW + (m * -_LN2_HIGH + bounded)
    square = r * r
    middle = r * polynomial(square, _ODD) + polynomial(square, _EVEN)
    result = scaled_down(at, square * middle + (r + 1.0), m)
    return at.choose(x == x, at.choose(x < _LOGISTIC_ZERO, 0.0, result), x)


_ERFC_LIMIT = 11.0
_ERFC_SMALL = [
    _f32(c)
    for c in (
        -1.12837910652160644531250000000e00,
        3.76122951507568359375000000000e-01,
        -1.12800106406211853027343750000e-01,
        2.67075151205062866210937500000e-02,
        -4.91381669417023658752441406250e-03,
        5.61802298761904239654541015625e-04,
    )
]
"""erfc x = 1 + x p(x^2) up to 1."""

_ERFC_NUMERATOR = [
    _f32(c)
    for c in (
        5.3971976041793823242187500e-02,
        3.2379078865051269531250000e-01,
        4.2920666933059692382812500e-01,
        1.0208116471767425537109375e-01,
    )
]
_ERFC_DENOMINATOR = [
    _f32(c)
    for c in (
        9.5662862062454223632812500e-02,
        6.2173241376876831054687500e-01,
        1.0000000000000000000000000e00,
        3.9137163758277893066406250e-01,
        1.7251677811145782470703125e-02,
    )
]
"""erfc x = e^(-x^2) / x p(1 / x^2) / q(1 / x^2) above 1."""


def _erfc(at: Steps, x: Lanes, exponential: Function) -> Lanes:
    """``generic_fast_erfc``: what x^2 loses to rounding is made up for by a factor."""
    x = at.choose(x > _ERFC_LIMIT, _ERFC_LIMIT, at.choose(x < -_ERFC_LIMIT, -_ERFC_LIMIT, x))
    square = x * x
    small = x * polynomial(square, _ERFC_SMALL) + 1.0
    lost = at.fma(x, x, negative(at, square))
    e = exponential(at, negative(at, square))
    inverse = 1.0 / square
    quotient = polynomial(inverse, _ERFC_NUMERATOR) / (x * polynomial(inverse, _ERFC_DENOMINATOR))
    large = (e - e * lost) * quotient + at.choose(x < 0.0, 2.0, 0.0)
    return at.choose(square > 1.0, large, small)


def gelu_in_packets(at: Steps, x: Lanes) -> Lanes:
    """x / 2 * erfc(-x sqrt(1/2))."""
    return settled(at, x, (0.5 * x) * _erfc(at, x * -_f32(np.sqrt(0.5)), exp_in_packets))


def gelu_by_element(at: Steps, x: Lanes) -> Lanes:
    """Likewise with the C library's exponential, glibc's."""
    return settled(at, x, (0.5 * x) * _erfc(at, x * -_f32(np.sqrt(0.5)), lambda at, x: at.rounded(exp, x)))


def gelu_by_tanh(at: Steps, x: Lanes) -> Lanes:
    """x / 2 * (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), the cube first."""
    inner = _f32(0.7978845608028654) * (x + _f32(0.044715) * (x * x * x))
    return settled(at, x, 0.5 * x * (1.0 + tanh_rational(at, inner)))


def logistic_in_packets(at: Steps, x: Lanes) -> Lanes:
    """``scalar_logistic_op<float>::packetOp``: e / (1 + e), e the square of about e^(x/2)."""
    half = at.choose(x < _LOGISTIC_LIMIT, x, _LOGISTIC_LIMIT) * 0.5
    m = floor(at, half * _f32(1.44269504088896341) + 0.5)
    r = m * -_LN2_HIGH + half
    r = m * -_LN2_LOW + r
    square = r * r
    middle = r * polynomial(square, _EXP_ODD) + polynomial(square, _EXP_EVEN)
    power = at.floats((at.bits(m + _MAGIC) << 23) + (127 << 23))
    root = (square * middle + (r + 1.0)) * power
    e = root * root
    return at.choose(x == x, at.choose(x < _LOGISTIC_ZERO, 0.0, e / (e + 1.0)), x)


def logistic_by_element(at: Steps, x: Lanes) -> Lanes:
    """``scalar_logistic_op<float>::operator()``: e / (1 + e) with the C library's exponential, glibc's."""
    e = at.rounded(exp, at.choose(x < _LOGISTIC_LIMIT, x, _LOGISTIC_LIMIT))
    return at.choose(x == x, e / (e + 1.0), x)
