"""``qnn.tile`` and ``qnn.broadcast_to``."""

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
class Tile(QnnOperation):
    """The operand repeated ``multiples`` times along each dimension; any type, all modes equal.

    C1 one element type. C2 one count >= 1 per dimension; the result's sizes are the operand's times these.
    """

    NAME = "qnn.tile"
    TFLITE: ClassVar[tuple[str, ...]] = ("TILE",)

    multiples: tuple[int, ...]

    def verify(self, call: Call) -> None:
        """Check C1, C2."""
        x, out = call.input(0), call.output
        require_same_dtype("C1", call)
        counts = len(self.multiples) == len(x.shape) and min(self.multiples, default=1) > 0
        require(counts, "C2", f"counts {self.multiples} for {x}")
        wanted = tuple(size * count for size, count in zip(x.shape, self.multiples, strict=True))
        require(out.shape == wanted, "C2", f"the result must have shape {wanted}")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """NumPy tile."""
        return (np.tile(call.array(0), self.multiples),)


@operation
@dataclass(frozen=True)
class BroadcastTo(QnnOperation):
    """The operand stretched to the result's shape as NumPy does; any type, all modes equal.

    C1 one element type. C2 the shape broadcasts to the result's.
    """

    NAME = "qnn.broadcast_to"
    TFLITE: ClassVar[tuple[str, ...]] = ("BROADCAST_TO", "FILL", "ZEROS_LIKE")

    def verify(self, call: Call) -> None:
        """Check C1, C2."""
        x, out = call.input(0), call.output
        require_same_dtype("C1", call)
        padded = (*[1] * (len(out.shape) - len(x.shape)), *x.shape)
        fits = len(padded) == len(out.shape) and all(
            a in (1, b) for a, b in zip(padded, out.shape, strict=True)
        )
        require(fits, "C2", f"{x} does not stretch to {out}")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """NumPy broadcast."""
        return (np.broadcast_to(call.array(0), call.output.shape).copy(),)
