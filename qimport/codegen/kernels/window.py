"""Sums and maxima over sliding windows, vectorized over channels, with elementwise nodes on the result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from qimport import prim
from qimport.codegen.elementwise import emit_nodes, preferred_lanes
from qimport.codegen.function import ELEMENTS, I64, Index, KernelFunction, index
from qimport.codegen.kernels import access
from qimport.codegen.kernels.accumulate import Accumulator
from qimport.codegen.tables import TableLayout
from qimport.codegen.target import Target
from qimport.codegen.vector import vector_type
from qimport.errors import CompilerBug
from qimport.ir.graph import Value
from qimport.lower.kernel import Kernel

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
        self.accumulator = Accumulator(fn, op.kind, x.type.dtype)
        self.sources = access.sources(fn, kernel, layout, kernel.epilogue)
        self.strides = access.result_strides(kernel)

    def taps(self, position: list[Index]) -> _Taps:
        """The window at output pixel ``position``; windows as wide as the image are one run of pixels."""
        top, rows = self._span(position[1], 0)
        left, columns = self._span(position[2], 1)
        first = access.offset(self.fn, (position[0], top, left), access.dense_strides(self.x.shape)[:3])
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
        _, row_stride, column_stride, _ = access.dense_strides(self.x.shape)
        first = self.fn.add(taps.first, channel)
        type_ = vector_type(ELEMENTS[self.x.dtype], lanes)

        def tap(row: Index, column: Index, total: Any) -> Any:
            place = access.offset(self.fn, (row, column), (row_stride, column_stride))
            place = self.fn.element(self.pointer, self.fn.add(first, place), self.x.dtype)
            return self.accumulator.step(total, self.fn.load(place, type_))

        total = self.accumulator.start(lanes)
        rows, columns = taps.rows, taps.columns
        if isinstance(rows, int) and isinstance(columns, int) and rows * columns <= UNROLLED_TAPS:
            for number in range(rows * columns):
                total = tap(number // columns, number % columns, total)
            return total

        def along(row: Index, total: Any) -> Any:
            return self.fn.loop(0, columns, 1, lambda column, t: [tap(row, column, t)], [total])

        return self.fn.loop(0, rows, 1, along, [total])[0]
