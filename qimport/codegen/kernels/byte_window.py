"""Windows over images of bytes: totals of columns, shared by neighbouring windows, in lanes of 8 or 16 bits.

Along each axis, windows inside the image are alike; every clipped one gets code of its own, so that all
numbers of taps are static. Rows of results are walked per block of channels. A window's columns are reduced
one by one, and those that the next window has as well stay in registers.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from qimport import prim
from qimport.codegen.elementwise import emit_nodes
from qimport.codegen.function import I8, I16, I32, Index, KernelFunction
from qimport.codegen.kernels import access
from qimport.codegen.tables import DivisionFacts, TableLayout
from qimport.codegen.target import Target
from qimport.codegen.vector import clamp_bytes, constant, like, pairwise, retyped, vector_type
from qimport.errors import CompilerBug
from qimport.ir.graph import Node, Value
from qimport.lower.kernel import Kernel, dense_strides

MOST_TAPS = 127
"""Taps of bytes whose sum fits int16, whichever signedness they have."""

MOST_LOADS = 400
"""Loads of one block of channels in straight code: those of every clipped window, and of one inside."""


@dataclass(frozen=True)
class Strip:
    """``count`` neighbouring windows of an axis with ``taps`` in the image; the first starts at ``first``."""

    place: int
    count: int
    first: int
    taps: int


def strips(op: prim.Window, extent: int, count: int, axis: int) -> list[Strip]:
    """Windows inside the image together, every clipped one by itself."""
    found: list[Strip] = []
    for place, (first, end) in enumerate(op.spans(extent, count, axis)):
        whole = end - first == op.size[axis]
        if whole and found and found[-1].taps == op.size[axis]:
            last = found.pop()
            found.append(Strip(last.place, last.count + 1, last.first, last.taps))
        else:
            found.append(Strip(place, 1, first, end - first))
    return found


def applies(kernel: Kernel) -> bool:
    """Maxima and sums of bytes, unless clipping makes too much code of them."""
    op, x, result = kernel.root.op, kernel.root.inputs[0], kernel.root.outputs[0].type
    if not isinstance(op, prim.Window) or x is None or x.type.dtype not in ("int8", "uint8"):
        return False
    if op.size[0] * op.size[1] > MOST_TAPS or not result.size:
        return False
    rows, columns = (
        sum(strip.taps for strip in strips(op, x.type.shape[axis], result.shape[axis], axis - 1))
        for axis in (1, 2)
    )
    return rows * columns <= MOST_LOADS


def emit(module: Any, name: str, kernel: Kernel, target: Target, layout: TableLayout) -> Any:
    """Images, strips of rows, rows, blocks of channels, strips of columns, columns."""
    fn = access.start(module, name, kernel, target)
    windows = _Windows(fn, kernel, layout)
    batches, _, _, channels = kernel.result.type.shape
    lanes = target.vector_bytes if windows.bytes_only else target.vector_bytes // 2
    overlap = not kernel.in_place and not layout.per_channel

    def image(number: Index) -> None:
        for strip in windows.rows:
            fn.loop(0, strip.count, 1, lambda step, strip=strip: row(number, strip, step))

    def row(number: Index, strip: Strip, step: Index) -> None:
        line = _Line(number, fn.add(strip.place, step), windows.start_of(number, strip, step), strip.taps)
        fn.blocks(channels, lanes, overlap, lambda c, count: windows.across(line, c, count))

    fn.loop(0, batches, 1, image)
    return fn.finish()


@dataclass(frozen=True)
class _Line:
    """A row of results: its place, the input element of its first tap, rows of taps."""

    image: Index
    row: Index
    start: Index
    taps: int


class _Windows:
    """What the kernel knows while its code is written."""

    def __init__(self, fn: KernelFunction, kernel: Kernel, layout: TableLayout) -> None:
        op, x = kernel.root.op, kernel.root.inputs[0]
        assert isinstance(op, prim.Window) and x is not None
        self.fn, self.kernel, self.layout, self.op = fn, kernel, layout, op
        self.unsigned = x.type.dtype == "uint8"
        self.pointer = access.pointer_to(fn, kernel, layout, x)
        self.own = dense_strides(x.type.shape)
        self.sources = access.sources(fn, kernel, layout, kernel.epilogue)
        self.strides = access.result_strides(kernel)
        extents, counts = x.type.shape[1:3], kernel.root.outputs[0].type.shape[1:3]
        self.rows, self.columns = (strips(op, extents[axis], counts[axis], axis) for axis in (0, 1))
        self.mean = Mean.of(kernel, layout)
        done = (self.mean.divide, self.mean.clamp) if self.mean is not None else ()
        self.nodes = [node for node in kernel.epilogue if node not in done]
        values = {v for node in kernel.graph.nodes for v in (*node.inputs, *node.outputs) if v is not None}
        self.bytes_only = all(value.type.itemsize == 1 for value in values)

    def start_of(self, image: Index, strip: Strip, step: Index) -> Index:
        """The element where a row's first tap would be in column 0, channel 0."""
        top = self.fn.add(strip.first, self.fn.mul(step, self.op.stride[0]))
        return access.offset(self.fn, (image, top), self.own[:2])

    def across(self, line: _Line, channel: Index, lanes: int) -> None:
        """All results of a row for ``lanes`` channels."""
        start = self.fn.add(line.start, channel)

        def columns(first: Index, count: int) -> list[Any]:
            return [self._column(start, self.fn.add(first, k), line.taps, lanes) for k in range(count)]

        for strip in self.columns:
            step = self.op.stride[1]
            shared = max(strip.taps - step, 0) if strip.count > 1 else 0

            def window(number: Index, *kept: Any, strip: Strip = strip, shared: int = shared) -> list[Any]:
                place = self.fn.add(strip.first + shared, self.fn.mul(number, self.op.stride[1]))
                totals = [*kept, *columns(place, strip.taps - shared)]
                position = [line.image, line.row, self.fn.add(strip.place, number), channel]
                self._finish(self._united(totals), line.taps * strip.taps, position, lanes)
                return totals[strip.taps - shared :]

            self.fn.loop(0, strip.count, 1, window, columns(strip.first, shared))

    def _column(self, start: Index, column: Index, taps: int, lanes: int) -> Any:
        """The taps of one column, reduced."""
        first = self.fn.add(start, self.fn.mul(column, self.own[2]))
        loaded = [
            self.fn.load(
                self.fn.at(self.pointer, self.fn.add(first, row * self.own[1])), vector_type(I8, lanes)
            )
            for row in range(taps)
        ]
        if self.op.kind == "sum":
            extend = self.fn.b.zext if self.unsigned else self.fn.b.sext
            loaded = [extend(x, retyped(x, I16)) for x in loaded]
        return self._united(loaded)

    def _united(self, parts: Sequence[Any]) -> Any:
        total = parts[0]
        for part in parts[1:]:
            maximum = "umax" if self.unsigned else "smax"
            summed = self.op.kind == "sum"
            total = self.fn.b.add(total, part) if summed else pairwise(self.fn, maximum, total, part)
        return total

    def _finish(self, total: Any, taps: int, position: list[Index], lanes: int) -> None:
        """The elementwise nodes, and the store."""
        values: dict[Value, Any] = {s.value: s.load(self.fn, position, lanes) for s in self.sources}
        if self.mean is not None:
            values[self.mean.result] = self.mean.emit(self.fn, total, taps)
        else:
            summed = self.op.kind == "sum"
            values[self.kernel.root.outputs[0]] = (
                self.fn.b.sext(total, retyped(total, I32)) if summed else total
            )
        emit_nodes(self.fn, self.nodes, values, position[3], lanes, self.layout)
        place = access.offset(self.fn, position, self.strides)
        access.store(self.fn, self.kernel, values[self.kernel.result], place)


