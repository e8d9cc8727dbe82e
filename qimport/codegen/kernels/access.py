"""Where the elements of a kernel's operands are, seen from the element of the result being computed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from qimport import prim
from qimport.codegen.function import ELEMENTS, Index, KernelFunction, index
from qimport.codegen.tables import TableLayout
from qimport.codegen.target import Target
from qimport.codegen.vector import splat, vector_type
from qimport.ir.graph import Node, Value
from qimport.lower.kernel import Kernel, Strides, dense_strides
from qimport.prim.tables import tensors


def result_strides(kernel: Kernel) -> Strides:
    """Strides of the result, which may be part of a larger tensor."""
    return kernel.result_strides or dense_strides(kernel.result.type.shape)


def broadcast_strides(shape: Sequence[int], wanted: Sequence[int], strides: Strides | None = None) -> Strides:
    """Strides of a tensor of ``shape`` seen with shape ``wanted``: 0 where one element is repeated.

    ``strides`` are its own, where it is not dense.
    """
    own = zip(shape, strides or dense_strides(shape), strict=True)
    repeated = [0 if size == 1 else stride for size, stride in own]
    return (*[0] * (len(wanted) - len(shape)), *repeated)


def collapse(shape: Sequence[int], strides: Sequence[Strides]) -> tuple[tuple[int, ...], list[Strides]]:
    """Merge dimensions that every tensor steps through evenly; at least one dimension remains."""
    sizes: list[int] = []
    merged: list[list[int]] = [[] for _ in strides]
    for axis, size in enumerate(shape):
        steps = [tensor[axis] for tensor in strides]
        if size == 1:
            continue
        if sizes and all(done[-1] == size * step for done, step in zip(merged, steps, strict=True)):
            sizes[-1] *= size
            for done, step in zip(merged, steps, strict=True):
                done[-1] = step
        else:
            sizes.append(size)
            for done, step in zip(merged, steps, strict=True):
                done.append(step)
    if not sizes:
        return (1,), [(1,) for _ in strides]
    return tuple(sizes), [tuple(done) for done in merged]


@dataclass(frozen=True)
class Source:
    """A tensor or constant read by elementwise nodes, with its strides along the loops of the kernel."""

    value: Value
    pointer: Any
    strides: Strides

    def load(self, fn: KernelFunction, position: Sequence[Index], lanes: int) -> Any:
        """``lanes`` elements along the last loop (or one, repeated) from ``position`` on."""
        place = fn.element(self.pointer, offset(fn, position, self.strides), self.value.type.dtype)
        element = ELEMENTS[self.value.type.dtype]
        if self.strides and self.strides[-1] == 0:
            return splat(fn, fn.load(place, element), lanes)
        return fn.load(place, vector_type(element, lanes))

    def load_masked(self, fn: KernelFunction, position: Sequence[Index], lanes: int, valid: int) -> Any:
        """The same for ``valid`` elements along a dense last loop; the other lanes are zero."""
        place = fn.element(self.pointer, offset(fn, position, self.strides), self.value.type.dtype)
        return fn.load_masked(place, vector_type(ELEMENTS[self.value.type.dtype], lanes), valid)


def offset(fn: KernelFunction, position: Sequence[Index], strides: Strides) -> Index:
    """Sum of position times stride."""
    total: Index = 0
    for place, stride in zip(position, strides, strict=True):
        total = fn.add(total, fn.mul(place, stride))
    return total


def flat_offset(fn: KernelFunction, number: Index, shape: Sequence[int], strides: Strides) -> Index:
    """Where element ``number`` of a row-major ``shape`` lies.

    Neighbours step evenly; every dimension adds what lies between two of its elements as often as the end
    of one was passed.
    """
    sizes, (steps,) = collapse(shape, [strides])
    place = fn.mul(number, steps[-1])
    for axis in range(1, len(sizes)):
        gap = steps[axis - 1] - sizes[axis] * steps[axis]
        passed = quotient(fn, number, math.prod(sizes[axis:]), math.prod(sizes))
        place = fn.add(place, fn.mul(passed, gap))
    return place


def quotient(fn: KernelFunction, number: Index, divisor: int, limit: int) -> Index:
    """``number // divisor`` of 0 <= ``number`` < ``limit``, a multiplication and a shift.

    factor * divisor exceeds 2**shift by less than divisor. So number * factor / 2**shift exceeds the exact
    quotient by less than number / 2**shift < 1 / divisor: too little to reach the next integer.
    """
    if isinstance(number, int):
        return number // divisor
    if limit >= 1 << 31:
        return fn.b.udiv(number, index(divisor))
    shift = limit.bit_length() + divisor.bit_length()
    factor = -(-(1 << shift) // divisor)
    return fn.b.lshr(fn.mul(number, factor), index(shift))


def pointer_to(fn: KernelFunction, kernel: Kernel, layout: TableLayout, value: Value) -> Any:
    """The argument of an operand, or the place of a constant in the tables."""
    if value.is_constant:
        return fn.at(fn.tables, layout.section(value).offset)
    return fn.operands[kernel.graph.inputs.index(value)]


def sources(fn: KernelFunction, kernel: Kernel, layout: TableLayout, nodes: Sequence[Node]) -> list[Source]:
    """Every tensor and plain constant that elementwise ``nodes`` read, once."""
    found: dict[Value, Source] = {}
    for node in nodes:
        for value in node.inputs[:1] if isinstance(node.op, prim.Rescale) else tensors(node):
            if value is None or value in found:
                continue
            if value.is_constant or value in kernel.graph.inputs:
                own = kernel.strides_of(value)
                strides = broadcast_strides(value.type.shape, kernel.result.type.shape, own)
                found[value] = Source(value, pointer_to(fn, kernel, layout, value), strides)
    return list(found.values())


def collapsed(
    shape: Sequence[int], found: Sequence[Source], others: Sequence[Strides]
) -> tuple[tuple[int, ...], list[Source], list[Strides]]:
    """:func:`collapse` of sources together with other strides; the last step of each is 0 or 1.

    Only a result with rows of one element that lie apart needs the extra dimension.
    """
    sizes, strides = collapse(shape, [*(source.strides for source in found), *others])
    if any(own[-1] > 1 for own in strides):
        sizes, strides = (*sizes, 1), [(*own, 1) for own in strides]
    moved = [replace(source, strides=own) for source, own in zip(found, strides, strict=False)]
    return sizes, moved, strides[len(found) :]


def nest(fn: KernelFunction, sizes: Sequence[int], body: Callable[[list[Index]], None]) -> None:
    """Nested loops over all indices of ``sizes``, the last one innermost."""

    def level(done: list[Index]) -> None:
        if len(done) == len(sizes):
            body(done)
        else:
            fn.loop(0, sizes[len(done)], 1, lambda place: level([*done, place]))

    level([])


def start(module: Any, name: str, kernel: Kernel, target: Target) -> KernelFunction:
    """The function of ``kernel``, still empty."""
    return KernelFunction(module, name, len(kernel.graph.inputs), target, kernel.in_place)


def store(fn: KernelFunction, kernel: Kernel, value: Any, position: Index) -> None:
    """Store lanes of the result from element ``position`` on."""
    fn.store(value, fn.element(fn.result, position, kernel.result.type.dtype))
