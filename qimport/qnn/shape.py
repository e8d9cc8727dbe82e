"""``qnn.shape``, ``qnn.rank`` and ``qnn.broadcast_args``."""

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


@operation
@dataclass(frozen=True)
class Rank(Shape):
    """The number of dimensions of the operand, whose elements are not read: a constant.

    C1 the result is one int32.
    """

    NAME = "qnn.rank"
    TFLITE: ClassVar[tuple[str, ...]] = ("RANK",)

    def verify(self, call: Call) -> None:
        """Check C1."""
        out = call.output
        require(out.dtype == "int32" and out.shape == (), "C1", f"{out} is not one int32")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """From the type alone."""
        return (np.array(len(call.input(0).shape), np.int32),)


@operation
@dataclass(frozen=True)
class BroadcastArgs(QnnOperation):
    """The shape to which tensors of two given shapes broadcast; sizes are at least 1. All modes equal.

    C1 operands and result are vectors of int32 or of int64. C2 the result is as long as the longer operand.
    """

    NAME = "qnn.broadcast_args"
    TFLITE: ClassVar[tuple[str, ...]] = ("BROADCAST_ARGS",)

    def verify(self, call: Call) -> None:
        """Check C1, C2."""
        a, b, out = call.input(0), call.input(1), call.output
        known = out.dtype in ("int32", "int64") and a.dtype == b.dtype == out.dtype
        known = known and len(a.shape) == len(b.shape) == len(out.shape) == 1
        require(known, "C1", f"{a}, {b} and {out} are not vectors of int32 or of int64")
        require(out.size == max(a.size, b.size), "C2", f"{out} is as long as neither {a} nor {b}")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """The larger sizes, counted from the back."""
        size = call.output.size
        a, b = (np.pad(call.array(i), (size - call.input(i).size, 0), constant_values=1) for i in (0, 1))
        return (np.maximum(a, b),)
