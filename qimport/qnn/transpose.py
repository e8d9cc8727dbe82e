"""``qnn.transpose``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from qimport.ir.check import require
from qimport.ir.graph import Array, Call, operation
from qimport.qnn.base import QnnOperation
from qimport.qnn.checks import require_same_dtype


@operation
@dataclass(frozen=True)
class Transpose(QnnOperation):
    """Dimension i of the result is dimension ``permutation[i]`` of the operand; any type, all modes equal.

    C1 one element type. C2 ``permutation`` is one, and the result shape follows it.
    """

    NAME = "qnn.transpose"
    TFLITE: ClassVar[tuple[str, ...]] = ("TRANSPOSE",)

    permutation: tuple[int, ...]

    def verify(self, call: Call) -> None:
        """Check C1, C2."""
        x, out = call.input(0), call.output
        require_same_dtype("C1", call)
        require(sorted(self.permutation) == list(range(len(x.shape))), "C2", f"{self.permutation} for {x}")
        wanted = tuple(x.shape[axis] for axis in self.permutation)
        require(out.shape == wanted, "C2", f"the result must have shape {wanted}")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """NumPy transpose."""
        return (call.array(0).transpose(self.permutation).copy(),)
