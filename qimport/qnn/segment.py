"""``qnn.segment``: SEGMENT_SUM and UNSORTED_SEGMENT_SUM, _PROD, _MAX, _MIN."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from qimport.ir.check import require
from qimport.ir.graph import Array, Call, operation
from qimport.qnn.base import QnnOperation

SegmentKind = Literal["sum", "prod", "max", "min"]

_LARGEST = {"float32": float(np.finfo(np.float32).max), "int32": 2**31 - 1}
_LOWEST = {"float32": float(np.finfo(np.float32).min), "int32": -(2**31)}


@operation
@dataclass(frozen=True)
class Segment(QnnOperation):
    """What the rows of x with one segment number have in common; operands x [j..., i...], numbers [j...].

    All modes equal. Rows are taken in order: result[numbers[j]] = result[numbers[j]] op x[j], from 0, 1, the
    lowest finite number (``max``) or the largest (``min``) on; integers wrap, ``max`` and ``min`` keep what
    they have where a comparison with NaN fails. Rows of negative numbers count nowhere. The interpreter fails
    on numbers that the result has no row for; here they count nowhere either.

    C1 x and the result are int32 or float32, numbers are int32. C2 x begins with the shape of the numbers;
    the result is [segments, i...].
    """

    NAME = "qnn.segment"
    TFLITE: ClassVar[tuple[str, ...]] = (
        "SEGMENT_SUM",
        "UNSORTED_SEGMENT_MAX",
        "UNSORTED_SEGMENT_MIN",
        "UNSORTED_SEGMENT_PROD",
        "UNSORTED_SEGMENT_SUM",
    )

    kind: SegmentKind = "sum"

    def verify(self, call: Call) -> None:
        """Check C1, C2."""
        x, numbers, out = call.input(0), call.input(1), call.output
        require(x.dtype == out.dtype and x.dtype in _LARGEST, "C1", f"{x} and {out} are not int32 or float32")
        require(numbers.dtype == "int32", "C1", f"{numbers} holds no int32")
        rank = len(numbers.shape)
        fits = x.shape[:rank] == numbers.shape and out.shape[1:] == x.shape[rank:] and len(out.shape) > 0
        require(fits, "C2", f"{x} and {numbers} do not give {out}")

    def start(self, call: Call) -> float:
        """What a segment without rows is."""
        dtype = call.output.dtype
        return {"sum": 0, "prod": 1, "max": _LOWEST[dtype], "min": _LARGEST[dtype]}[self.kind]

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """One row after the other."""
        x, numbers, out = call.array(0), call.array(1), call.output
        result = np.full(out.shape, self.start(call), out.numpy)
        rows = x.reshape(numbers.size, *out.shape[1:])
        with np.errstate(all="ignore"):
            for number, row in zip(numbers.reshape(-1).tolist(), rows, strict=True):
                if 0 <= number < out.shape[0]:
                    result[number] = self._joined(result[number], row)
        return (result,)

    def _joined(self, old: Array, new: Array) -> Array:
        if self.kind in ("sum", "prod"):
            return np.asarray(np.add(old, new) if self.kind == "sum" else np.multiply(old, new))
        less = np.less(old, new) if self.kind == "max" else np.less(new, old)
        return np.where(less, new, old)
