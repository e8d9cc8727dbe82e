"""``qnn.batch_matmul_sums``: BATCH_MATMUL of int8 matrices with an int32 result."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qimport.fixedpoint import wrap32
from qimport.ir.check import require
from qimport.ir.graph import Array, Call, operation
from qimport.qnn.geometry import MatmulGeometry


@operation
@dataclass(frozen=True)
class BatchMatmulSums(MatmulGeometry):
    """Products of matrices of codes: MatmulGeometry of integers without scales.

    In all modes:

        sum a * b, modulo 2^32

    Zero points and scales count nothing, whatever the file says.

    C1 a and b are int8, the result is int32. C2 see MatmulGeometry.
    """

    NAME = "qnn.batch_matmul_sums"
    TFLITE = ("BATCH_MATMUL",)

    def verify(self, call: Call) -> None:
        """Check C1, C2."""
        a, b, out = call.input(0), call.input(1), call.output
        require((a.dtype, b.dtype, out.dtype) == ("int8", "int8", "int32"), "C1", "expected int8 and int32")
        self.verify_geometry(call)

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """The docstring's formula; float64 holds every sum of less than 2^39 products."""
        a, b = self.upright(*(call.array(index).astype(np.float64) for index in (0, 1)))
        product = a @ b
        return (wrap32(product.astype(np.int64)).astype(np.int32),)
