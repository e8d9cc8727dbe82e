"""``qnn.bitcast``: the BITCAST operator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from qimport.ir.check import require
from qimport.ir.graph import Array, Call, operation
from qimport.ir.types import DTYPES, TensorType
from qimport.qnn.base import QnnOperation

ELEMENTS = tuple(dtype for dtype in DTYPES if dtype not in ("int2", "int4", "complex64"))
"""What can be read as something else; nothing but bool becomes bool."""


@operation
@dataclass(frozen=True)
class Bitcast(QnnOperation):
    """The bytes of x, little-endian, as elements of another type. All modes equal.

    C1 x has an element type of whole bytes that is not complex, the result too, and it is not bool. C2 the
    shape stays where elements have equally many bytes; smaller ones get one more dimension, the last, that
    larger ones lose.
    """

    NAME = "qnn.bitcast"
    TFLITE: ClassVar[tuple[str, ...]] = ("BITCAST",)

    def verify(self, call: Call) -> None:
        """Check C1, C2."""
        x, out = call.input(0), call.output
        known = x.dtype in ELEMENTS and out.dtype in ELEMENTS
        require(known and (out.dtype != "bool" or x.dtype == "bool"), "C1", f"{x} cannot become {out}")
        require(self.result_shape(x, out) == out.shape, "C2", f"{x} cannot become {out}")

    @staticmethod
    def result_shape(x: TensorType, out: TensorType) -> tuple[int, ...] | None:
        """The shape of x in elements of the result's type, None if they do not fit."""
        if x.itemsize >= out.itemsize:
            count = x.itemsize // out.itemsize
            return x.shape if count == 1 else (*x.shape, count)
        return x.shape[:-1] if x.shape[-1:] == (out.itemsize // x.itemsize,) else None

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """A view."""
        flat = np.ascontiguousarray(call.array(0)).reshape(-1)
        return (flat.view(call.output.numpy).reshape(call.output.shape),)
