"""``prim.leading_zeros``."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qimport.fixedpoint import count_leading_zeros32
from qimport.ir.check import require
from qimport.ir.graph import Array, Call, Operation, operation


@operation
@dataclass(frozen=True)
class LeadingZeros(Operation):
    """How many of the 32 bits before the first that is set are not; 32 for 0.

    C1 operand and result are int32 of one shape.
    """

    NAME = "prim.leading_zeros"

    def verify(self, call: Call) -> None:
        """Check C1."""
        x, out = call.input(0), call.output
        require(x == out and x.dtype == "int32", "C1", "operand and result must be the same int32 type")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """Of the bits as an unsigned number."""
        return (count_leading_zeros32(call.array(0).astype(np.int64) & 0xFFFFFFFF).astype(np.int32),)
