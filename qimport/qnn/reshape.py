"""``qnn.reshape``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from qimport.ir.check import require
from qimport.ir.graph import Array, Call, operation
from qimport.qnn.base import QnnOperation
from qimport.qnn.checks import EIGHT_BIT, require_same_dtype


@operation
@dataclass(frozen=True)
class Reshape(QnnOperation):
    """The same elements in row-major order under the result's shape; any element type, all modes equal.

    C1 one element type. C2 the number of elements stays.
    """

    NAME = "qnn.reshape"
    TFLITE: ClassVar[tuple[str, ...]] = ("RESHAPE", "SQUEEZE", "EXPAND_DIMS")

    def verify(self, call: Call) -> None:
        """Check C1, C2."""
        x, out = call.input(0), call.output
        require_same_dtype("C1", call)
        require(x.size == out.size, "C2", f"{x.size} elements do not fill {out}")

    def xnnpack_takes(self, call: Call) -> bool:
        """8-bit and float tensors."""
        return call.output.dtype in (*EIGHT_BIT, "float32")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """NumPy reshape."""
        return (call.array(0).reshape(call.output.shape),)
