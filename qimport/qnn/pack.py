"""``qnn.pack``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from qimport.ir.check import require
from qimport.ir.graph import Array, Call, operation
from qimport.qnn.base import QnnOperation
from qimport.qnn.checks import require_same_dtype


@operation
@dataclass(frozen=True)
class Pack(QnnOperation):
    """Operands of one shape stacked along a new dimension ``axis`` (>= 0); any element type, all modes equal.

    C1 one element type and, where there is one, one quantization. C2 all operands have one shape, and the
    result has a dimension more, of their number, at ``axis``.
    """

    NAME = "qnn.pack"
    TFLITE: ClassVar[tuple[str, ...]] = ("PACK",)

    axis: int

    def verify(self, call: Call) -> None:
        """Check C1, C2."""
        out, parts = call.output, [call.input(i) for i in range(len(call.inputs))]
        require_same_dtype("C1", call)
        for part in parts:
            require(part.quantization == out.quantization, "C1", f"{part} is quantized unlike {out}")
        for part in parts:
            in_range = 0 <= self.axis <= len(part.shape)
            wanted = (*part.shape[: self.axis], len(parts), *part.shape[self.axis :])
            require(in_range and out.shape == wanted, "C2", f"{part} does not stack into {out}")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """NumPy stack."""
        return (np.stack([call.array(i) for i in range(len(call.arrays))], self.axis),)
