"""Lowering rules: one function per qnn operation, entered in a table, and the emitter they write with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from qimport import prim
from qimport.elements import Relation
from qimport.ir.graph import Array, Builder, Call, Graph, Value
from qimport.ir.types import TensorType
from qimport.numerics import Numerics
from qimport.prim.arithmetic import BinaryKind
from qimport.prim.math import MathKind
from qimport.qnn.base import QnnOperation
from qimport.qnn.requantization import fixed_point_factors


@dataclass(frozen=True)
class Use:
    """One qnn node as a rule sees it: the quantized types (``call``), the lowered operands and bodies."""

    call: Call
    operands: tuple[Value | None, ...]
    bodies: tuple[Graph, ...] = ()

    def operand(self, index: int) -> Value:
        """A mandatory operand in the prim graph."""
        found = self.operands[index]
        if found is None:
            raise ValueError(f"operand {index} is absent")
        return found

    @property
    def output(self) -> TensorType:
        """The qnn type of the only result."""
        return self.call.output


def plain(type_: TensorType) -> TensorType:
    """The type without its quantization: what the value has in the prim graph."""
    return TensorType(type_.dtype, type_.shape)


class Emitter(Builder):
    """A builder with one short method per primitive; result types follow from the operands."""

    def cast(self, x: Value, dtype: str) -> Value:
        """``prim.cast`` to ``dtype``."""
        return self.emit(prim.Cast(), (x,), TensorType(dtype, x.type.shape))

    def number(self, number: float, like: Value) -> Value:
        """A constant of one element that stretches to ``like``, of its element type."""
        return self.constant(np.full((1,) if like.type.shape else (), number, like.type.numpy))

    def binary(self, kind: BinaryKind, a: Value, b: Value | float) -> Value:
        """``prim.binary``; a Python number becomes a constant of one element."""
        other = b if isinstance(b, Value) else self.number(b, a)
        shape = np.broadcast_shapes(a.type.shape, other.type.shape)
        return self.emit(prim.Binary(kind), (a, other), TensorType(a.type.dtype, shape))

    def negative(self, x: Value) -> Value:
        """0 - x of integers."""
        return self.emit(prim.Binary("sub"), (self.number(0, x), x), x.type)

    def compare(self, kind: Relation, a: Value, b: Value | float) -> Value:
        """``prim.compare``; a Python number becomes a constant of one element."""
        other = b if isinstance(b, Value) else self.number(b, a)
        shape = np.broadcast_shapes(a.type.shape, other.type.shape)
        return self.emit(prim.Compare(kind), (a, other), TensorType("bool", shape))

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        """``prim.select``."""
        shape = np.broadcast_shapes(condition.type.shape, a.type.shape, b.type.shape)
        return self.emit(prim.Select(), (condition, a, b), TensorType(a.type.dtype, shape))

    def math(self, kind: MathKind, x: Value) -> Value:
        """``prim.math``."""
        return self.emit(prim.Math(kind), (x,), x.type)

    def fma(self, a: Value, b: Value, c: Value) -> Value:
        """``prim.fma``."""
        shape = np.broadcast_shapes(a.type.shape, b.type.shape, c.type.shape)
        return self.emit(prim.Fma(), (a, b, c), TensorType("float32", shape))

    def rescale(self, x: Value, factor: float) -> Value:
        """``prim.rescale`` by one float64 factor, ``double_away``."""
        factors = map(self.constant, fixed_point_factors([factor]))
        return self.emit(prim.Rescale("double_away"), (x, *factors), x.type)

    def clamp(self, x: Value, zero_point: int, low: int, high: int, dtype: str) -> Value:
        """``prim.clamp`` into ``dtype``."""
        return self.emit(prim.Clamp(zero_point, low, high), (x,), TensorType(dtype, x.type.shape))

    def lut16(self, x: Value, table: Array) -> Value:
        """``prim.lut16`` with 513 knots."""
        return self.emit(prim.Lut16(), (x, self.constant(table.astype(np.int16))), x.type)

    def lut(self, x: Value, table: Array) -> Value:
        """``prim.lut`` with 256 entries, ordered from the smallest code of x's type."""
        return self.emit(prim.Lut(), (x, self.constant(table)), TensorType(table.dtype.name, x.type.shape))

    def reshape(self, x: Value, shape: tuple[int, ...]) -> Value:
        """``prim.reshape``; nothing when the shape stays."""
        if shape == x.type.shape:
            return x
        return self.emit(prim.Reshape(), (x,), TensorType(x.type.dtype, shape))

    def concat(self, parts: Sequence[Value], axis: int) -> Value:
        """``prim.concat``; nothing for a single part."""
        if len(parts) == 1:
            return parts[0]
        shape = list(parts[0].type.shape)
        shape[axis] = sum(part.type.shape[axis] for part in parts)
        return self.emit(prim.Concat(axis), parts, TensorType(parts[0].type.dtype, tuple(shape)))

    def slice(self, x: Value, begin: Sequence[int], shape: tuple[int, ...], stride: Sequence[int]) -> Value:
        """``prim.slice``."""
        op = prim.Slice(tuple(begin), tuple(stride))
        return self.emit(op, (x,), TensorType(x.type.dtype, shape))

    def transpose(self, x: Value, permutation: Sequence[int]) -> Value:
        """``prim.transpose``."""
        shape = tuple(x.type.shape[axis] for axis in permutation)
        return self.emit(prim.Transpose(tuple(permutation)), (x,), TensorType(x.type.dtype, shape))

    def pad(self, x: Value, before: Sequence[int], after: Sequence[int], value: int | float) -> Value:
        """``prim.pad``."""
        shape = tuple(sum(sizes) for sizes in zip(x.type.shape, before, after, strict=True))
        op = prim.Pad(tuple(before), tuple(after), value)
        return self.emit(op, (x,), TensorType(x.type.dtype, shape))

    def broadcast(self, x: Value, shape: tuple[int, ...]) -> Value:
        """``prim.broadcast``, after a reshape that adds leading dimensions; nothing when the shape stays."""
        x = self.reshape(x, (*[1] * (len(shape) - len(x.type.shape)), *x.type.shape))
        if x.type.shape == shape:
            return x
        return self.emit(prim.Broadcast(), (x,), TensorType(x.type.dtype, shape))

    def gather(self, x: Value, indices: Value, axis: int, batch_dims: int = 0) -> Value:
        """``prim.gather``."""
        op = prim.Gather(axis, batch_dims)
        shape = op.result_shape(x.type.shape, indices.type.shape)
        return self.emit(op, (x, indices), TensorType(x.type.dtype, shape))

    def in_blocks(
        self, x: Value, block: int, body: Callable[[Value], Value], leftover: Callable[[Value], Value]
    ) -> Value:
        """``body`` on the first block * (n // block) elements of the flat tensor, ``leftover`` after.

        How kernels that vectorize over the flat tensor round their remainder differently.
        """
        size = x.type.size
        split = size - size % block
        if split == size:
            return body(x)
        if split == 0:
            return leftover(x)
        flat = self.reshape(x, (size,))
        head = body(self.slice(flat, (0,), (split,), (1,)))
        tail = leftover(self.slice(flat, (split,), (size - split,), (1,)))
        return self.reshape(self.concat((head, tail), 0), x.type.shape)


Op = TypeVar("Op", bound=QnnOperation)
Rule = Callable[[Emitter, Any, Use], Value | tuple[Value, ...]]

RULES: dict[type[QnnOperation], Rule] = {}
"""The lowering rule of every qnn operation."""


def rule(*ops: type[Op]) -> Callable[[Callable[[Emitter, Op, Use], Any]], Callable[[Emitter, Op, Use], Any]]:
    """Decorator: ``f(emit, op, use)`` returns the value(s) that replace the results of such nodes."""

    def enter(function: Callable[[Emitter, Op, Use], Any]) -> Callable[[Emitter, Op, Use], Any]:
        RULES.update(dict.fromkeys(ops, function))
        return function

    return enter


__all__ = ["RULES", "Emitter", "Numerics", "Rule", "Use", "plain", "rule"]
