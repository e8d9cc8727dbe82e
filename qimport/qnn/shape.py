"""``qnn.shape``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from qimport.ir.check import require
from qimport.ir.graph import Array, Call, operation
from qimport.qnn.base import QnnOperation


@operation
@dataclass(frozen=True)
class Shape(QnnOperation):
    """The dimensions of the operand, whose elements are not read. Shapes are static, so this is a constant.

    C1 the result is int32 or int64 with one element per dimension.
    """

    NAME = "qnn.shape"
    TFLITE: ClassVar[tuple[str, ...]] = ("SHAPE",)

    def verify(self, call: Call) -> None:
        """Check C1."""
        x, out = call.input(0), call.output
        require(out.dtype in ("int32", "int64"), "C1", f"{out} is not int32 or int64")
        require(out.shape == (len(x.shape),), "C1", f"{x} has {len(x.shape)} dimensions, {out} holds others")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """From the type alone."""
        return (np.array(call.input(0).shape, call.output.numpy),)
