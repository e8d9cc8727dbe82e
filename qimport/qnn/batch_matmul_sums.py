"""``qnn.batch_matmul_sums``: BATCH_MATMUL of int8 matrices with an int32 result."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qimport.fixedpoint import wrap32
from qimport.ir.check import require
from qimport.ir.graph import Array, Call, operation
from qimport.qnn.base import QnnOperation
from qimport.qnn.batch_matmul import product_shape


@operation
@dataclass(frozen=True)
class BatchMatmulSums(QnnOperation):
    """Products of matrices of codes; the leading dimensions broadcast.

    Operands: a [..., M, K] ([..., K, M] with ``adj_x``), b [..., K, N] ([..., N, K] with ``adj_y``). The
    result is [..., M, N] in all modes:

        sum a * b, modulo 2^32

    Zero points and scales count nothing, whatever the file says.

    C1 a and b are int8, the result is int32. C2 the matrices fit and the leading dimensions broadcast to the
    result's.
    """

    NAME = "qnn.batch_matmul_sums"
    TFLITE = ("BATCH_MATMUL",)

    adj_x: bool = False
    adj_y: bool = False

    def verify(self, call: Call) -> None:
        """Check C1, C2."""
        a, b, out = call.input(0), call.input(1), call.output
        require((a.dtype, b.dtype, out.dtype) == ("int8", "int8", "int32"), "C1", "expected int8 and int32")
        require(min(len(a.shape), len(b.shape)) >= 2, "C2", "ranks must be at least 2")
        wanted = product_shape(a.shape, b.shape, self.adj_x, self.adj_y)
        require(wanted == out.shape, "C2", f"{a} and {b} do not give {out}")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """The docstring's formula; float64 holds every sum of less than 2^39 products."""
        a, b = (call.array(index).astype(np.float64) for index in (0, 1))
        product = (a.swapaxes(-1, -2) if self.adj_x else a) @ (b.swapaxes(-1, -2) if self.adj_y else b)
        return (wrap32(product.astype(np.int64)).astype(np.int32),)
