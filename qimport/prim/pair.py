"""``prim.pair_sum``: a weighted sum of two 8-bit codes, rounded to a code."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qimport.elements import broadcast
from qimport.ir.check import require
from qimport.ir.graph import Array, Call, Operation, operation
from qimport.ir.types import INTEGER_RANGE

CODES = ("int8", "uint8")
"""Element types of 8-bit codes."""

FACTOR_BITS, STEP_BITS = 29, 14
"""Bits of the magnitude of a factor, and of a sum after the shift."""

SMALLEST_SHIFT, LARGEST_SHIFT = 15, 30
"""What ``shift`` may be."""


@operation
@dataclass(frozen=True)
class PairSum(Operation):
    """min(max((a * m + b * n + offset) >> shift, low), high) of codes a and b, stored as 8 bits.

    Operands are (a, b, constant int64 [3] of m, n, offset). |m| and |n| are less than 2^29, and
    |offset| + 128 * (|m| + |n|) less than 2^(14 + shift), so that few bits hold what two limbs of the factors
    are computed with (``codegen/pair_sum.py``).

    C1 a, b and the result have 8 bits; a and b broadcast to the result's shape. C2 the constant is int64 [3].
    C3 low <= high and both lie in the result type's range. C4 15 <= shift <= 30.
    """

    NAME = "prim.pair_sum"

    shift: int
    low: int
    high: int

    def verify(self, call: Call) -> None:
        """Check C1-C4."""
        a, b, factors, out = call.input(0), call.input(1), call.input(2), call.output
        require(all(t.dtype in CODES for t in (a, b, out)), "C1", "operands and result must be codes")
        shape = broadcast(a.shape, b.shape)
        require(shape == out.shape, "C1", f"{a.shape} and {b.shape} do not give {out.shape}")
        require(factors.dtype == "int64" and factors.shape == (3,), "C2", f"{factors} is not int64 [3]")
        lowest, highest = INTEGER_RANGE[out.dtype]
        require(lowest <= self.low <= self.high <= highest, "C3", f"[{self.low}, {self.high}] is no range")
        allowed = SMALLEST_SHIFT <= self.shift <= LARGEST_SHIFT
        require(allowed, "C4", f"shift {self.shift} is not in {SMALLEST_SHIFT}..{LARGEST_SHIFT}")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """int64 NumPy."""
        a, b = call.array(0).astype(np.int64), call.array(1).astype(np.int64)
        m, n, offset = (int(number) for number in call.array(2))
        total = (a * m + b * n + offset) >> self.shift
        return (np.clip(total, self.low, self.high).astype(call.output.numpy),)