@dataclass(frozen=True)
class Mean:
    """The division of sums by the number of taps, rounded half away from zero, and the clamp behind it."""

    divide: Node
    clamp: Node | None
    unsigned: bool

    @classmethod
    def of(cls, kernel: Kernel, layout: TableLayout) -> Mean | None:
        """The division and the clamp of the sums of a window, where nothing else sees the sums."""
        divide = _only_reader(kernel, kernel.root.outputs[0])
        facts = layout.facts[divide] if divide is not None else None
        if divide is None or not isinstance(facts, DivisionFacts) or not facts.by_taps:
            return None
        x = kernel.root.inputs[0]
        assert x is not None
        clamp = _only_reader(kernel, divide.outputs[0])
        if clamp is not None and not (
            isinstance(clamp.op, prim.Clamp)
            and clamp.op.zero_point == 0
            and clamp.outputs[0].type.dtype == x.type.dtype
        ):
            clamp = None
        return cls(divide, clamp, x.type.dtype == "uint8")

    @property
    def result(self) -> Value:
        """What :meth:`emit` gives."""
        return (self.clamp or self.divide).outputs[0]

    def emit(self, fn: KernelFunction, total: Any, taps: int) -> Any:
        """The mean of ``taps`` bytes whose sum is ``total``: codes if clamped, otherwise int32.

        Moved by 128 per tap, sums of signed bytes are not negative, and (sum + taps // 2) // taps rounds half
        up; half away from zero is one less for what was negative, which matters for even numbers only.
        """
        numerator = fn.b.add(total, like(total, taps // 2 + (0 if self.unsigned else 128 * taps)))
        if taps % 2 == 0 and not self.unsigned:
            numerator = fn.b.add(numerator, fn.b.ashr(total, like(total, 15)))
        mean = _divided(fn, numerator, taps)
        if self.clamp is None:
            mean = mean if self.unsigned else fn.b.sub(mean, like(mean, 128))
            return fn.b.sext(mean, retyped(mean, I32))
        return self._clamped(fn, fn.b.trunc(mean, retyped(mean, I8)))

    def _clamped(self, fn: KernelFunction, code: Any) -> Any:
        """``code`` (0..255) as the element type, clamped."""
        assert self.clamp is not None and isinstance(self.clamp.op, prim.Clamp)
        if not self.unsigned:
            code = fn.b.xor(code, like(code, 0x80))
        dtype = self.clamp.outputs[0].type.dtype
        return clamp_bytes(fn, code, self.clamp.op.low, self.clamp.op.high, dtype)


def _only_reader(kernel: Kernel, value: Value) -> Node | None:
    """The node that reads a value, if there is one only and the value is no result."""
    readers = [node for node in kernel.graph.nodes if value in node.inputs]
    return readers[0] if len(readers) == 1 and value is not kernel.result else None


def _divided(fn: KernelFunction, numerator: Any, taps: int) -> Any:
    """numerator // taps in lanes of 16 bits: the high half of a product, shifted."""
    if taps == 1:
        return numerator
    multiplier, shift = reciprocal(taps)
    wide = retyped(numerator, I32)
    product = fn.b.mul(fn.b.zext(numerator, wide), constant(wide, multiplier))
    high = fn.b.trunc(fn.b.lshr(product, like(product, 16)), numerator.type)
    return fn.b.lshr(high, like(high, shift)) if shift else high


@functools.cache
def reciprocal(taps: int) -> tuple[int, int]:
    """Multiplier below 2^16 and shift with n * multiplier >> 16 >> shift == n // taps for all numerators.

    The multiplier is 2^(16 + shift) / taps, rounded up. Every numerator is tried.
    """
    numerators = np.arange(255 * taps + taps // 2 + 1, dtype=np.int64)
    for shift in range(16):
        multiplier = -(-(1 << (16 + shift)) // taps)
        if multiplier < 1 << 16 and np.array_equal(numerators * multiplier >> 16 + shift, numerators // taps):
            return multiplier, shift
    raise CompilerBug(f"no reciprocal of {taps} fits 16 bits")
