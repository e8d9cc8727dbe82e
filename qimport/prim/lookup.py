"""``prim.lut16``: a table of 513 knots with straight lines between."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qimport.fixedpoint import wrap16
from qimport.ir.check import require
from qimport.ir.graph import Array, Call, Operation, operation

KNOTS = 513


@operation
@dataclass(frozen=True)
class Lut16(Operation):
    """T[i] + ((s * o + 64) >> 7) of int16 x, i = 256 + (x >> 7), o = x & 127, s = T[i + 1] - T[i].

    s and the result wrap to 16 bits. C1 operands are (int16 tensor, constant int16 [513]), the result is an
    int16 tensor of the operand's shape.
    """

    NAME = "prim.lut16"

    def verify(self, call: Call) -> None:
        """Check C1."""
        x, table, out = call.input(0), call.input(1), call.output
        require(x == out and x.dtype == "int16", "C1", "operand and result must be the same int16 type")
        require(table.dtype == "int16" and table.shape == (KNOTS,), "C1", f"{table} is no table of {KNOTS}")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """NumPy indexing."""
        x, table = call.array(0).astype(np.int64), call.array(1).astype(np.int64)
        i = 256 + (x >> 7)
        slope = wrap16(table[i + 1] - table[i])
        return (wrap16(table[i] + ((slope * (x & 127) + 64) >> 7)).astype(np.int16),)
