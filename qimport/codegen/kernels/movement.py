"""Kernels that move bytes: everything is a strided copy or a strided fill of a box."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import ir

from qimport import prim
from qimport.codegen.function import ELEMENTS, Index, KernelFunction, itemsize
from qimport.codegen.kernels import access
from qimport.codegen.kernels.transpose import BlockCopy, run_of_source
from qimport.codegen.tables import TableLayout
from qimport.codegen.target import Target
from qimport.errors import CompilerBug
from qimport.ir.graph import Operation
from qimport.lower.kernel import Kernel, Strides, dense_strides


class Mover:
    """The function under construction and the tensors of a movement kernel."""

    def __init__(self, fn: KernelFunction, kernel: Kernel, layout: TableLayout) -> None:
        self.fn = fn
        self.dtype = kernel.result.type.dtype
        self.itemsize = itemsize(self.dtype)
        self.shape = kernel.result.type.shape
        self.strides = access.result_strides(kernel)
        self.in_place = kernel.in_place
        operands = [value for value in kernel.root.inputs if value is not None]
        self.operands = [(access.pointer_to(fn, kernel, layout, v), v.type) for v in operands]

    def run(self, place: Index, source: Any, origin: Index, count: int) -> None:
        """Copy ``count`` neighbouring elements."""
        place = self.fn.element(self.fn.result, place, self.dtype)
        origin = self.fn.element(source, origin, self.dtype)
        if count == 1:
            self.fn.store(self.fn.load(origin, ELEMENTS[self.dtype]), place)
        else:
            self.fn.copy(place, origin, count * self.itemsize)

    def copy(
        self, shape: Sequence[int], start: Index, source: Any, source_start: Index, strides: Strides
    ) -> None:
        """Copy a box to the result from element ``start`` on, from strided elements of ``source``."""
        if 0 in shape:
            return
        sizes, (to, own) = access.collapse(shape, [self.strides, strides])
        axis = run_of_source(to, own)
        if axis is not None:
            blocks = BlockCopy(self.fn, self.itemsize, sizes, to, own)
            target = self.fn.element(self.fn.result, start, self.dtype)
            blocks.emit(axis, target, self.fn.element(source, source_start, self.dtype))
            return
        contiguous = to[-1] == own[-1] == 1

        def move(position: list[Index]) -> None:
            place = self.fn.add(start, access.offset(self.fn, position, to[: len(position)]))
            origin = self.fn.add(source_start, access.offset(self.fn, position, own[: len(position)]))
            self.run(place, source, origin, sizes[-1] if contiguous else 1)

        access.nest(self.fn, sizes[:-1] if contiguous else sizes, move)

    def fill(self, shape: Sequence[int], start: int, value: int | float) -> None:
        """Fill a box of the result from element ``start`` on."""
        sizes, (to,) = access.collapse(shape, [self.strides])
        target = self.fn.element(self.fn.result, start, self.dtype)
        pattern = np.array(value).astype(np.dtype(self.dtype)).tobytes()
        uniform = len(set(pattern)) == 1 and to[-1] == 1
        bits = ir.Constant(ir.IntType(8 * self.itemsize), int.from_bytes(pattern, "little"))

        def put(position: list[Index]) -> None:
            place = self.fn.element(target, access.offset(self.fn, position, to[: len(position)]), self.dtype)
            if uniform:
                self.fn.fill(place, pattern[0], sizes[-1] * self.itemsize)
            else:
                self.fn.store(bits, place)

        if 0 not in shape:
            access.nest(self.fn, sizes[:-1] if uniform else sizes, put)


def _reshape(move: Mover, op: prim.Bitcast | prim.Reshape) -> None:
    source, _ = move.operands[0]
    move.copy(move.shape, 0, source, 0, dense_strides(move.shape))


def _broadcast(move: Mover, _op: prim.Broadcast) -> None:
    source, x = move.operands[0]
    move.copy(move.shape, 0, source, 0, access.broadcast_strides(x.shape, move.shape))


def _slice(move: Mover, op: prim.Slice) -> None:
    source, x = move.operands[0]
    own = dense_strides(x.shape)
    start = sum(first * stride for first, stride in zip(op.begin, own, strict=True))
    stepped = tuple(step * stride for step, stride in zip(op.stride, own, strict=True))
    move.copy(move.shape, 0, source, start, stepped)


def _transpose(move: Mover, op: prim.Transpose) -> None:
    source, x = move.operands[0]
    own = dense_strides(x.shape)
    move.copy(move.shape, 0, source, 0, tuple(own[axis] for axis in op.permutation))


def _concat(move: Mover, op: prim.Concat) -> None:
    start = 0
    for source, part in move.operands:
        move.copy(part.shape, start * move.strides[op.axis], source, 0, dense_strides(part.shape))
        start += part.shape[op.axis]


def _pad(move: Mover, op: prim.Pad) -> None:
    """Fill the slabs before and after the operand along each dimension; copy it unless it lies there."""
    source, x = move.operands[0]
    shape = x.shape
    inner, start = list(move.shape), 0
    for axis, (before, after) in enumerate(zip(op.before, op.after, strict=True)):
        stride = move.strides[axis]
        move.fill([*inner[:axis], before, *inner[axis + 1 :]], start, op.value)
        behind = start + (before + shape[axis]) * stride
        move.fill([*inner[:axis], after, *inner[axis + 1 :]], behind, op.value)
        start += before * stride
        inner[axis] = shape[axis]
    if not move.in_place:
        move.copy(shape, start, source, 0, dense_strides(shape))


Moves = dict[type[Operation], Callable[["Mover", Any], None]]

MOVES: Moves = {
    prim.Bitcast: _reshape,
    prim.Broadcast: _broadcast,
    prim.Concat: _concat,
    prim.Pad: _pad,
    prim.Reshape: _reshape,
    prim.Slice: _slice,
    prim.Transpose: _transpose,
}
"""How each primitive without arithmetic becomes copies and fills."""


def emitter(moves: Moves) -> Callable[[Any, str, Kernel, Target, TableLayout], Any]:
    """What emits a function for one of these primitives; nothing can be fused into it."""

    def emit(module: Any, name: str, kernel: Kernel, target: Target, layout: TableLayout) -> Any:
        if kernel.epilogue:
            raise CompilerBug(f"{kernel.root.op.NAME} cannot take elementwise nodes")
        fn = access.start(module, name, kernel, target)
        moves[type(kernel.root.op)](Mover(fn, kernel, layout), kernel.root.op)
        return fn.finish()

    return emit
