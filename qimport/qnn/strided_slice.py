"""``qnn.strided_slice``."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from qimport.ir.check import require
from qimport.ir.graph import Array, Call, operation
from qimport.qnn.base import QnnOperation
from qimport.qnn.checks import EIGHT_BIT, require_same_dtype


@operation
@dataclass(frozen=True)
class StridedSlice(QnnOperation):
    """The elements begin + stride * [0, size) of every dimension; any element type, all modes equal.

    All masks of the operator are resolved at import: ``begin`` is a valid index, strides may be negative,
    ``size`` counts the indices per dimension of the operand. Dimensions that the operator drops
    (shrink_axis_mask) or adds (new_axis_mask) show in the result's shape alone.

    C1 one element type. C2 one begin, stride and size per dimension, every index inside the operand.
    C3 the result has as many elements as indices, in dimensions that differ from ``size`` by ones only.
    """

    NAME = "qnn.strided_slice"
    TFLITE: ClassVar[tuple[str, ...]] = ("STRIDED_SLICE", "SLICE")

    begin: tuple[int, ...]
    stride: tuple[int, ...]
    size: tuple[int, ...]

    def verify(self, call: Call) -> None:
        """Check C1-C3."""
        x, out = call.input(0), call.output
        require_same_dtype("C1", call)
        ranks = {len(self.begin), len(self.stride), len(self.size), len(x.shape)}
        require(len(ranks) == 1, "C2", f"begin, stride and size must have {len(x.shape)} elements")
        for extent, first, step, count in zip(x.shape, self.begin, self.stride, self.size, strict=True):
            last = first + (count - 1) * step
            inside = count == 0 or (count > 0 and step != 0 and 0 <= first < extent and 0 <= last < extent)
            require(inside, "C2", f"indices {first}..{last} by {step} leave a dimension of {extent}")
        same = [n for n in self.size if n != 1] == [n for n in out.shape if n != 1]
        require(same and math.prod(self.size) == out.size, "C3", f"{self.size} indices do not give {out}")

    def xnnpack_takes(self, call: Call) -> bool:
        """Plain slices of 8-bit and float tensors that keep every dimension."""
        known = call.output.dtype in (*EIGHT_BIT, "float32")
        return known and set(self.stride) <= {1} and call.output.shape == self.size

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """NumPy indexing."""
        parts = zip(self.begin, self.stride, self.size, strict=True)
        indices = [first + step * np.arange(count) for first, step, count in parts]
        picked = call.array(0)[np.ix_(*indices)] if indices else call.array(0)
        return (picked.reshape(call.output.shape),)
