"""Activations of a block of output pixels copied next to one another: rows of cache lines on the stack."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from qimport.codegen.function import I8, Index, KernelFunction, index
from qimport.codegen.kernels import access, mac
from qimport.codegen.kernels.amx_tiling import ROW_BYTES, Tiling
from qimport.codegen.vector import vector_type

UNROLLED = 16
"""Vectors that are copied without a loop."""


class Panel:
    """Rows of ``view.pixel_step`` bytes for the output pixels of ``panel_blocks`` blocks."""

    def __init__(self, fn: KernelFunction, x: Any, tiling: Tiling) -> None:
        self.fn, self.x, self.tiling, self.geo = fn, x, tiling, tiling.geometry
        self.row_bytes = tiling.view.pixel_step
        self.block_bytes = tiling.block_rows * self.row_bytes
        # vectors are stored whole: what is beyond a run is overwritten next, the last one needs room
        self.memory = mac.tile_memory(fn, tiling.panel_blocks * self.block_bytes + ROW_BYTES, "int8")

    def fill(self, place: Index, first: Index) -> None:
        """Block ``place`` of the panel: the runs of all pixels from flat output pixel ``first`` on."""
        fn, geo = self.fn, self.geo
        line, column = fn.divide(first, geo.width)
        image, row = fn.divide(line, geo.rows)
        offset = fn.add(fn.mul(image, geo.image_step), fn.mul(row, geo.row_step))
        offset = fn.add(offset, fn.mul(column, geo.pixel_step))
        block = fn.at(self.memory, fn.mul(place, self.block_bytes))

        def pixel(number: Index, *start: Any) -> tuple[Any, Any, Any]:
            return self._pixel(fn.at(block, fn.mul(number, self.row_bytes)), *start)

        fn.loop(0, self.tiling.block_rows, 1, pixel, [index(value) for value in (offset, column, row)])

    def _pixel(self, target: Any, offset: Any, column: Any, row: Any) -> tuple[Any, Any, Any]:
        """Copy one pixel; gives the place of the next one."""
        fn, geo = self.fn, self.geo
        self._copy(target, fn.at(self.x, offset))
        column, over = self._following(column, geo.width)
        row_gap = geo.row_step - geo.width * geo.pixel_step
        offset = fn.add(offset, geo.pixel_step)
        offset = fn.add(offset, fn.b.select(over, index(row_gap), index(0)))
        if geo.images > 1:
            following, last = self._following(row, geo.rows)
            image_gap = geo.image_step - geo.rows * geo.row_step
            gap = fn.b.select(fn.b.and_(over, last), index(image_gap), index(0))
            offset, row = fn.add(offset, gap), fn.b.select(over, following, row)
        return offset, column, row

    def _following(self, place: Any, count: int) -> tuple[Any, Any]:
        """The place after ``place``, and whether it is the first again."""
        following = self.fn.b.add(place, index(1))
        over = self.fn.b.icmp_unsigned("==", following, index(count))
        return self.fn.b.select(over, index(0), following), over

    def _copy(self, row: Any, pixel: Any) -> None:
        """All runs of one pixel, a byte range after another."""
        fn, geo = self.fn, self.geo
        pieces = list(self._pieces())

        def run(place: list[Index]) -> None:
            number = fn.add(fn.mul(place[0], geo.run_columns), place[1])
            target = fn.at(row, fn.mul(number, self.tiling.panel_run))
            offset = fn.add(fn.mul(place[0], geo.run_row_step), fn.mul(place[1], geo.run_column_step))
            source = fn.at(pixel, offset)
            if len(pieces) <= UNROLLED:
                for start, length in pieces:
                    self._vector(fn.at(target, start), fn.at(source, start), length)
            else:
                fn.loop(0, geo.run_length // ROW_BYTES, 1, lambda n: self._line(target, source, n))
                for start, length in pieces[geo.run_length // ROW_BYTES :]:
                    self._vector(fn.at(target, start), fn.at(source, start), length)

        if geo.runs * len(pieces) > 2 * UNROLLED:
            access.nest(fn, (geo.run_rows, geo.run_columns), run)
        else:
            for number in range(geo.runs):
                run(list(divmod(number, geo.run_columns)))

    def _line(self, target: Any, source: Any, number: Index) -> None:
        start = self.fn.mul(number, ROW_BYTES)
        self._vector(self.fn.at(target, start), self.fn.at(source, start), ROW_BYTES)

    def _pieces(self) -> Iterator[tuple[int, int]]:
        """Start and length of the vectors of a run; the last moves back over its predecessor."""
        length = self.geo.run_length
        for start in range(0, length, ROW_BYTES):
            if length < ROW_BYTES:
                yield 0, length
            else:
                yield min(start, length - ROW_BYTES), ROW_BYTES

    def _vector(self, target: Any, source: Any, length: int) -> None:
        """Copy ``length`` bytes; reads nothing else, but stores zeros up to the next power of two."""
        fn, width = self.fn, max(16, 1 << (length - 1).bit_length())
        type_ = vector_type(I8, width)
        if length == width:
            fn.store(fn.load(source, type_), target)
            return
        fn.store(fn.load_masked(source, type_, length), target)
