"""``prim.scale_codes``: 8-bit codes times a slope that another tensor gives, rounded to codes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from qimport.elements import broadcast
from qimport.fixedpoint import Int
from qimport.ir.check import require
from qimport.ir.graph import Array, Call, Operation, operation
from qimport.ir.types import INTEGER_RANGE
from qimport.prim.pair import CODES

LIMB = 15
"""Bits of the low limb of a factor, which is not negative."""


@operation
@dataclass(frozen=True)
class ScaleCodes(Operation):
    """Codes a times slopes, in 8 bits again; with x = a - input_zero they are as follows.

        min(max(((x * slope + rest - (x < 0) * drop) >> shift) + zero_point, low), high)

    Operands are (a, lows, highs, constant int32 [1] of rest). ``lows`` and ``highs`` hold the slope and the
    drop in two limbs each: slope = 2^15 * s1 + s0, drop = 2^15 * d1 + d0, lows = 2^16 * d0 + s0,
    highs = 2^16 * d1 + s1, where all limbs are int16 and s0 and d0 not negative; |rest| < 2^29. Negative x
    have another offset because kernels round away from zero.

    C1 a and the result have 8 bits, lows and highs are int32 of one shape; all broadcast to the result's
    shape. C2 the constant is int32 [1]. C3 low <= high and both lie in the result type's range. C4 shift is
    15 to 28.
    """

    NAME = "prim.scale_codes"

    input_zero: int
    shift: int
    zero_point: int
    low: int
    high: int

    def verify(self, call: Call) -> None:
        """Check C1-C4."""
        a, lows, highs, rest, out = *(call.input(index) for index in range(4)), call.output
        require(a.dtype in CODES and out.dtype in CODES, "C1", "operand and result must be codes")
        require(lows == highs and lows.dtype == "int32", "C1", "limbs must be int32 of one shape")
        shape = broadcast(a.shape, lows.shape)
        require(shape == out.shape, "C1", f"{a.shape} and {lows.shape} do not give {out.shape}")
        require(rest.dtype == "int32" and rest.shape == (1,), "C2", f"{rest} is not int32 [1]")
        lowest, highest = INTEGER_RANGE[out.dtype]
        require(lowest <= self.low <= self.high <= highest, "C3", f"[{self.low}, {self.high}] is no range")
        require(LIMB <= self.shift <= 28, "C4", f"shift {self.shift} is not in 15..28")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """int64 NumPy."""
        x = call.array(0).astype(np.int64) - self.input_zero
        (s0, d0), (s1, d1) = (_words(call.array(index)) for index in (1, 2))
        slope, drop = (s1 << LIMB) + s0, (d1 << LIMB) + d0
        total = (x * slope + int(call.array(3)[0]) - np.where(x < 0, drop, 0)) >> self.shift
        return (np.clip(total + self.zero_point, self.low, self.high).astype(call.output.numpy),)


def limbs(slope: Int, drop: Int) -> tuple[Array, Array]:
    """``lows`` and ``highs`` of slopes and drops, each less than 2^29 in magnitude."""
    mask = (1 << LIMB) - 1
    low = (drop & mask) << 16 | slope & mask
    high = drop >> LIMB << 16 | slope >> LIMB & 0xFFFF
    return low.astype(np.int32), high.astype(np.int32)


def _words(pairs: Any) -> tuple[Int, Int]:
    """The low and the high word of int32 numbers."""
    wide = pairs.astype(np.int64)
    return (wide << 48) >> 48, wide >> 16
