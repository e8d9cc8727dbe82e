"""Where the elements of a kernel's operands are, seen from the element of the result being computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from qimport import prim
from qimport.codegen.function import ELEMENTS, Index, KernelFunction
from qimport.codegen.tables import TableLayout
from qimport.codegen.target import Target
from qimport.codegen.vector import splat, vector_type
from qimport.ir.graph import Node, Value
from qimport.lower.kernel import Kernel

Strides = tuple[int, ...]


def dense_strides(shape: Sequence[int]) -> Strides:
    """Elements between neighbours along each dimension of a row-major tensor."""
    strides = [1] * len(shape)
    for axis in range(len(shape) - 1, 0, -1):
        strides[axis - 1] = strides[axis] * shape[axis]
    return tuple(strides)


def result_strides(kernel: Kernel) -> Strides:
    """Strides of the result, whose rows may lie further apart than they are long."""
    shape = kernel.result.type.shape
    if kernel.result_row_stride is None or not shape:
        return dense_strides(shape)
    return dense_strides((*shape[:-1], kernel.result_row_stride))


def broadcast_strides(shape: Sequence[int], wanted: Sequence[int]) -> Strides:
    """Strides of a dense tensor of ``shape`` seen with shape ``wanted``: 0 where one element is repeated."""
    own = zip(shape, dense_strides(shape), strict=True)
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


def pointer_to(fn: KernelFunction, kernel: Kernel, layout: TableLayout, value: Value) -> Any:
    """The argument of an operand, or the place of a constant in the tables."""
    if value.is_constant:
        return fn.at(fn.tables, layout.section(value).offset)
    return fn.operands[kernel.graph.inputs.index(value)]


def sources(fn: KernelFunction, kernel: Kernel, layout: TableLayout, nodes: Sequence[Node]) -> list[Source]:
    """Every tensor and plain constant that elementwise ``nodes`` read, once."""
    found: dict[Value, Source] = {}
    for node in nodes:
        own_tables = isinstance(node.op, prim.Lut | prim.Lut16 | prim.Rescale)
        for value in node.inputs[:1] if own_tables else node.inputs:
            if value is None or value in found:
                continue
            if value.is_constant or value in kernel.graph.inputs:
                strides = broadcast_strides(value.type.shape, kernel.result.type.shape)
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
