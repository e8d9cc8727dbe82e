"""``qnn.blockwise_embedding``: EMBEDDING_LOOKUP in a table of int4 codes with a scale per block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from qimport.ir.check import require
from qimport.ir.graph import Array, Call, operation
from qimport.ir.types import TensorType
from qimport.qnn.base import QnnOperation


@operation
@dataclass(frozen=True)
class BlockwiseEmbedding(QnnOperation):
    """Rows of a table as real numbers: f32(code) * f32(s), where ``block`` neighbours of a row share s.

    Operands: indices int32 [n], table int4 [rows, K], s float16 [rows, K / block]. All modes equal. The
    interpreter fails on an index outside the table; here it is clamped.

    C1 indices are a vector of int32, the table is a matrix of int4, the result float32 [n, K]. C2 s is
    float16 [rows, K / block], whole blocks.
    """

    NAME = "qnn.blockwise_embedding"
    TFLITE: ClassVar[tuple[str, ...]] = ("EMBEDDING_LOOKUP",)

    block: int

    def verify(self, call: Call) -> None:
        """Check C1, C2."""
        indices, table, scales = (call.input(index) for index in range(3))
        vector = indices.dtype == "int32" and len(indices.shape) == 1
        require(vector, "C1", f"{indices} is no vector of int32")
        require(table.dtype == "int4" and len(table.shape) == 2, "C1", f"{table} is no matrix of int4")
        rows, size = table.shape
        wanted = TensorType("float32", (*indices.shape, size))
        require(call.output == wanted, "C1", f"the result must be {wanted}")
        require(self.block > 0 and size % self.block == 0, "C2", f"blocks of {self.block} do not fit {size}")
        expected = TensorType("float16", (rows, size // self.block))
        require(scales == expected, "C2", f"the scales must be {expected}")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """NumPy take, and a product."""
        rows = np.clip(call.array(0), 0, call.input(1).shape[0] - 1)
        codes = call.array(1)[rows].astype(np.float32)
        return (codes * call.array(2)[rows].astype(np.float32).repeat(self.block, axis=1),)
