"""Products of 8-bit values of which one is repeated: a slope for each of its codes, proved for all pairs.

A gate multiplies every pixel of its channel by one factor, so what is to be known about it is looked up once
per channel: slope and offsets for ``prim.scale_codes``. For each code of the gate the result is a rounded
line over the codes of the other operand, and 256 of them prove it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from qimport import prim
from qimport.fixedpoint import Int
from qimport.ir.graph import Array
from qimport.prim.scale_codes import LIMB, limbs

SLOPE_BITS = 28
"""Bits of the largest slope."""

FARTHEST = 1 << 29
"""Offsets are smaller, in magnitude."""


@dataclass(frozen=True)
class Bilinear:
    """constant + a * x + b * y + ab * x * y."""

    constant: float
    a: float
    b: float
    ab: float

    def swapped(self) -> Bilinear:
        """The same with x and y exchanged."""
        return Bilinear(self.constant, self.b, self.a, self.ab)


@dataclass(frozen=True)
class CodeScaling:
    """A ``prim.scale_codes``, its constant, and its limbs for every code of the repeated operand."""

    op: prim.ScaleCodes
    rest: int
    lows: Array
    highs: Array


def equal_scaling(codes: Int, operands: tuple[Int, Int], real: Bilinear) -> CodeScaling | None:
    """What gives ``codes`` int64[256, 256] of the scaled and the repeated operand, if it is found.

    ``real`` is the same arithmetic over the reals, ``operands`` the codes along both dimensions.
    """
    input_zero, zero_point = (
        round(value) for value in (-real.b / real.ab, real.constant - real.a * real.b / real.ab)
    )
    slopes = real.a + real.ab * operands[1]
    largest = float(np.max(np.abs(slopes)))
    shift = min(SLOPE_BITS - math.ceil(math.log2(largest)), SLOPE_BITS) if largest > 0 else 0
    if shift < LIMB or max(abs(input_zero), abs(zero_point)) > 255:
        return None
    slope = np.rint(np.ldexp(slopes, shift)).astype(np.int64)
    x = operands[0] - input_zero
    least, most = offset_bounds(codes - zero_point, x[:, np.newaxis] * slope, shift, FARTHEST)
    above, below = x >= 0, x < 0
    rest = between(np.max(least[above], initial=-FARTHEST), np.min(most[above], initial=FARTHEST))
    negative = between(np.max(least[below], 0, initial=-FARTHEST), np.min(most[below], 0, initial=FARTHEST))
    if rest is None or negative is None or np.any(np.abs(rest - negative) >= FARTHEST):
        return None
    op = prim.ScaleCodes(input_zero, shift, zero_point, int(codes.min()), int(codes.max()))
    return CodeScaling(op, int(rest), *limbs(slope, rest - negative))


def offset_bounds(codes: Int, sums: Int, shift: int, farthest: int) -> tuple[Int, Int]:
    """The least and the largest offset with which each sum, shifted, is the code.

    ``farthest`` stands for no bound: beyond the least and the largest code results are clamped.
    """
    least = np.where(codes > codes.min(), (codes << shift) - sums, -farthest)
    most = np.where(codes < codes.max(), ((codes + 1) << shift) - 1 - sums, farthest)
    return least, most


def between(least: Any, most: Any) -> Any:
    """Numbers between both; None where there are none."""
    return None if np.any(least > most) else (least + most) // 2
