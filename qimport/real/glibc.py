"""``expf`` and ``logf`` of the GNU C library, in float64 with tables.

They round about one result in a thousand otherwise than correctly.
"""

from __future__ import annotations

import math

from qimport.real.steps import Lanes, Steps, not_a_number

_STEPS = 32
_SCALE = float.fromhex("0x1.71547652b82fep0") * _STEPS
_CUBIC = float.fromhex("0x1.c6af84b912394p-5") / _STEPS**3
_SQUARE = float.fromhex("0x1.ebfce50fac4f3p-3") / _STEPS**2
_LINEAR = float.fromhex("0x1.62e42ff0c52d6p-1") / _STEPS
_MAGIC = 1.5 * 2.0**52
"""Adding it leaves an integer in the low bits of a float64."""

_POWERS = [2.0 ** (number / _STEPS) for number in range(_STEPS)]
_BOUND = 200.0
"""Results below e^-104 are 0 in float32, those above e^89 infinite; far beyond float64's exponents end."""


def exp(at: Steps, x: Lanes) -> Lanes:
    """e^x to be rounded to float32: x * 32 / ln 2 = k + r, a cubic for 2^(r/32), a table for that of k."""
    bounded = at.choose(x > -_BOUND, x, -_BOUND)
    bounded = at.choose(bounded < _BOUND, bounded, _BOUND)
    scaled = bounded * _SCALE
    shifted = scaled + _MAGIC
    r = scaled - (shifted - _MAGIC)
    bits = at.bits(shifted)
    power = at.pick(bits, _POWERS) * at.floats(((bits >> 5) << 52) + (1023 << 52))
    square = r * r
    return at.choose(x == x, ((r * _CUBIC + _SQUARE) * square + (r * _LINEAR + 1.0)) * power, x)


_LN2 = float.fromhex("0x1.62e42fefa39efp-1")
_CENTRES = """
0x1.661ec79f8f3bep+0 0x1.571ed4aaf883dp+0 0x1.49539f0f010bp+0 0x1.3c995b0b80385p+0
0x1.30d190c8864a5p+0 0x1.25e227b0b8eap+0 0x1.1bb4a4a1a343fp+0 0x1.12358f08ae5bap+0
0x1.0953f419900a7p+0 0x1p+0 0x1.e608cfd9a47acp-1 0x1.ca4b31f026aap-1
0x1.b2036576afce6p-1 0x1.9c2d163a1aa2dp-1 0x1.886e6037841edp-1 0x1.767dcf5534862p-1
"""
"""Reciprocals of numbers in the middle of sixteen parts of an octave."""

_LOGARITHMS_TEXT = """
-0x1.57bf7808caadep-2 -0x1.2bef0a7c06ddbp-2 -0x1.01eae7f513a67p-2 -0x1.b31d8a68224e9p-3
-0x1.6574f0ac07758p-3 -0x1.1aa2bc79c81p-3 -0x1.a4e76ce8c0e5ep-4 -0x1.1973c5a611cccp-4
-0x1.252f438e10c1ep-5 0x0p+0 0x1.aa5aa5df25984p-5 0x1.c5e53aa362eb4p-4
0x1.526e57720db08p-3 0x1.bc2860d22477p-3 0x1.1058bc8a07ee1p-2 0x1.4043057b6ee09p-2
"""
_INVERSES = [float.fromhex(number) for number in _CENTRES.split()]
_LOGARITHMS = [float.fromhex(number) for number in _LOGARITHMS_TEXT.split()]
_LOG_TERMS = [
    float.fromhex(c) for c in ("-0x1.ffffef20a4123p-2", "0x1.5575b0be00b6ap-2", "-0x1.00ea348b88334p-2")
]
_FIRST = 0x3FE66 << 44
_FRACTION = (1 << 52) - 1


def log(at: Steps, x: Lanes) -> Lanes:
    """The natural logarithm, to be rounded to float32: k ln 2, a table for the octave's part, a quartic."""
    shifted = at.bits(x) + ((1023 << 52) - _FIRST)
    k = at.floats((shifted >> 52) | (0x433 << 52)) - (2.0**52 + 1023)
    z = at.floats((shifted & _FRACTION) + _FIRST)
    part = shifted >> 48
    r = z * at.pick(part, _INVERSES) - 1.0
    start = at.pick(part, _LOGARITHMS) + k * _LN2
    square = r * r
    y = _LOG_TERMS[2] * square + (_LOG_TERMS[1] * r + _LOG_TERMS[0])
    value = y * square + (start + r)
    value = at.choose(x == 1.0, 0.0, at.choose(x < math.inf, value, x))
    value = at.choose(x < 0.0, not_a_number(at, x), value)
    return at.choose(x == 0.0, -math.inf, value)
