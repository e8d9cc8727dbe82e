"""``qnn.range``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from qimport.ir.check import require
from qimport.ir.graph import Array, Call, operation
from qimport.qnn.base import QnnOperation


@operation
@dataclass(frozen=True)
class Range(QnnOperation):
    """start, start + step, ...: no operands, so this is a constant. All modes equal.

    Every element is the one before plus ``step``, rounded to the element type.

    C1 the result is a vector of int32, int64 or float32.
    """

    NAME = "qnn.range"
    TFLITE: ClassVar[tuple[str, ...]] = ("RANGE",)

    start: int | float
    step: int | float

    def verify(self, call: Call) -> None:
        """Check C1."""
        out = call.output
        known = out.dtype in ("int32", "int64", "float32") and len(out.shape) == 1
        require(known, "C1", f"{out} is no vector of int32, int64 or float32")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """Running sums in the element type."""
        steps = np.full(call.output.shape, self.step, call.output.numpy)
        steps[:1] = self.start
        with np.errstate(all="ignore"):
            return (np.add.accumulate(steps, dtype=call.output.numpy),)
