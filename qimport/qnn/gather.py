"""``qnn.gather``, ``qnn.gather_nd`` and ``qnn.embedding_lookup``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from qimport.ir.check import require
from qimport.ir.graph import Array, Call, operation
from qimport.ir.types import TensorType
from qimport.qnn.base import QnnOperation

INDEX_TYPES = ("int16", "int32", "int64")


def require_indices(indices: TensorType) -> None:
    """C1 of the operations here: a type that indices may have."""
    require(indices.dtype in INDEX_TYPES, "C1", f"{indices} holds no indices of {', '.join(INDEX_TYPES)}")


@operation
@dataclass(frozen=True)
class Gather(QnnOperation):
    """x[b..., o..., indices[b..., j...], i...]; operands x (any type), indices. All modes equal.

    ``batch_dims`` leading dimensions b are common to both operands. The interpreter fails on an index outside
    the dimension, negative ones included; here it is clamped.

    C1 indices are int16, int32 or int64; x and the result have one element type. C2 0 <= batch_dims <= axis <
    rank of x; the leading dimensions agree. C3 the result has x's shape with the axis replaced by what
    indices have behind the leading dimensions.
    """

    NAME = "qnn.gather"
    TFLITE: ClassVar[tuple[str, ...]] = ("GATHER",)

    axis: int
    batch_dims: int = 0

    def verify(self, call: Call) -> None:
        """Check C1-C3."""
        x, indices, out, batch = call.input(0), call.input(1), call.output, self.batch_dims
        require_indices(indices)
        require(x.dtype == out.dtype, "C1", f"{x} and {out} differ in element type")
        require(
            0 <= batch <= self.axis < len(x.shape), "C2", f"no dimension {self.axis} behind {batch} of {x}"
        )
        common = batch <= len(indices.shape) and x.shape[:batch] == indices.shape[:batch]
        require(common, "C2", f"{x} and {indices} differ in the first {batch} dimensions")
        wanted = (*x.shape[: self.axis], *indices.shape[batch:], *x.shape[self.axis + 1 :])
        require(out.shape == wanted, "C3", f"the result must have shape {wanted}")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """NumPy take, batch by batch."""
        x, indices, batch = call.array(0), call.array(1), self.batch_dims
        result = np.empty(call.output.shape, x.dtype)
        for place in np.ndindex(*x.shape[:batch]):
            result[place] = np.take(x[place], indices[place], self.axis - batch, mode="clip")
        return (result,)


@operation
@dataclass(frozen=True)
class GatherNd(QnnOperation):
    """x[indices[j..., 0], ..., indices[j..., K - 1], i...]; operands x (any type), indices. All modes equal.

    The interpreter fails on a coordinate outside its dimension; here it is clamped.

    C1 indices are int16, int32 or int64; x and the result have one element type. C2 the last dimension of
    indices, K, is at most the rank of x. C3 the result has the shape of indices without K, then that of x
    without K dimensions.
    """

    NAME = "qnn.gather_nd"
    TFLITE: ClassVar[tuple[str, ...]] = ("GATHER_ND",)

    def verify(self, call: Call) -> None:
        """Check C1-C3."""
        x, indices, out = call.input(0), call.input(1), call.output
        require_indices(indices)
        require(x.dtype == out.dtype, "C1", f"{x} and {out} differ in element type")
        known = len(indices.shape) > 0 and indices.shape[-1] <= len(x.shape)
        require(known, "C2", f"{indices} holds no coordinates of {x}")
        wanted = (*indices.shape[:-1], *x.shape[indices.shape[-1] :])
        require(out.shape == wanted, "C3", f"the result must have shape {wanted}")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """NumPy indexing."""
        x, indices = call.array(0), call.array(1)
        places = tuple(np.clip(indices[..., k], 0, x.shape[k] - 1) for k in range(indices.shape[-1]))
        return (x[places].reshape(call.output.shape),)


@operation
@dataclass(frozen=True)
class EmbeddingLookup(QnnOperation):
    """Rows of a table; operands indices, table. All modes equal.

    A float result of an int8 table is f32(f32(code) * scale), with one scale or one per row; zero points are
    ignored. All else is copied. The interpreter fails on an index outside the table; here it is clamped.

    C1 indices are a vector of int32. C2 the result has the table's element type, or is float32 and the table
    int8 with one scale, or one for each row. C3 the result has the table's shape with a row per index.
    """

    NAME = "qnn.embedding_lookup"
    TFLITE: ClassVar[tuple[str, ...]] = ("EMBEDDING_LOOKUP",)

    def verify(self, call: Call) -> None:
        """Check C1-C3."""
        indices, table, out = call.input(0), call.input(1), call.output
        require(
            indices.dtype == "int32" and len(indices.shape) == 1, "C1", f"{indices} is no vector of int32"
        )
        if self.converts(call):
            known = table.quantization is not None and table.quant.axis in (None, 0)
            require(table.dtype == "int8" and known, "C2", f"{table} does not give {out}")
        require(bool(table.shape), "C3", f"{table} has no rows")
        wanted = (*indices.shape, *table.shape[1:])
        require(out.shape == wanted, "C3", f"the result must have shape {wanted}")

    @staticmethod
    def converts(call: Call) -> bool:
        """Whether the result is real where the table holds codes."""
        return call.output.dtype != call.input(1).dtype

    @staticmethod
    def row_scales(call: Call) -> Array:
        """One scale per row of the table."""
        table = call.input(1)
        return np.resize(np.array(table.quant.scales, np.float32), table.shape[0])

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """NumPy take."""
        rows = np.clip(call.array(0), 0, call.input(1).shape[0] - 1)
        found = call.array(1)[rows]
        if not self.converts(call):
            return (found,)
        scales = self.row_scales(call)[rows].reshape(-1, *[1] * (found.ndim - 1))
        return (found.astype(np.float32) * scales,)
