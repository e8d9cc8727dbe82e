"""``erfcf`` of the GNU C library 2.36, which is that of Sun's fdlibm in float32.

No difference in 60,000 operands; libraries of other versions round otherwise.
"""

from __future__ import annotations

import numpy as np

from qimport.real.glibc import exp
from qimport.real.steps import Lanes, Steps, absolute, polynomial


def _numbers(*values: float) -> list[float]:
    return [float(np.float32(value)) for value in values]


(_AT_ONE,) = _numbers(8.4506291151e-01)
_SMALL = (
    _numbers(1.2837916613e-01, -3.2504209876e-01, -2.8481749818e-02, -5.7702702470e-03, -2.3763017452e-05),
    _numbers(1, 3.9791721106e-01, 6.5022252500e-02, 5.0813062117e-03, 1.3249473704e-04, -3.9602282413e-06),
)
_MIDDLE = (
    _numbers(
        *(-2.3621185683e-03, 4.1485610604e-01, -3.7220788002e-01, 3.1834661961e-01),
        *(-1.1089469492e-01, 3.5478305072e-02, -2.1663755178e-03),
    ),
    _numbers(
        *(1, 1.0642088205e-01, 5.4039794207e-01, 7.1828655899e-02),
        *(1.2617121637e-01, 1.3637083583e-02, 1.1984500103e-02),
    ),
)
_LARGE = (
    _numbers(
        *(-9.8649440333e-03, -6.9385856390e-01, -1.0558626175e01, -6.2375331879e01),
        *(-1.6239666748e02, -1.8460508728e02, -8.1287437439e01, -9.8143291473e00),
    ),
    _numbers(
        *(1, 1.9651271820e01, 1.3765776062e02, 4.3456588745e02, 6.4538726807e02),
        *(4.2900814819e02, 1.0863500214e02, 6.5702495575e00, -6.0424413532e-02),
    ),
)
_LARGEST = (
    _numbers(
        *(-9.8649431020e-03, -7.9928326607e-01, -1.7757955551e01, -1.6063638306e02),
        *(-6.3756646729e02, -1.0250950928e03, -4.8351919556e02),
    ),
    _numbers(
        *(1, 3.0338060379e01, 3.2579251099e02, 1.5367296143e03),
        *(3.1998581543e03, 2.5530502930e03, 4.7452853394e02, -2.2440952301e01),
    ),
)
"""Numerators and denominators for |x| up to 27/32, 5/4, 1/0.35 and 28."""

_FROM_LARGEST = float(np.uint32(0x4036DB6D).view(np.float32))
_HIGH_BITS = 0xFFFFE000


def _quotient(x: Lanes, parts: tuple[list[float], list[float]]) -> Lanes:
    return polynomial(x, parts[0]) / polynomial(x, parts[1])


def _tail(at: Steps, size: Lanes) -> Lanes:
    """erfc of numbers from 5/4 on: e^(-z^2 - 9/16) e^((z - x)(z + x) + R / S) / x, z being x cut short."""
    inverse = 1.0 / (size * size)
    quotient = at.choose(size < _FROM_LARGEST, _quotient(inverse, _LARGE), _quotient(inverse, _LARGEST))
    z = at.floats(at.bits(size) & _HIGH_BITS)
    square = at.rounded(exp, (0.0 - z) * z - 0.5625)
    rest = at.rounded(exp, (z - size) * (z + size) + quotient)
    return square * rest / size


def erfc(at: Steps, x: Lanes) -> Lanes:
    """The complementary error function."""
    size = absolute(at, x)
    y = _quotient(x * x, _SMALL)
    near = at.choose(x < 0.25, 1.0 - (x + x * y), 0.5 - (x * y + (x - 0.5)))
    near = at.choose(size < 2.0**-26, 1.0 - x, near)
    around = _quotient(size - 1.0, _MIDDLE)
    middle = at.choose(x < 0.0, 1.0 + (_AT_ONE + around), (1.0 - _AT_ONE) - around)
    tail = _tail(at, at.choose(size > 1.0, at.choose(size < 28.0, size, 28.0), 1.0))
    far = at.choose(x < 0.0, at.choose(x > -6.0, 2.0 - tail, 2.0), at.choose(size < 28.0, tail, 0.0))
    value = at.choose(size < 0.84375, near, at.choose(size < 1.25, middle, far))
    return at.choose(x == x, value, x)
