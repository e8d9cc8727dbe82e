"""Integer arithmetic on values of a prim graph, written with operators."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qimport import prim
from qimport.fixedpoint import INT32_MAX, INT32_MIN
from qimport.ir.graph import Value
from qimport.lower.rule import Emitter
from qimport.prim.arithmetic import BinaryKind


@dataclass(frozen=True)
class Number:
    """An int64 value under + - * and comparisons of Python."""

    emit: Emitter
    value: Value

    def __add__(self, other: Number | int) -> Number:
        return self._apply("add", other)

    def __mul__(self, other: Number | int) -> Number:
        return self._apply("mul", other)

    def _apply(self, kind: BinaryKind, other: Number | int) -> Number:
        operand = other.value if isinstance(other, Number) else other
        return Number(self.emit, self.emit.binary(kind, self.value, operand))


class GraphNumbers:
    """:class:`qimport.qnn.logarithm.Numbers` as nodes: int32 numbers in int64 values."""

    def __init__(self, emit: Emitter) -> None:
        self.emit = emit

    def of(self, x: Value) -> Number:
        """An integer value, widened."""
        return Number(self.emit, x if x.type.dtype == "int64" else self.emit.cast(x, "int64"))

    def narrow(self, a: Number) -> Value:
        """The low 32 bits as int32."""
        return self.emit.cast(a.value, "int32")

    def wrap(self, a: Number) -> Number:
        """Through int32 and back."""
        return self.of(self.narrow(a))

    def saturate(self, a: Number) -> Number:
        """Between the ends of int32."""
        bounded = self.emit.binary("max", self.emit.binary("min", a.value, INT32_MAX), INT32_MIN)
        return Number(self.emit, bounded)

    def shift_left(self, a: Number, count: Number | int) -> Number:
        """``prim.binary``."""
        return a._apply("shift_left", count)

    def shift_right(self, a: Number, count: Number | int) -> Number:
        """``prim.binary``."""
        return a._apply("shift_right", count)

    def smaller(self, a: Number, b: Number | int) -> Number:
        """``prim.binary``."""
        return a._apply("min", b)

    def larger(self, a: Number, b: Number | int) -> Number:
        """``prim.binary``."""
        return a._apply("max", b)

    def leading_zeros(self, a: Number) -> Number:
        """``prim.leading_zeros`` of the low 32 bits."""
        narrow = self.narrow(a)
        return self.of(self.emit.emit(prim.LeadingZeros(), (narrow,), narrow.type))

    def table(self, entry: Value, numbers: np.ndarray) -> Number:
        """Numbers looked up by an 8-bit value."""
        return self.of(self.emit.lut(entry, numbers.astype(np.int32)))
