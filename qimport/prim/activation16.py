"""``prim.activation16``: logistic and tanh in 16-bit fixed point."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from qimport import fixedpoint
from qimport.ir.check import require
from qimport.ir.graph import Array, Call, Operation, operation


@operation
@dataclass(frozen=True)
class Activation16(Operation):
    """gemmlowp's 16-bit ``logistic`` or ``tanh`` of numbers with ``integer_bits`` before the binary point.

    The result is Q0.15: ``fixedpoint.logistic_int16`` and ``fixedpoint.tanh_int16``.

    C1 operand and result are int16 of one shape. C2 the kind is one of the two; logistic has 3 integer bits,
    tanh 0 to 6.
    """

    NAME = "prim.activation16"

    kind: Literal["logistic", "tanh"]
    integer_bits: int = 3

    def verify(self, call: Call) -> None:
        """Check C1, C2."""
        x, out = call.input(0), call.output
        require(x == out and x.dtype == "int16", "C1", "operand and result must be int16 of one shape")
        require(self.kind in ("logistic", "tanh"), "C2", f"there is no 16-bit {self.kind}")
        fits = 0 <= self.integer_bits <= 6 and (self.kind == "tanh" or self.integer_bits == 3)
        require(fits, "C2", f"no {self.kind} with {self.integer_bits} integer bits")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """The rules of :mod:`qimport.fixedpoint`."""
        if self.kind == "logistic":
            return (fixedpoint.logistic_int16(call.array(0)).astype(np.int16),)
        return (fixedpoint.tanh_int16(call.array(0), self.integer_bits).astype(np.int16),)
