"""Kernels that move elements to or from places that are read from other tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from qimport import prim
from qimport.codegen.function import ELEMENTS, I64, Index, KernelFunction, index
from qimport.codegen.kernels import access
from qimport.codegen.kernels.movement import Mover, Moves
from qimport.lower.kernel import Strides, dense_strides


class Indices:
    """A tensor of indices, read one by one and clamped into the dimension that each is for."""

    def __init__(self, fn: KernelFunction, pointer: Any, dtype: str) -> None:
        self.fn = fn
        self.pointer = pointer
        self.dtype = dtype

    def load(self, position: Index, last: int) -> Any:
        """The index at an element of the tensor, within [0, last]."""
        place = self.fn.element(self.pointer, position, self.dtype)
        found = self.fn.load(place, ELEMENTS[self.dtype])
        wide = found if found.type == I64 else self.fn.b.sext(found, I64)
        raised = self.fn.intrinsic("llvm.smax.i64", I64, [wide, index(0)])
        return self.fn.intrinsic("llvm.smin.i64", I64, [raised, index(last)])

    def offset(self, start: Index, lasts: Sequence[int], strides: Strides) -> Index:
        """The offset that neighbouring indices from ``start`` on select, one per dimension."""
        total: Index = 0
        for k, (last, stride) in enumerate(zip(lasts, strides, strict=True)):
            total = self.fn.add(total, self.fn.mul(self.load(self.fn.add(start, k), last), stride))
        return total


def _indices(move: Mover, number: int) -> Indices:
    pointer, type_ = move.operands[number]
    return Indices(move.fn, pointer, type_.dtype)


def _gather(move: Mover, op: prim.Gather) -> None:
    """One run of loops over the result; runs that lie together in both tensors are copied at once."""
    (source, x), (_, picks) = move.operands
    axis, batch, free = op.axis, op.batch_dims, len(picks.shape) - op.batch_dims
    own, steps = dense_strides(x.shape), dense_strides(picks.shape)
    behind = len(x.shape) - axis - 1
    from_source = (*own[:axis], *[0] * free, *own[axis + 1 :])
    from_picks = (*steps[:batch], *[0] * (axis - batch), *steps[batch:], *[0] * behind)
    indices, last, stride = _indices(move, 1), (x.shape[axis] - 1,), own[axis : axis + 1]
    _pick(move, source, from_source, from_picks, lambda place: indices.offset(place, last, stride))


def _gather_nd(move: Mover, op: prim.GatherNd) -> None:
    (source, x), (_, picks) = move.operands
    depth, own = picks.shape[-1], dense_strides(x.shape)
    from_source = (*[0] * (len(picks.shape) - 1), *own[depth:])
    from_picks = (*dense_strides(picks.shape)[:-1], *[0] * (len(x.shape) - depth))
    indices, lasts = _indices(move, 1), [size - 1 for size in x.shape[:depth]]
    _pick(move, source, from_source, from_picks, lambda place: indices.offset(place, lasts, own[:depth]))


def _pick(move: Mover, source: Any, own: Strides, picks: Strides, offset: Callable[[Index], Index]) -> None:
    """Copy source[own . position + offset(picks . position)] to every position of the result."""
    fn = move.fn
    sizes, (to, own, picks) = access.collapse(move.shape, [move.strides, own, picks])
    run = to[-1] == own[-1] == 1 and picks[-1] == 0
    outer = sizes[:-1] if run else sizes

    def copy(position: list[Index]) -> None:
        depth = len(position)
        origin = access.offset(fn, position, own[:depth])
        origin = fn.add(origin, offset(access.offset(fn, position, picks[:depth])))
        place = access.offset(fn, position, to[:depth])
        move.run(place, source, origin, sizes[-1] if run else 1)

    access.nest(fn, outer, copy)


def _scatter_nd(move: Mover, op: prim.ScatterNd) -> None:
    """The base or zeros, then one update after the other."""
    *base, (_, places), (updates, update) = move.operands
    fn, depth = move.fn, places.shape[-1]
    if base:
        move.copy(move.shape, 0, base[0][0], 0, dense_strides(move.shape))
    else:
        move.fill(move.shape, 0, 0)
    leading = len(places.shape) - 1
    indices, lasts = _indices(move, len(base)), [size - 1 for size in move.shape[:depth]]
    inner = update.shape[leading:]
    sizes, (to, own) = access.collapse(inner, [move.strides[depth:], dense_strides(inner)])
    count, size = math.prod(places.shape[:-1]), math.prod(inner)

    def one(number: Index) -> None:
        target = indices.offset(fn.mul(number, depth), lasts, move.strides[:depth])
        start = fn.mul(number, size)

        def element(position: list[Index]) -> None:
            place = fn.add(target, access.offset(fn, position, to[: len(position)]))
            origin = fn.add(start, access.offset(fn, position, own[: len(position)]))
            if op.kind == "set":
                move.run(place, updates, origin, 1)
            else:
                _update(move, op.kind, place, updates, origin)

        access.nest(fn, sizes, element)

    fn.loop(0, count, 1, one)


def _update(move: Mover, kind: str, place: Index, source: Any, origin: Index) -> None:
    """result[place] and source[origin] in one."""
    fn, type_ = move.fn, ELEMENTS[move.dtype]
    pointer = fn.element(fn.result, place, move.dtype)
    old, new = fn.load(pointer, type_), fn.load(fn.element(source, origin, move.dtype), type_)
    integers = isinstance(type_, ir.IntType)
    if kind in ("max", "min"):
        left, right = (old, new) if kind == "max" else (new, old)
        less = fn.b.icmp_signed("<", left, right) if integers else fn.b.fcmp_ordered("<", left, right)
        total = fn.b.select(less, new, old)
    elif kind == "mul":
        total = fn.b.mul(old, new) if integers else fn.b.fmul(old, new)
    elif move.dtype == "bool":
        total = fn.b.or_(old, new)
    else:
        total = fn.b.add(old, new) if integers else fn.b.fadd(old, new)
    fn.store(total, pointer)


def _corner(move: Mover, number: int, whole: Sequence[int], box: Sequence[int], strides: Strides) -> Index:
    """Offset of a box inside a tensor, its first indices read from an operand."""
    spare = [size - part for size, part in zip(whole, box, strict=True)]
    return _indices(move, number).offset(0, spare, strides)


def _dynamic_slice(move: Mover, _op: prim.DynamicSlice) -> None:
    source, x = move.operands[0]
    own = dense_strides(x.shape)
    move.copy(move.shape, 0, source, _corner(move, 1, x.shape, move.shape, own), own)


def _update_slice(move: Mover, _op: prim.UpdateSlice) -> None:
    (source, _), (content, box), _ = move.operands
    move.copy(move.shape, 0, source, 0, dense_strides(move.shape))
    corner = _corner(move, 2, move.shape, box.shape, move.strides)
    move.copy(box.shape, corner, content, 0, dense_strides(box.shape))


GATHERS: Moves = {
    prim.DynamicSlice: _dynamic_slice,
    prim.Gather: _gather,
    prim.GatherNd: _gather_nd,
    prim.ScatterNd: _scatter_nd,
    prim.UpdateSlice: _update_slice,
}
"""How each primitive with places read at run time becomes loops."""
