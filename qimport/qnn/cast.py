"""``qnn.cast``: the CAST operator."""

from __future__ import annotations

from dataclasses import dataclass

from qimport.elements import convert
from qimport.ir.check import require
from qimport.ir.graph import Array, Call, operation
from qimport.qnn.base import QnnOperation

ELEMENT_TYPES = (
    "int8", "uint8", "int16", "int32", "uint32", "int64", "bool", "float16", "float32", "float64",
)  # fmt: skip


@operation
@dataclass(frozen=True)
class Cast(QnnOperation):
    """Another element type for every element, as :func:`qimport.elements.convert` says.

    float16 is converted from and to types other than float32 through float32. Quantizations are
    not looked at.

    C1 operand and result have one of :data:`ELEMENT_TYPES`. C2 same shape.
    """

    NAME = "qnn.cast"
    TFLITE = ("CAST",)

    def verify(self, call: Call) -> None:
        """Check C1, C2."""
        x, out = call.input(0), call.output
        require(x.dtype in ELEMENT_TYPES and out.dtype in ELEMENT_TYPES, "C1", f"no cast from {x} to {out}")
        require(x.shape == out.shape, "C2", f"{x} and {out} differ in shape")

    @staticmethod
    def steps(source: str, target: str) -> tuple[str, ...]:
        """Element types to convert to, one after the other."""
        half = "float16" in (source, target) and "float32" not in (source, target) and source != target
        return ("float32", target) if half else (target,)

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """Every step."""
        x = call.array(0)
        for dtype in self.steps(call.input(0).dtype, call.output.dtype):
            x = convert(x, dtype)
        return (x,)
