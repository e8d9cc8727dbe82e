"""``qnn.scatter_nd`` and ``qnn.sparse_to_dense``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from qimport.ir.check import require
from qimport.ir.graph import Array, Call, operation
from qimport.qnn.base import QnnOperation


@operation
@dataclass(frozen=True)
class ScatterNd(QnnOperation):
    """Zeros with updates added at coordinates; operands indices [j..., K], updates [j..., i...].

    All modes equal. Updates of one place are added in order (integers wrap, bool is or). Zeros are codes,
    whatever the zero point. The interpreter fails on a coordinate outside its dimension; here it is clamped.

    C1 indices are int32; updates and the result have one element type. C2 the last dimension of indices, K,
    is at most the rank of the result. C3 the shape of updates is that of indices without K, then that of the
    result without K dimensions.
    """

    NAME = "qnn.scatter_nd"
    TFLITE: ClassVar[tuple[str, ...]] = ("SCATTER_ND",)

    def verify(self, call: Call) -> None:
        """Check C1-C3."""
        indices, updates, out = call.input(0), call.input(1), call.output
        require(indices.dtype == "int32", "C1", f"{indices} holds no indices of int32")
        require(updates.dtype == out.dtype, "C1", f"{updates} and {out} differ in element type")
        known = len(indices.shape) > 0 and indices.shape[-1] <= len(out.shape)
        require(known, "C2", f"{indices} holds no coordinates of {out}")
        wanted = (*indices.shape[:-1], *out.shape[indices.shape[-1] :])
        require(updates.shape == wanted, "C3", f"updates must have shape {wanted}")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """NumPy's unbuffered addition."""
        result = np.zeros(call.output.shape, call.output.numpy)
        indices = call.array(0)
        places: Any = tuple(
            np.clip(indices[..., k], 0, result.shape[k] - 1) for k in range(indices.shape[-1])
        )
        with np.errstate(all="ignore"):
            np.add.at(result, places, call.array(1))
        return (result,)


@operation
@dataclass(frozen=True)
class SparseToDense(QnnOperation):
    """``default`` with values stored at coordinates; operands indices, values, default. All modes equal.

    Indices are a scalar (one place in a vector), a vector (places in a vector) or a matrix of one row of
    coordinates per place; values are one for all places or one for each. The last one stored counts. The
    interpreter fails on a coordinate outside its dimension; here it is clamped.

    C1 indices are int32 or int64; values, default and the result have one element type. C2 indices have at
    most two dimensions and as many coordinates as the result dimensions. C3 default is one element, values
    are one or one per place.
    """

    NAME = "qnn.sparse_to_dense"
    TFLITE: ClassVar[tuple[str, ...]] = ("SPARSE_TO_DENSE",)

    def verify(self, call: Call) -> None:
        """Check C1-C3."""
        indices, values, default, out = (*(call.input(i) for i in range(3)), call.output)
        require(indices.dtype in ("int32", "int64"), "C1", f"{indices} holds no indices of int32 or int64")
        require(values.dtype == default.dtype == out.dtype, "C1", "element types differ")
        rows = self.coordinates(indices.shape)
        fits = len(indices.shape) <= 2 and rows[1] == len(out.shape)
        require(fits, "C2", f"{indices} holds no coordinates of {out}")
        require(default.size == 1, "C3", f"{default} is not one element")
        require(values.size in (1, rows[0]), "C3", f"{values} for {rows[0]} places")

    @staticmethod
    def coordinates(shape: tuple[int, ...]) -> tuple[int, int]:
        """Number of places and of coordinates of each, from the shape of indices."""
        places, depth = (*shape, 1, 1)[:2]
        return places, depth

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """One value after the other."""
        indices, values, default = call.array(0), call.array(1), call.array(2)
        result = np.full(call.output.shape, default.reshape(-1)[0], call.output.numpy)
        places, depth = self.coordinates(indices.shape)
        rows = np.clip(indices.reshape(places, depth), 0, np.array(result.shape) - 1)
        for row, value in zip(rows, np.broadcast_to(values.reshape(-1), places), strict=True):
            result[tuple(row)] = value
        return (result,)
