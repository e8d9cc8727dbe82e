"""``qnn.reverse`` and ``qnn.reverse_sequence``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from qimport.ir.check import require
from qimport.ir.graph import Array, Call, operation
from qimport.qnn.base import QnnOperation


def _require_like(call: Call) -> None:
    x, out = call.input(0), call.output
    require((x.dtype, x.shape) == (out.dtype, out.shape), "C1", f"{x} and {out} differ")


@operation
@dataclass(frozen=True)
class Reverse(QnnOperation):
    """The elements in opposite order along ``axes`` (>= 0, distinct); any type, all modes equal.

    C1 element type and shape stay. C2 the axes are dimensions of the operand.
    """

    NAME = "qnn.reverse"
    TFLITE: ClassVar[tuple[str, ...]] = ("REVERSE_V2",)

    axes: tuple[int, ...]

    def verify(self, call: Call) -> None:
        """Check C1, C2."""
        _require_like(call)
        rank = len(call.output.shape)
        known = len(set(self.axes)) == len(self.axes) and all(0 <= axis < rank for axis in self.axes)
        require(known, "C2", f"{call.output} has no dimensions {self.axes}")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """NumPy flip."""
        return (np.flip(call.array(0), self.axes).copy(),)


@operation
@dataclass(frozen=True)
class ReverseSequence(QnnOperation):
    """The first lengths[b] elements along ``seq_dim`` in opposite order for every index b of ``batch_dim``.

    Operands x (any type), lengths; all modes equal. A length over the size of ``seq_dim`` counts as that
    size; the interpreter then leaves its tensors.

    C1 element type and shape of x stay. C2 the two dimensions exist and differ. C3 lengths are int32 or
    int64, one per index of ``batch_dim``.
    """

    NAME = "qnn.reverse_sequence"
    TFLITE: ClassVar[tuple[str, ...]] = ("REVERSE_SEQUENCE",)

    seq_dim: int
    batch_dim: int

    def verify(self, call: Call) -> None:
        """Check C1-C3."""
        x, lengths = call.input(0), call.input(1)
        _require_like(call)
        dims = {self.seq_dim, self.batch_dim}
        known = len(dims) == 2 and dims <= set(range(len(x.shape)))
        require(known, "C2", f"{x} has no two dimensions {self.seq_dim} and {self.batch_dim}")
        fits = lengths.dtype in ("int32", "int64") and lengths.shape == (x.shape[self.batch_dim],)
        require(fits, "C3", f"{lengths} has not one length per index of dimension {self.batch_dim} of {x}")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """Slice by slice."""
        result = call.array(0).copy()
        rows = np.moveaxis(result, (self.batch_dim, self.seq_dim), (0, 1))
        for row, length in zip(rows, np.clip(call.array(1), 0, rows.shape[1]), strict=True):
            row[:length] = row[:length][::-1].copy()
        return (result,)
