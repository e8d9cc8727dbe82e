"""``qnn.atan2``: the ATAN2 operator."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from qimport.ir.check import require
from qimport.ir.graph import Array, Call, operation
from qimport.qnn.base import QnnOperation

TERMS = 17
"""Terms of the series of the arctangent up to tan(pi / 8), the first being x: off by less than 2^-45."""

SPLIT = math.sqrt(2) - 1
"""tan(pi / 8): above it the angle is taken from pi / 4 on."""


@operation
@dataclass(frozen=True)
class Atan2(QnnOperation):
    """The angle of the point (x, y), operands y and x, from -pi to pi. All modes equal.

    Computed in float64 and rounded once: a series of :data:`TERMS` terms, by octants. The interpreter calls
    its C library's ``atan2f``, from which results are at most one unit in the last place apart.

    C1 operands and result are float32 of one shape.
    """

    NAME = "qnn.atan2"
    TFLITE: ClassVar[tuple[str, ...]] = ("ATAN2",)

    def verify(self, call: Call) -> None:
        """Check C1."""
        y, x, out = call.input(0), call.input(1), call.output
        require(
            y == x == out and out.dtype == "float32", "C1", "operands and result must be one float32 type"
        )

    def ulp_bound(self, call: Call) -> int:
        """See the class."""
        return 1

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """The docstring's steps; signs of zeros count."""
        y, x = (call.array(index).astype(np.float64) for index in (0, 1))
        with np.errstate(all="ignore"):
            high, wide = np.where(y < 0, 0 - y, y), np.where(x < 0, 0 - x, x)
            steep = wide < high
            quotient = np.where(steep, wide, high) / np.where(steep, high, wide)
            quotient = np.where(high == wide, np.where(high == 0, 0.0, 1.0), quotient)
            upper = quotient > SPLIT
            reduced = np.where(upper, (quotient - 1) / (quotient + 1), quotient)
            square = reduced * reduced
            total = np.full(y.shape, series()[-1])
            for factor in reversed(series()[:-1]):
                total = total * square + factor
            angle = total * reduced + np.where(upper, math.pi / 4, 0.0)
            angle = np.where(steep, math.pi / 2 - angle, angle)
            angle = np.where((x < 0) | (1 / x < 0), math.pi - angle, angle)
            negative = (y < 0) | (1 / y < 0)
            return (np.where(negative, 0 - angle, angle).astype(np.float32),)


def series() -> tuple[float, ...]:
    """Factors of x, x^3, x^5, ..."""
    return tuple((-1) ** k / (2 * k + 1) for k in range(TERMS))
