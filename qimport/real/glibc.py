"""``expf`` of the GNU C library, which rounds seven results in ten thousand otherwise than correctly.

In float64: x * 32 / ln 2 = k + r, a cubic for 2^(r/32), a table for the fractions of 2^(k/32).
"""

from __future__ import annotations

from qimport.real.steps import Lanes, Steps

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
    """e^x in float64, to be rounded to float32."""
    bounded = at.choose(x > -_BOUND, x, -_BOUND)
    bounded = at.choose(bounded < _BOUND, bounded, _BOUND)
    scaled = bounded * _SCALE
    shifted = scaled + _MAGIC
    r = scaled - (shifted - _MAGIC)
    bits = at.bits(shifted)
    power = at.pick(bits, _POWERS) * at.floats(((bits >> 5) << 52) + (1023 << 52))
    square = r * r
    return at.choose(x == x, ((r * _CUBIC + _SQUARE) * square + (r * _LINEAR + 1.0)) * power, x)
