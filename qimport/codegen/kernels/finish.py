"""What becomes of finished sums: a kernel's elementwise nodes on tiles of them, and the stores.

Tiles are finished by functions of their own, one per shape of tile, so that a kernel that finishes tiles in
several places holds that code once. Where bytes are requantized with floats that leave some results in doubt
(:mod:`qimport.codegen.byte_requantize`), a register full of bytes is tested at once and computed again with
integers by a function that is rarely called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from qimport.codegen import byte_requantize
from qimport.codegen.elementwise import emit_nodes
from qimport.codegen.function import ELEMENTS, I8, I32, I64, PTR, Index, KernelFunction, index
from qimport.codegen.isa import neon
from qimport.codegen.kernels import access
from qimport.codegen.tables import ALIGNMENT, TableLayout
from qimport.codegen.target import Target
from qimport.codegen.vector import concatenated, joined, lanes_of, shuffle, vector_type
from qimport.ir.graph import Value
from qimport.lower.kernel import Kernel, Strides

REQUANTIZATION = 2
"""Nodes of an epilogue that does nothing else: ``prim.rescale`` and ``prim.clamp``."""


class Finisher:
    """Applies a kernel's elementwise nodes to tiles of sums and stores the results."""

    def __init__(self, fn: KernelFunction, kernel: Kernel, target: Target, layout: TableLayout) -> None:
        self.fn, self.kernel, self.target, self.layout = fn, kernel, target, layout
        self.lanes = target.lanes
        self.masked = target.has("avx512")
        self.dtype = kernel.root.outputs[0].type.dtype
        self.in_bytes = any(byte_requantize.applies(layout, node, target) for node in kernel.epilogue)
        self.epilogue = _Epilogue(fn, kernel, layout)
        self.functions: dict[tuple[Any, ...], Any] = {}
        self.spilled: Any = None

    def finish(
        self, tile: Any, tile_stride: int, pixel: Index, pixels: Index, channel: Index, count: int
    ) -> None:
        """``pixels`` x ``count`` sums at ``tile`` (rows ``tile_stride`` elements apart) become results.

        ``pixel`` is the flat output pixel of the first row, ``channel`` the first channel, a multiple of 4.
        There is at least one pixel; rows of a tile hold whole registers.
        """

        def body(epilogue: _Epilogue, *place: Any) -> None:
            at = _Tile(epilogue, self.dtype, tile_stride, *place)
            if not self.in_bytes:
                self._finish_vectors(at, range(count))
                return
            if not byte_requantize.speculates(self.target):
                self._finish_pixels(at, count)
                return
            for columns, lanes in self._channel_blocks(count, tile_stride):
                if lanes % self.lanes:  # a narrow rest without masks
                    self._finish_vectors(at, columns)
                else:
                    self._finish_bytes(at, columns, lanes)

        key = ("finish", tile_stride, count)
        self._call(self.fn, key, body, tile, index(pixel), index(pixels), index(channel))

    @property
    def takes_registers(self) -> bool:
        """Whether :meth:`finish_registers` pays: what is done with a sum leaves the registers to the sums."""
        return self.in_bytes and not byte_requantize.speculates(self.target)

    def finish_registers(
        self, sums: Sequence[Sequence[Any]], pixel: Index, channel: Index, count: int
    ) -> None:
        """:meth:`finish` in place, for registers [pixel][vector]; ``pixel`` is a multiple of their number."""
        places = self.epilogue.places(pixel, len(sums))
        for number, (row, place) in enumerate(zip(sums, places, strict=True)):
            for start, lanes in self._pieces(range(count)):
                registers = row[start // self.lanes : -(-(start + lanes) // self.lanes)]
                total = joined(self.fn, registers)
                if lanes < self.lanes:
                    first = start % self.lanes
                    total = shuffle(self.fn, total, total, range(first, first + lanes))
                    total = total if lanes > 1 else self.fn.b.extract_element(total, I32(0))
                here = self.fn.add(channel, start)
                self.epilogue.exact(total, self.fn.add(pixel, number), here, lanes, lanes, place)

    def store(self, sums: Any, pixel: Index, channel: Index, lanes: int) -> None:
        """``lanes`` sums of one output pixel become results; ``channel`` is even unless there is one lane.

        Up to as many lanes as a register has bytes; whole registers of sums are fastest.
        """
        self.store_pixels([sums], [pixel], channel, lanes)

    def store_pixels(self, sums: Sequence[Any], pixels: Sequence[Index], channel: Index, valid: int) -> None:
        """The sums of several output pixels, of the same channels each, become results.

        All sums together have at most as many lanes as a register has bytes: four registers are fastest.
        Only the first ``valid`` channels of each count, which must be all of them unless :attr:`masked`.
        """
        lanes = lanes_of(sums[0])
        if not self.in_bytes or lanes % self.lanes:
            for total, pixel in zip(sums, pixels, strict=True):
                self.epilogue.exact(total, pixel, channel, lanes, valid)
            return

        def again() -> None:
            if self.spilled is None:
                with self.fn.b.goto_entry_block():
                    self.spilled = self.fn.b.alloca(ELEMENTS["int32"], self.target.vector_bytes)
                    self.spilled.align, self.spilled.type = ALIGNMENT, PTR
            places = [self.fn.element(self.spilled, number * lanes, "int32") for number in range(len(sums))]
            for total, place in zip(sums, places, strict=True):
                self.fn.store(total, place, lanes * 4)
            for place, pixel in zip(places, pixels, strict=True):
                self._exact(self.fn, place, lanes, pixel, 1, channel, lanes, valid)

        self.epilogue.speculate(sums, pixels, channel, valid, again)

    def _finish_vectors(self, at: _Tile, columns: range) -> None:
        """With integers, one register of sums after the other."""

        def block(start: Index, lanes: int) -> None:
            def row(number: Index) -> None:
                channel = at.fn.add(at.channel, at.fn.add(columns.start, start))
                sums = at.sums(number, at.fn.add(columns.start, start), lanes)
                at.epilogue.exact(sums, at.fn.add(at.pixel, number), channel, lanes, lanes)

            at.fn.loop(0, at.pixels, 1, row)

        at.fn.blocks(len(columns), self.lanes, False, block)

    def _finish_pixels(self, at: _Tile, count: int) -> None:
        """Pixel after pixel, for as many channels as have their tables in registers."""
        most = self.target.vector_bytes * (2 if len(self.kernel.epilogue) == REQUANTIZATION else 1)
        for first in range(0, count, most):
            columns = range(first, min(first + most, count))
            at.fn.loop(0, at.pixels, 1, partial(self._finish_pixel, at, columns))

    def _finish_pixel(self, at: _Tile, columns: range, number: Index) -> None:
        """Some channels of one pixel, a register full of bytes at a time."""
        pixel = at.fn.add(at.pixel, number)
        for start, lanes in self._pieces(columns):
            sums = at.sums(number, start, lanes)
            at.epilogue.exact(sums, pixel, at.fn.add(at.channel, start), lanes, lanes)

    def _pieces(self, columns: range) -> Iterator[tuple[int, int]]:
        """Starts and sizes of pieces that fit a register of bytes.

        Three registers of sums are one piece if more than requantization follows, which then is done once.
        Otherwise two pieces save taking bytes out of the middle of a register.
        """
        start, whole = columns.start, len(self.kernel.epilogue) > REQUANTIZATION
        while start < columns.stop:
            rest = min(columns.stop - start, self.target.vector_bytes)
            lanes = 1 << (rest.bit_length() - 1)
            if whole and rest > self.lanes:
                lanes = rest - rest % self.lanes
            yield start, lanes
            start += lanes

    def _finish_bytes(self, at: _Tile, columns: range, lanes: int) -> None:
        """As many pixels at once as fill a register with bytes.

        The last block moves back over its predecessor. Tiles of fewer pixels, and in place the pixels that
        fill no block, are left to integers: code for them alone would be as long again.
        """
        fn, together = at.fn, max(1, self.target.vector_bytes // lanes)
        channel, valid = fn.add(at.channel, columns.start), len(columns)

        def exact(first: Index, count: Index) -> None:
            memory, pixel = at.address(first, columns.start), fn.add(at.pixel, first)
            self._exact(fn, memory, at.stride, pixel, count, channel, lanes, valid)

        def block(number: Index) -> None:
            if together > 1 and not self.kernel.in_place:
                last = fn.b.sub(at.pixels, index(together))
                number = fn.intrinsic("llvm.smin.i64", I64, [index(number), last])
            rows = [fn.add(number, i) for i in range(together)]
            sums = [at.sums(row, columns.start, lanes) for row in rows]
            pixels = [fn.add(at.pixel, row) for row in rows]
            at.epilogue.speculate(sums, pixels, channel, valid, lambda: exact(number, together))

        end = fn.b.and_(at.pixels, index(-together)) if self.kernel.in_place else at.pixels
        with fn.b.if_then(fn.b.icmp_signed(">=", at.pixels, index(together))):
            fn.loop(0, end, together, block)
        if together > 1:
            done = end if self.kernel.in_place else index(0)
            rest = fn.b.sub(at.pixels, done)
            few = fn.b.icmp_unsigned("<", fn.b.sub(rest, index(1)), index(together - 1))
            with fn.b.if_then(few, likely=False):
                exact(done, rest)

    def _channel_blocks(self, count: int, tile_stride: int) -> list[tuple[range, int]]:
        """The blocks that cover ``count`` channels, and how many lanes they are computed in.

        Lanes beyond the channels are masked only where rows of the tile, and so tables, fill whole registers.
        """
        blocks, start = [], 0
        masked = self.masked and tile_stride % self.lanes == 0
        while start < count:
            rest = min(count - start, self.target.vector_bytes)
            lanes = 1 << ((-(-rest // self.lanes) * self.lanes if masked else rest).bit_length() - 1)
            end = start + min(rest, lanes)
            blocks.append((range(start, end), lanes))
            start = end
        return blocks

    def _exact(
        self,
        fn: KernelFunction,
        sums: Any,
        stride: int,
        pixel: Index,
        pixels: Index,
        channel: Index,
        lanes: int,
        valid: int,
    ) -> None:
        """Call the function that finishes ``lanes`` sums of each of some pixels in memory with integers."""

        def body(epilogue: _Epilogue, *place: Any) -> None:
            at = _Tile(epilogue, self.dtype, stride, *place)

            def row(number: Index) -> None:
                pixel = at.fn.add(at.pixel, number)
                epilogue.exact(at.sums(number, 0, lanes), pixel, at.channel, lanes, valid)

            at.fn.loop(0, at.pixels, 1, row)

        key = ("exact", stride, lanes, valid)
        self._call(fn, key, body, sums, index(pixel), index(pixels), index(channel))

    def _call(
        self, caller: KernelFunction, key: tuple[Any, ...], body: Callable[..., None], *arguments: Any
    ) -> None:
        """Call the function ``key``, which ``body`` writes at its first use."""
        if key not in self.functions:
            inner = self.fn.private("_".join(map(str, key)), (PTR, I64, I64, I64))
            self.functions[key] = inner.function
            body(_Epilogue(inner, self.kernel, self.layout), *inner.extra)
            inner.finish()
        caller.call(self.functions[key], arguments)


@dataclass(frozen=True)
class _Tile:
    """Sums in memory, ``stride`` elements from pixel to pixel, and the results that they are for."""

    epilogue: _Epilogue
    dtype: str
    stride: int
    memory: Any
    pixel: Any
    pixels: Any
    channel: Any

    @property
    def fn(self) -> KernelFunction:
        """The function being written."""
        return self.epilogue.fn

    def address(self, row: Index, column: Index) -> Any:
        """Where a sum is."""
        place = self.fn.add(self.fn.mul(row, self.stride), column)
        return self.fn.element(self.memory, place, self.dtype)

    def sums(self, row: Index, column: Index, lanes: int) -> Any:
        """``lanes`` sums of a pixel."""
        return self.fn.load(self.address(row, column), vector_type(ELEMENTS[self.dtype], lanes), 4)


class _Epilogue:
    """Emits a kernel's elementwise nodes and stores into one function."""

    def __init__(self, fn: KernelFunction, kernel: Kernel, layout: TableLayout) -> None:
        self.fn, self.kernel, self.layout = fn, kernel, layout
        self.sources = [
            replace(source, strides=self._flat_strides(source.value, source.strides[-1:]))
            for source in access.sources(fn, kernel, layout, kernel.epilogue)
        ]
        self.pixels = kernel.result.type.shape[:-1]
        self.strides = access.result_strides(kernel)

    def _flat_strides(self, value: Value, channel: Strides) -> Strides:
        """Along flat pixels and channels; what is not of the result's shape is the same for every pixel."""
        whole = self.kernel.result.type.shape
        return (self.kernel.strides_of(value)[-2] if value.type.shape == whole else 0, *channel)

    def places(self, pixel: Index, count: int) -> list[Index]:
        """Elements at which the results of ``count`` pixels start, from a multiple of ``count`` on."""
        sizes, (steps,) = access.collapse(self.pixels, [self.strides[:-1]])
        if sizes[-1] % count:
            return [self._place(self.fn.add(pixel, number)) for number in range(count)]
        first = self._place(pixel)
        return [self.fn.add(first, number * steps[-1]) for number in range(count)]

    def exact(
        self, sums: Any, pixel: Index, channel: Index, lanes: int, valid: int, place: Index | None = None
    ) -> None:
        """``valid`` of ``lanes`` sums of one pixel become results, by integers where there is a choice.

        ``place`` is where the results of the pixel start, if that is known.
        """
        values = self._loaded([pixel], channel, lanes, valid)
        values[self.kernel.root.outputs[0]] = sums
        emit_nodes(self.fn, self.kernel.epilogue, values, channel, lanes, self.layout)
        self._store(
            values[self.kernel.result], self._place(pixel) if place is None else place, channel, valid
        )

    def speculate(
        self,
        sums: Sequence[Any],
        pixels: Sequence[Index],
        channel: Index,
        valid: int,
        again: Callable[[], None],
    ) -> None:
        """Sums of several pixels become results; ``again`` emits what is done if any is in doubt."""
        lanes = lanes_of(sums[0])
        values = self._loaded(pixels, channel, lanes, valid)
        values[self.kernel.root.outputs[0]] = concatenated(self.fn, sums)
        doubts: list[Any] = []
        total = lanes * len(pixels)
        nodes = self.kernel.epilogue
        emit_nodes(self.fn, nodes, values, channel, total, self.layout, len(pixels), doubts)

        def store() -> None:
            result = values[self.kernel.result]
            for number, pixel in enumerate(pixels):
                part = self._part(result, number, lanes)
                self._store(part, self._place(pixel), channel, valid)

        byte_requantize.unless_in_doubt(self.fn, doubts, store, again)

    def _part(self, value: Any, number: int, lanes: int) -> Any:
        """Part ``number`` of ``value``, ``lanes`` of it."""
        if lanes_of(value) == lanes:
            return value
        if neon.available(self.fn.target) and value.type.element == I8:
            return neon.part(self.fn, value, number, lanes)
        return shuffle(self.fn, value, value, range(number * lanes, number * lanes + lanes))

    def _loaded(self, pixels: Sequence[Index], channel: Index, lanes: int, valid: int) -> dict[Value, Any]:
        """The elements of every operand."""
        return {
            source.value: concatenated(
                self.fn, [self._load(source, [pixel, channel], lanes, valid) for pixel in pixels]
            )
            for source in self.sources
        }

    def _load(self, source: access.Source, position: list[Index], lanes: int, valid: int) -> Any:
        if valid == lanes or source.strides[-1] == 0:
            return source.load(self.fn, position, lanes)
        return source.load_masked(self.fn, position, lanes, valid)

    def _place(self, pixel: Index) -> Index:
        """The element at which the results of a pixel start."""
        return access.flat_offset(self.fn, pixel, self.pixels, self.strides[:-1])

    def _store(self, value: Any, place: Index, channel: Index, valid: int) -> None:
        place = self.fn.add(place, self.fn.mul(channel, self.strides[-1]))
        if lanes_of(value) == valid:
            access.store(self.fn, self.kernel, value, place)
        else:
            address = self.fn.element(self.fn.result, place, self.kernel.result.type.dtype)
            self.fn.store_masked(value, address, valid)
