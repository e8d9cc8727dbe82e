"""``qnn.matrix_diag`` and ``qnn.matrix_set_diag``."""

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
class MatrixDiag(QnnOperation):
    """Square matrices with the rows of x on their diagonals and code 0 elsewhere; any type, all modes equal.

    C1 one element type. C2 the result has x's shape with its last dimension twice.
    """

    NAME = "qnn.matrix_diag"
    TFLITE: ClassVar[tuple[str, ...]] = ("MATRIX_DIAG",)

    def verify(self, call: Call) -> None:
        """Check C1, C2."""
        x, out = call.input(0), call.output
        require_same_dtype("C1", call)
        fits = len(x.shape) > 0 and out.shape == (*x.shape, *x.shape[-1:])
        require(fits, "C2", f"{x} does not give matrices like {out}")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """NumPy assignment."""
        result = np.zeros(call.output.shape, call.output.numpy)
        places = np.arange(result.shape[-1])
        result[..., places, places] = call.array(0)
        return (result,)


@operation
@dataclass(frozen=True)
class MatrixSetDiag(QnnOperation):
    """Matrices x with the main diagonals replaced; operands x, diagonals. Any type, all modes equal.

    C1 one element type; the result is like x. C2 diagonals have x's shape with its last two dimensions
    replaced by the smaller of them.
    """

    NAME = "qnn.matrix_set_diag"
    TFLITE: ClassVar[tuple[str, ...]] = ("MATRIX_SET_DIAG",)

    def verify(self, call: Call) -> None:
        """Check C1, C2."""
        x, diagonal, out = call.input(0), call.input(1), call.output
        require_same_dtype("C1", call)
        require(x.shape == out.shape, "C1", f"{x} and {out} differ in shape")
        fits = len(x.shape) >= 2 and diagonal.shape == (*x.shape[:-2], min(x.shape[-2:]))
        require(fits, "C2", f"{diagonal} are no diagonals of {x}")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """NumPy assignment."""
        result = call.array(0).copy()
        places = np.arange(call.input(1).shape[-1])
        result[..., places, places] = call.array(1)
        return (result,)
