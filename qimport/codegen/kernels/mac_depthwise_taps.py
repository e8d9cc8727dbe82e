"""Depthwise ``prim.mac`` with dot products over the rows of the window.

A block of output rows by a stretch of columns by a block of channels is computed in two steps. The input
rows that it reads are interleaved once into memory (:mod:`qimport.codegen.isa.taps`), so that a 32-bit lane
holds several taps of one column and one channel. Then every vector of channels runs along the stretch with
its weights and tables in registers; what is interleaved serves all output rows of the block and as many
output columns as the window is wide.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from qimport.codegen.function import ELEMENTS, I32, Index, KernelFunction, itemsize
from qimport.codegen.isa.taps import TAP_BYTES, TapProduct
from qimport.codegen.kernels import access, mac
from qimport.codegen.kernels.depthwise_blocks import TOGETHER, Blocks, blocks_of, weight_bytes
from qimport.codegen.kernels.finish import Finisher
from qimport.codegen.tables import ALIGNMENT, TableLayout
from qimport.codegen.target import Target
from qimport.codegen.vector import constant, lanes_of, like, shuffle, splat, vector_type
from qimport.lower.kernel import Kernel, dense_strides


def emit(
    module: Any, name: str, kernel: Kernel, target: Target, layout: TableLayout, product: TapProduct
) -> Any:
    """Blocks of rows outside, blocks of channels next, stretches of columns inside."""
    fn = access.start(module, name, kernel, target)
    _TapsKernel(fn, kernel, target, layout, blocks_of(kernel, product)).run()
    return fn.finish()


class _TapsKernel:
    """One function being written."""

    def __init__(
        self, fn: KernelFunction, kernel: Kernel, target: Target, layout: TableLayout, blocks: Blocks
    ) -> None:
        op, x, w, bias = mac.root_of(kernel)
        self.fn, self.blocks, self.product, self.op, self.x = fn, blocks, blocks.product, op, x.type
        self.window_columns = w.type.shape[2]
        self.result = kernel.root.outputs[0].type.shape
        self.multiplier = self.result[3] // x.type.shape[3]
        self.flip = mac.flip(kernel, blocks.product.unsigned)
        self.bias_dtype = bias.type.dtype
        self.bias_offset = weight_bytes(kernel, blocks)
        self.pointer = access.pointer_to(fn, kernel, layout, x)
        self.memory = mac.tile_memory(fn, (blocks.memory + ALIGNMENT) // TAP_BYTES)
        self.finisher = Finisher(fn, kernel, target, layout)

    def run(self) -> None:
        """All blocks."""
        fn, blocks = self.fn, self.blocks
        images, height, width, outputs = self.result
        size = blocks.channels

        def channels(place: list[Index], number: Index, count: int) -> None:
            def stretch(column: Index) -> None:
                corner = (*place, column)
                self._interleave(corner, number, count)
                self._channels(corner, fn.mul(number, size), count)

            fn.overlapping(width, blocks.columns, stretch)

        def rows(place: list[Index]) -> None:
            fn.loop(0, outputs // size, 1, lambda number: channels(place, number, size))
            if outputs % size:
                channels(place, outputs // size, outputs % size)

        def image(number: Index) -> None:
            fn.overlapping(height, blocks.rows.count, lambda row: rows([number, row]))

        fn.loop(0, images, 1, image)

    def _interleave(self, corner: tuple[Index, ...], block: Index, channels: int) -> None:
        """What a stretch at ``corner`` (image, row, column) reads of one block of channels, into memory.

        Columns that hold all channels are neighbours in the input: they are taken as one run.
        """
        fn, (rows, columns), inputs = self.fn, self.op.stride, self.x.shape[3]
        start = (corner[0], fn.mul(corner[1], rows), fn.mul(corner[2], columns))
        source = access.offset(fn, start, dense_strides(self.x.shape)[:3])
        source = fn.add(source, fn.mul(block, self.blocks.channels // self.multiplier))
        taken = self.blocks.input_columns
        if channels == self.result[3]:
            self._run(source, 0, taken * inputs)
            return

        def column(number: Index) -> None:
            here = fn.add(source, fn.mul(number, inputs))
            self._run(here, fn.mul(number, channels * TAP_BYTES), channels // self.multiplier)

        fn.loop(0, taken, 1, column)

    def _run(self, source: Index, target: Index, length: int) -> None:
        """``length`` neighbouring elements of each input row from element ``source`` on."""
        fn, line = self.fn, self.x.shape[2] * self.x.shape[3]
        register = self.product.lanes * TAP_BYTES // self.x.itemsize // self.multiplier
        width = min(register, 1 << (length.bit_length() - 1))

        def step(start: Index) -> None:
            first = fn.add(source, start)
            place = fn.add(target, fn.mul(start, self.multiplier * TAP_BYTES))
            for group, lines in enumerate(self.blocks.rows.groups):
                rows = [self._load(fn.add(first, number * line), width) for number in lines]
                memory = fn.at(self.memory, fn.add(place, group * self.blocks.plane))
                for number, taps in enumerate(self.product.interleave(fn, rows)):
                    size = lanes_of(taps) * taps.type.element.width // 8
                    fn.store(taps, fn.at(memory, number * size), 4)

        fn.overlapping(length, width, step)

    def _load(self, position: Index, width: int) -> Any:
        """``width`` activations in the product's domain, each as often as it has outputs."""
        type_ = vector_type(ELEMENTS[self.x.dtype], width)
        x = self.fn.load(self.fn.element(self.pointer, position, self.x.dtype), type_)
        if self.flip:
            x = self.fn.b.xor(x, like(x, self.flip))
        if width == 1:
            return self._repeated(x)
        if self.multiplier == 1:
            return x
        return shuffle(self.fn, x, x, [lane // self.multiplier for lane in range(width * self.multiplier)])

    def _repeated(self, x: Any) -> Any:
        """One activation as a vector, even of one lane."""
        if self.multiplier > 1:
            return splat(self.fn, x, self.multiplier)
        empty = ir.Constant(ir.VectorType(x.type, 1), ir.Undefined)
        return self.fn.b.insert_element(empty, x, I32(0))

    def _channels(self, corner: tuple[Index, ...], block: Index, channels: int) -> None:
        """The results of a stretch, a vector of the block's channels at a time."""
        fn, lanes = self.fn, self.product.lanes
        whole = channels - channels % lanes

        def vector(start: Index, used: int) -> None:
            memory = fn.at(self.memory, fn.mul(start, TAP_BYTES))
            self._vector(corner, fn.add(block, start), memory, channels * TAP_BYTES, used)

        fn.loop(0, whole, lanes, lambda start: vector(start, lanes))
        if whole < channels:
            vector(whole, channels - whole)

    def _vector(self, corner: tuple[Index, ...], channel: Index, memory: Any, step: int, used: int) -> None:
        """``used`` lanes of the vector at ``channel``; columns are ``step`` bytes apart in ``memory``."""
        fn, blocks = self.fn, self.blocks
        image, row, column = corner
        first = fn.add(fn.mul(fn.add(fn.mul(image, self.result[1]), row), self.result[2]), column)

        def block(number: Index, count: int) -> None:
            sums: list[Any] = []
            pixels = []
            for i in range(count):
                position = fn.add(number, i)
                sums += self._sums(fn.at(memory, fn.mul(position, self.op.stride[1] * step)), channel, step)
                pixel = fn.add(first, position)
                pixels += [fn.add(pixel, row * self.result[2]) for row in range(blocks.rows.count)]
            self._store(sums, pixels, channel, used)

        fn.blocks(blocks.columns, TOGETHER // blocks.rows.count, False, block)

    def _sums(self, memory: Any, channel: Index, step: int) -> list[Any]:
        """The sums of one vector in every row of the block; ``memory`` holds the window's first column."""
        fn, rows, lanes = self.fn, self.blocks.rows, self.product.lanes
        vector = lanes * TAP_BYTES
        weights = fn.at(fn.tables, fn.mul(channel, len(rows.parts) * self.window_columns * TAP_BYTES))
        element = ELEMENTS[self.product.weight_dtype]
        type_ = vector_type(element, vector * 8 // element.width)
        place = fn.add(self.bias_offset, fn.mul(channel, itemsize(self.bias_dtype)))
        bias = fn.load(fn.at(fn.tables, place), vector_type(ELEMENTS[self.bias_dtype], lanes), vector)
        wide = self.bias_dtype == "int64"
        sums = [constant(vector_type(I32, lanes), 0) if wide else bias] * rows.count
        for column in range(self.window_columns):
            taps = fn.at(memory, column * self.op.dilation[1] * step)
            for number, (row, group) in enumerate(rows.parts):
                x = fn.load(fn.at(taps, group * self.blocks.plane), type_, 4)
                where = (number * self.window_columns + column) * vector
                w = fn.load(fn.at(weights, where), type_, vector)
                sums[row] = self.product.product(fn, sums[row], x, w)
        return [fn.b.add(fn.b.sext(total, bias.type), bias) for total in sums] if wide else sums

    def _store(self, sums: Sequence[Any], pixels: Sequence[Index], channel: Index, used: int) -> None:
        """The first ``used`` lanes, without masks in pieces that are powers of two."""
        lanes = self.product.lanes
        if used == lanes or self.finisher.masked:
            self.finisher.store_pixels(sums, pixels, channel, used)
            return
        start = 0
        while start < used:
            count = 1 << ((used - start).bit_length() - 1)
            for total, pixel in zip(sums, pixels, strict=True):
                part = (
                    self.fn.b.extract_element(total, I32(start))
                    if count == 1
                    else shuffle(self.fn, total, total, range(start, start + count))
                )
                self.finisher.store(part, pixel, self.fn.add(channel, start), count)
            start += count
