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
    """A function of each element, by the steps in :mod:`qimport.real`.

    Functions that are no algebra are computed in float64 and rounded, so correctly rounded in all but about
    one case in a million; the others are what their steps say. A NaN gives a NaN, an invalid operand the
    negative quiet NaN of x86.

    float64 elements give float64 results, for arguments in the range of float32.

    C1 operand and result are of one shape and both float32 or both float64. C2 ``kind`` is a key of
    ``real.FUNCTIONS``, for float64 of ``real.FUNCTIONS64``.
    """

    NAME = "prim.math"

    kind: MathKind

    def verify(self, call: Call) -> None:
        """Check C1, C2."""
        x, out = call.input(0), call.output
        require(
            x == out and x.dtype in ("float32", "float64"), "C1", "operand and result must be one float type"
        )
        known = real.FUNCTIONS64 if x.dtype == "float64" else real.FUNCTIONS
        require(self.kind in known, "C2", f"there is no function {self.kind} of {x.dtype}")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """The steps on NumPy arrays."""
        apply = real.apply64 if call.output.dtype == "float64" else real.apply
        return (apply(self.kind, call.array(0)),)


__all__ = ["Math", "MathKind"]
