"""Elementwise primitives of quantized arithmetic. A constant operand may be scalar or per channel.

Each of these, and of those in ``arithmetic.py``, has one emitter in ``codegen/elementwise.py``; runs of them
fuse into one kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from qimport import fixedpoint
from qimport.elements import broadcast
from qimport.ir.check import require
from qimport.ir.graph import Array, Call, Operation, operation
from qimport.ir.types import INTEGER_RANGE
from qimport.prim.arithmetic import FLOATING


@operation
@dataclass(frozen=True)
class Clamp(Operation):
    """min(max(x + zero_point, low), high) without intermediate overflow, stored as the result's element type.

    C1 int32 operand, integer result, same shape. C2 low <= high and both lie in the result type's range.
    """

    NAME = "prim.clamp"

    zero_point: int
    low: int
    high: int

    def verify(self, call: Call) -> None:
        """Check C1, C2."""
        x, out = call.input(0), call.output
        require(
            x.dtype == "int32" and x.shape == out.shape, "C1", "operand must be int32 of the result's shape"
        )
        require(out.dtype in INTEGER_RANGE, "C1", f"{out} does not hold integers")
        lowest, highest = INTEGER_RANGE[out.dtype]
        require(lowest <= self.low <= self.high <= highest, "C2", f"[{self.low}, {self.high}] is no range")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """int64 NumPy."""
        shifted = call.array(0).astype(np.int64) + self.zero_point
        return (np.clip(shifted, self.low, self.high).astype(call.output.numpy),)


@operation
@dataclass(frozen=True)
class Lut(Operation):
    """table[x] for 8-bit x: the table has 256 entries in order of the code's value (from -128 or from 0).

    C1 operands are (8-bit tensor, constant [256]); the result has the table's element type and x's shape.
    """

    NAME = "prim.lut"

    def verify(self, call: Call) -> None:
        """Check C1."""
        x, table, out = call.input(0), call.input(1), call.output
        require(
            x.dtype in ("int8", "uint8") and table.shape == (256,),
            "C1",
            "needs an 8-bit operand, 256 entries",
        )
        require(out.dtype == table.dtype and out.shape == x.shape, "C1", "result type must follow the table")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """NumPy indexing."""
        lowest, _ = INTEGER_RANGE[call.input(0).dtype]
        return (call.array(1)[call.array(0).astype(np.int64) - lowest],)


@operation
@dataclass(frozen=True)
class DivRound(Operation):
    """x / divisor rounded half away from zero, int32; the divisor is a positive constant that broadcasts.

    C1 int32 throughout, x and the result of one shape. C2 the divisor broadcasts to x.
    """

    NAME = "prim.div_round"

    def verify(self, call: Call) -> None:
        """Check C1, C2."""
        x, divisor, out = call.input(0), call.input(1), call.output
        require(x == out and x.dtype == divisor.dtype == "int32", "C1", "int32 of one shape is needed")
        require(broadcast(x.shape, divisor.shape) == x.shape, "C2", "divisor must broadcast to x")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """(|x| + divisor // 2) // divisor with x's sign."""
        x, divisor = call.array(0).astype(np.int64), call.array(1).astype(np.int64)
        return ((np.sign(x) * ((np.abs(x) + divisor // 2) // divisor)).astype(np.int32),)


@operation
@dataclass(frozen=True)
class ToInt(Operation):
    """float -> int32.

    NaN and results outside int32 give INT32_MIN (``saturate`` False: the x86 conversion), or saturate to the
    nearer end with NaN at the high end (``saturate`` True) or, with ``nan_to_zero`` as well, as 0 (the ARM
    conversion).

    ``rounding`` is ``even`` or ``away`` (ties). C1 float32 or float64 operand, int32 result, same shape. C2
    ``rounding`` is one of the two.
    """

    NAME = "prim.to_int"

    rounding: Literal["even", "away"]
    saturate: bool = False
    nan_to_zero: bool = False

    def verify(self, call: Call) -> None:
        """Check C1, C2."""
        x, out = call.input(0), call.output
        typed = x.dtype in FLOATING and out.dtype == "int32" and x.shape == out.shape
        require(typed, "C1", "operand must be floating, result int32")
        require(self.rounding in ("even", "away"), "C2", f"there is no rounding {self.rounding}")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """NumPy rounding, then the stated conversion."""
        x = call.array(0)
        with np.errstate(all="ignore"):
            rounded = (np.rint(x) if self.rounding == "even" else fixedpoint.round_away(x)).astype(np.float64)
        if self.saturate:
            rounded = np.where(np.isnan(rounded), 0 if self.nan_to_zero else fixedpoint.INT32_MAX, rounded)
            rounded = np.clip(rounded, fixedpoint.INT32_MIN, fixedpoint.INT32_MAX)
        return (fixedpoint.float_to_int32(rounded).astype(np.int32),)
