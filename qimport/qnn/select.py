"""``qnn.select``: the SELECT and SELECT_V2 operators."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qimport.elements import broadcast
from qimport.ir.check import require
from qimport.ir.graph import Array, Call, operation
from qimport.qnn.base import QnnOperation


@operation
@dataclass(frozen=True)
class Select(QnnOperation):
    """a where the condition is true, else b, for operands (condition, a, b) that broadcast as in NumPy.

    Codes are copied; quantizations are not looked at.

    C1 the condition is bool; a, b and the result have one element type. C2 the shapes broadcast to the
    result's.
    """

    NAME = "qnn.select"
    TFLITE = ("SELECT", "SELECT_V2")

    def verify(self, call: Call) -> None:
        """Check C1, C2."""
        condition, a, b, out = call.input(0), call.input(1), call.input(2), call.output
        require(condition.dtype == "bool", "C1", f"the condition {condition} is not bool")
        require(a.dtype == b.dtype == out.dtype, "C1", f"{a}, {b} and {out} differ in element type")
        shape = broadcast(condition.shape, a.shape, b.shape)
        require(shape == out.shape, "C2", f"the operands do not give {out.shape}")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """``numpy.where``."""
        chosen = np.where(call.array(0).astype(np.bool_), call.array(1), call.array(2))
        return (np.asarray(chosen, call.output.numpy),)
