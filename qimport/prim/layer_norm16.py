"""``prim.layer_norm16``: rows of int16 normalized to their mean and deviation in fixed point."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qimport import fixedpoint
from qimport.ir.check import require
from qimport.ir.graph import Array, Call, Operation, operation


@operation
@dataclass(frozen=True)
class LayerNorm16(Operation):
    """``fixedpoint.layer_norm_int16`` of every row.

    Operands: x int16 [rows, n], weights int16 [n], bias int32 [n].

    ``multiplier`` and ``exponent`` are the weights' scale; ``guard`` stands in for a variance below 1.

    C1 element types and shapes are as above; the result has x's. C2 n is from 1 to 2^20, and the guard is
    positive.
    """

    NAME = "prim.layer_norm16"

    multiplier: int
    exponent: int
    guard: int

    def verify(self, call: Call) -> None:
        """Check C1, C2."""
        x, weights, bias = (call.input(position) for position in range(3))
        typed = (x.dtype, weights.dtype, bias.dtype) == ("int16", "int16", "int32") and x == call.output
        require(typed and len(x.shape) == 2, "C1", "operands must be int16 [rows, n], int16 [n], int32 [n]")
        require(weights.shape == bias.shape == x.shape[1:], "C1", f"{weights} and {bias} do not fit {x}")
        require(0 < x.shape[1] <= 2**20, "C2", f"rows of {x.shape[1]}")
        require(self.guard > 0, "C2", f"guard {self.guard} is not positive")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """The rule of :mod:`qimport.fixedpoint`."""
        weights, bias = (call.array(position).astype(np.int64) for position in (1, 2))
        factor = (self.multiplier, self.exponent)
        result = fixedpoint.layer_norm_int16(call.array(0), weights, bias, factor, self.guard)
        return (result.astype(np.int16),)
