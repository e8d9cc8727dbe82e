"""``prim.math``: functions of one float32, equal on every target."""

from __future__ import annotations

from dataclasses import dataclass

from qimport import real
from qimport.ir.check import require
from qimport.ir.graph import Array, Call, Operation, operation
from qimport.real import Kind as MathKind


@operation
@dataclass(frozen=True)
class Math(Operation):
    """A function of each float32 element, by the steps in :mod:`qimport.real`.

    Functions that are no algebra are computed in float64 and rounded, so correctly rounded in all but about
    one case in a million; the others are what their steps say. A NaN gives a NaN, an invalid operand the
    negative quiet NaN of x86.

    C1 float32 operand and result of one shape. C2 ``kind`` is a key of ``real.FUNCTIONS``.
    """

    NAME = "prim.math"

    kind: MathKind

    def verify(self, call: Call) -> None:
        """Check C1, C2."""
        x, out = call.input(0), call.output
        require(x == out and x.dtype == "float32", "C1", "operand and result must be the same float32 type")
        require(self.kind in real.FUNCTIONS, "C2", f"there is no function {self.kind}")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """The steps on NumPy arrays."""
        return (real.apply(self.kind, call.array(0)),)


__all__ = ["Math", "MathKind"]
