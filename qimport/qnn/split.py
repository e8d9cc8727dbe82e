"""``qnn.split`` and ``qnn.unpack``: one operand, several results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from qimport.ir.check import require
from qimport.ir.graph import Array, Call, operation
from qimport.qnn.base import QnnOperation


def _require_dtype(call: Call) -> None:
    x = call.input(0)
    for out in call.outputs:
        require(out.dtype == x.dtype, "C1", f"{x} and {out} differ in element type")


@operation
@dataclass(frozen=True)
class Split(QnnOperation):
    """Cut the operand along ``axis`` (>= 0); the result types say where. Any type, all modes equal.

    Codes are copied whatever the results' quantization.

    C1 one element type. C2 results agree with the operand outside ``axis``, where their sizes add up to its.
    """

    NAME = "qnn.split"
    TFLITE: ClassVar[tuple[str, ...]] = ("SPLIT", "SPLIT_V")

    axis: int

    def verify(self, call: Call) -> None:
        """Check C1, C2."""
        x, axis = call.input(0), self.axis
        _require_dtype(call)
        require(0 <= axis < len(x.shape), "C2", f"{x} has no dimension {axis}")
        for out in call.outputs:
            wanted = (*x.shape[:axis], *out.shape[axis : axis + 1], *x.shape[axis + 1 :])
            require(out.shape == wanted, "C2", f"{out} is no part of {x}")
        total = sum(out.shape[axis] for out in call.outputs)
        require(total == x.shape[axis], "C2", f"sizes along dimension {axis} add up to {total}")

    def starts(self, call: Call) -> list[int]:
        """Where each result begins along the axis."""
        sizes = [out.shape[self.axis] for out in call.outputs]
        return [sum(sizes[:number]) for number in range(len(sizes))]

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """NumPy split."""
        return tuple(part.copy() for part in np.split(call.array(0), self.starts(call)[1:], self.axis))


@operation
@dataclass(frozen=True)
class Unpack(QnnOperation):
    """One result per index of dimension ``axis`` (>= 0), which they lack; any type, all modes equal.

    C1 one element type. C2 there are as many results as indices, each of the remaining shape.
    """

    NAME = "qnn.unpack"
    TFLITE: ClassVar[tuple[str, ...]] = ("UNPACK",)

    axis: int

    def verify(self, call: Call) -> None:
        """Check C1, C2."""
        x, axis = call.input(0), self.axis
        _require_dtype(call)
        fits = 0 <= axis < len(x.shape) and len(call.outputs) == x.shape[axis]
        require(fits, "C2", f"{len(call.outputs)} results for dimension {axis} of {x}")
        for out in call.outputs:
            wanted = (*x.shape[:axis], *x.shape[axis + 1 :])
            require(out.shape == wanted, "C2", f"{out} must have shape {wanted}")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """NumPy take."""
        return tuple(np.take(call.array(0), number, self.axis) for number in range(len(call.outputs)))
