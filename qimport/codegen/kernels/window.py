"""Sums and maxima over sliding windows, vectorized over channels, with elementwise nodes on the result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from qimport import prim
from qimport.codegen.elementwise import emit_nodes, preferred_lanes
from qimport.codegen.function import ELEMENTS, I64, Index, KernelFunction, index
from qimport.codegen.kernels import access
from qimport.codegen.kernels.accumulate import Accumulator
from qimport.codegen.tables import TableLayout
from qimport.codegen.target import Target
from qimport.codegen.vector import constant, vector_type
from qimport.errors import CompilerBug
from qimport.ir.graph import Value
from qimport.lower.kernel import Kernel, dense_strides
from qimport.summation import PASS, sum_in_passes

_FLOAT_START = {"sum": 0.0, "max": float(-np.finfo(np.float32).max)}

UNROLLED_TAPS = 16
"""Windows up to this size that never leave the image become straight code."""


def emit(module: Any, name: str, kernel: Kernel, target: Target, layout: TableLayout) -> Any:
    """Per output pixel: its in-image span of rows and columns, then every tap for each block of channels."""
    op, x = kernel.root.op, kernel.root.inputs[0]
    if not isinstance(op, prim.Window) or x is None:
        raise CompilerBug(f"{kernel.root.op.NAME} is not a window")
    fn = access.start(module, name, kernel, target)
    pooling = _Pooling(fn, kernel, layout, op, x)
    batches, height, width, channels = kernel.result.type.shape
    lanes = preferred_lanes(kernel.graph, target)
    overlap = not kernel.in_place and not layout.per_channel

    def pixel(position: list[Index]) -> None:
        taps = pooling.taps(position)
        fn.blocks(channels, lanes, overlap, lambda c, count: pooling.block([*position, c], taps, count))

    if kernel.result.type.size:
        access.nest(fn, (batches, height, width), pixel)
    return fn.finish()


@dataclass(frozen=True)
class _Taps:
    """In-image taps of one output pixel: ``rows`` by ``columns`` from element ``first`` of the input on."""

    first: Index
    rows: Index
    columns: Index


class _Pooling:
    """What a window kernel knows while its code is written."""

    def __init__(
        self, fn: KernelFunction, kernel: Kernel, layout: TableLayout, op: prim.Window, x: Value
    ) -> None:
        self.fn = fn
        self.kernel = kernel
        self.layout = layout
        self.op = op
        self.x = x.type
        self.pointer = access.pointer_to(fn, kernel, layout, x)
        start = _FLOAT_START[op.kind] if x.type.dtype == "float32" else None
        self.accumulator = Accumulator(fn, op.kind, x.type.dtype, kernel.root.outputs[0].type.dtype, start)
        self.sources = access.sources(fn, kernel, layout, kernel.epilogue)
        self.strides = access.result_strides(kernel)

    def taps(self, position: list[Index]) -> _Taps:
        """The window at output pixel ``position``; windows as wide as the image are one run of pixels."""
        top, rows = self._span(position[1], 0)
        left, columns = self._span(position[2], 1)
        first = access.offset(self.fn, (position[0], top, left), dense_strides(self.x.shape)[:3])
        if columns == self.x.shape[2]:
            rows, columns = 1, self.fn.mul(rows, self.x.shape[2])
        return _Taps(first, rows, columns)

    def _span(self, place: Index, axis: int) -> tuple[Index, Index]:
        """First in-image index and number of taps along an axis; static where no window is clipped."""
        extent, count = self.x.shape[1 + axis], self.kernel.result.type.shape[1 + axis]
        size, step, before = self.op.size[axis], self.op.stride[axis], self.op.padding[axis][0]
        if isinstance(place, int):
            first, end = self.op.spans(extent, count, axis)[place]
            return first, end - first
        start = self.fn.add(self.fn.mul(place, step), -before)
        if before == 0 and (count - 1) * step + size <= extent:
            return start, size
        end = self.fn.add(start, size)
        first = self.fn.intrinsic("llvm.smax.i64", I64, [index(start), index(0)])
        end = self.fn.intrinsic("llvm.smin.i64", I64, [index(end), index(extent)])
        return first, self.fn.b.sub(end, first)

    def block(self, position: list[Index], taps: _Taps, lanes: int) -> None:
        """``lanes`` channels of one output pixel."""
        values: dict[Value, Any] = {s.value: s.load(self.fn, position, lanes) for s in self.sources}
        values[self.kernel.root.outputs[0]] = self._reduced(position[3], taps, lanes)
        emit_nodes(self.fn, self.kernel.epilogue, values, position[3], lanes, self.layout)
        place = access.offset(self.fn, position, self.strides)
        access.store(self.fn, self.kernel, values[self.kernel.result], place)

    def _reduced(self, channel: Index, taps: _Taps, lanes: int) -> Any:
        _, row_stride, column_stride, _ = dense_strides(self.x.shape)
        first = self.fn.add(taps.first, channel)
        type_ = vector_type(ELEMENTS[self.x.dtype], lanes)

        def element(row: Index, column: Index) -> Any:
            place = access.offset(self.fn, (row, column), (row_stride, column_stride))
            place = self.fn.element(self.pointer, self.fn.add(first, place), self.x.dtype)
            return self.fn.load(place, type_)

        def tap(row: Index, column: Index, total: Any) -> Any:
            return self.accumulator.step(total, element(row, column))

        if self.op.order == "passes":
            return self._in_passes(element, lanes)
        total = self.accumulator.start(lanes)
        rows, columns = taps.rows, taps.columns
        if isinstance(rows, int) and isinstance(columns, int) and rows * columns <= UNROLLED_TAPS:
            for number in range(rows * columns):
                total = tap(number // columns, number % columns, total)
            return total

        def along(row: Index, total: Any) -> Any:
            return self.fn.loop(0, columns, 1, lambda column, t: [tap(row, column, t)], [total])

        return self.fn.loop(0, rows, 1, along, [total])[0]

    def _in_passes(self, element: Callable[[Index, Index], Any], lanes: int) -> Any:
        """Straight code for one pass of taps after the other, in a loop where there are many."""
        zero = constant(vector_type(ELEMENTS[self.x.dtype], lanes), 0.0)
        height, count = self.op.size[0], self.op.size[0] * self.op.size[1]

        def passes(first: Index, taps: int) -> Any:
            numbers = [self.fn.add(first, k) for k in range(taps)]
            places = [self.fn.divide(number, height) for number in numbers]
            return sum_in_passes([element(row, column) for column, row in places], zero, self.fn.b.fadd)

        def following(k: Index, total: Any) -> list[Any]:
            return [self.fn.b.fadd(total, passes(self.fn.mul(k, PASS), PASS))]

        if count <= 4 * PASS:
            return passes(0, count)
        total = self.fn.loop(1, count // PASS, 1, following, [passes(0, PASS)])[0]
        rest = count % PASS
        return self.fn.b.fadd(total, passes(count - rest, rest)) if rest else total
