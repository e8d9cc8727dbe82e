"""Depthwise ``prim.mac`` with dot products over the rows of the window.

A block of output rows by a stretch of columns by a block of channels is computed in two steps. The input
rows that it reads are interleaved once into memory (:mod:`qimport.codegen.isa.taps`), so that a 32-bit lane
holds several taps of one column and one channel. Then every vector of channels runs along the stretch with
its weights and tables in registers; what is interleaved serves all output rows of the block and as many
output columns as the window is wide.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from qimport.codegen.function import ELEMENTS, I32, I64, Index, KernelFunction, index, itemsize
from qimport.codegen.isa.taps import TAP_BYTES, TapProduct
from qimport.codegen.kernels import access, mac
from qimport.codegen.kernels.depthwise_blocks import Blocks, blocks_of, flip, weight_bytes
from qimport.codegen.kernels.finish import Finisher
from qimport.codegen.tables import ALIGNMENT, TableLayout
from qimport.codegen.target import Target
from qimport.codegen.vector import constant, lanes_of, like, shuffle, splat, vector_type
from qimport.lower.kernel import Kernel

TOGETHER = 4
"""Vectors that are finished together: they become one register of bytes."""


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
        self.flip = flip(kernel, blocks.product)
        self.bias_dtype = bias.type.dtype
        self.bias_offset = weight_bytes(kernel, blocks)
        self.pointer = access.pointer_to(fn, kernel, layout, x)
        self.memory = mac.tile_memory(fn, (len(blocks.rows.groups) * blocks.plane + ALIGNMENT) // TAP_BYTES)
        self.finisher = Finisher(fn, kernel, target, layout)

    def run(self) -> None:
        """All blocks; the last rows may be fewer."""
        images, height, _, _ = self.result
        most = self.blocks.rows.count

        def image(number: Index) -> None:
            self.fn.blocks(height, most, False, lambda row, count: self._rows(number, row, count))

        self.fn.loop(0, images, 1, image)

    def _rows(self, image: Index, row: Index, count: int) -> None:
        """``count`` output rows from ``row`` on."""
        _, _, width, outputs = self.result
        size, columns = self.blocks.channels, self.blocks.columns
        whole = outputs - outputs % size

        def channels(number: Index, size: int) -> None:
            def stretch(column: Index) -> None:
                self._interleave((image, row, column), number, size, count)
                channel = self.fn.mul(number, self.blocks.channels)
                self._channels((image, row, column), channel, size, count)

            self.fn.loop(0, width, columns, stretch)

        self.fn.loop(0, whole // size, 1, lambda number: channels(number, size))
        if whole < outputs:
            channels(whole // size, outputs - whole)

    def _columns(self, column: Index) -> Index:
        """Output columns of the stretch from ``column`` on."""
        width, columns = self.result[2], self.blocks.columns
        if width % columns == 0:
            return columns
        if isinstance(column, int):
            return min(columns, width - column)
        rest = self.fn.b.sub(index(width), column)
        return self.fn.intrinsic("llvm.smin.i64", I64, [rest, index(columns)])

    def _interleave(self, place: tuple[Index, ...], block: Index, channels: int, count: int) -> None:
        """The input of ``count`` output rows, one stretch and one block of channels, into memory.

        Columns that hold all channels are neighbours in the input: they are taken as one run.
        """
        fn, (step, inputs) = self.fn, (self.op.stride[1], self.x.shape[3])
        edge = self.blocks.input_columns - (self.blocks.columns - 1) * step
        taken = fn.add(fn.mul(self._columns(place[2]), step), edge - step)
        corner = (place[0], fn.mul(place[1], self.op.stride[0]), fn.mul(place[2], step))
        source = access.offset(fn, corner, access.dense_strides(self.x.shape)[:3])
        source = fn.add(source, fn.mul(block, self.blocks.channels // self.multiplier))
        if channels == self.result[3]:
            least = self.result[2] % self.blocks.columns or self.blocks.columns
            shortest = ((least - 1) * step + edge) * inputs
            self._run(source, 0, fn.mul(taken, inputs), shortest, count)
            return
        length = channels // self.multiplier

        def column(number: Index) -> None:
            here = fn.add(source, fn.mul(number, inputs))
            self._run(here, fn.mul(number, channels * TAP_BYTES), length, length, count)

        fn.loop(0, taken, 1, column)

    def _run(self, source: Index, target: Index, length: Index, shortest: int, count: int) -> None:
        """``length`` neighbouring elements of each input row from ``source`` on; the last step overlaps."""
        fn, line = self.fn, self.x.shape[2] * self.x.shape[3]
        register = self.product.lanes * TAP_BYTES // self.x.itemsize // self.multiplier
        width = min(register, 1 << (shortest.bit_length() - 1))
        last = length - width if isinstance(length, int) else fn.b.sub(length, index(width))

        def step(start: Index) -> None:
            if not isinstance(length, int) or length % width:
                start = fn.intrinsic("llvm.smin.i64", I64, [index(start), index(last)])
            first = fn.add(source, start)
            place = fn.add(target, fn.mul(start, self.multiplier * TAP_BYTES))
            for group in range(len(self.blocks.rows.groups)):
                lines = self.blocks.rows.available(group, count)
                if not lines:
                    continue
                rows = [self._load(fn.add(first, number * line), width) for number in lines]
                memory = fn.at(self.memory, fn.add(place, group * self.blocks.plane))
                for number, taps in enumerate(self.product.interleave(fn, rows)):
                    size = lanes_of(taps) * taps.type.element.width // 8
                    fn.store(taps, fn.at(memory, number * size), 4)

        fn.loop(0, length, width, step)

    def _load(self, position: Index, width: int) -> Any:
        """``width`` activations in the product's domain, each as often as it has outputs."""
        type_ = vector_type(ELEMENTS[self.x.dtype], width)
        x = self.fn.load(self.fn.element(self.pointer, position, self.x.dtype), type_)
        if self.flip:
            x = self.fn.b.xor(x, like(x, self.flip))
        if self.multiplier == 1:
            return x
        if width == 1:
            return splat(self.fn, x, self.multiplier)
        return shuffle(self.fn, x, x, [lane // self.multiplier for lane in range(width * self.multiplier)])

    def _channels(self, place: tuple[Index, ...], block: Index, channels: int, count: int) -> None:
        """A stretch of ``count`` output rows, a vector of the block's channels at a time."""
        lanes = self.product.lanes
        whole = channels - channels % lanes

        def vector(start: Index, used: int) -> None:
            self._vector(place, self.fn.add(block, start), start, channels, used, count)

        self.fn.loop(0, whole, lanes, lambda start: vector(start, lanes))
        if whole < channels:
            vector(whole, channels - whole)

    def _vector(
        self, place: tuple[Index, ...], channel: Index, start: Index, channels: int, used: int, count: int
    ) -> None:
        """``used`` lanes of one vector, which begins at ``channel`` and at ``start`` of its block."""
        fn, step = self.fn, channels * TAP_BYTES
        image, row, column = place
        memory = fn.at(self.memory, fn.mul(start, TAP_BYTES))
        first = fn.add(fn.mul(fn.add(fn.mul(image, self.result[1]), row), self.result[2]), column)

        def block(number: Index, pixels: int) -> None:
            sums, places = [], []
            for i in range(pixels):
                position = fn.add(number, i)
                here = fn.at(memory, fn.mul(position, self.op.stride[1] * step))
                sums += self._sums(here, channel, step, count)
                places += [fn.add(fn.add(first, position), row * self.result[2]) for row in range(count)]
            self._store(sums, places, channel, used)

        self._blocks(self._columns(column), TOGETHER // count, block)

    def _blocks(self, count: Index, together: int, body: Callable[[Index, int], None]) -> None:
        """Cover ``range(count)`` with ``body(start, width)`` of width ``together`` and what is left."""
        fn = self.fn
        if isinstance(count, int):
            fn.blocks(count, together, False, body)
            return
        whole = fn.b.and_(count, index(-together))
        with fn.b.if_then(fn.b.icmp_signed(">", whole, index(0))):
            fn.loop(0, whole, together, lambda start: body(start, together))
        with fn.b.if_then(fn.b.icmp_signed("<", whole, count)):
            fn.loop(whole, count, 1, lambda start: body(start, 1))

    def _sums(self, memory: Any, channel: Index, step: int, count: int) -> list[Any]:
        """The sums of one vector in ``count`` output rows; columns are ``step`` bytes apart in memory."""
        fn, rows, lanes = self.fn, self.blocks.rows, self.product.lanes
        vector = lanes * TAP_BYTES
        parts = [(number, *part) for number, part in enumerate(rows.parts) if part[0] < count]
        weights = fn.at(fn.tables, fn.mul(channel, len(rows.parts) * self.window_columns * TAP_BYTES))
        element = ELEMENTS[self.product.weight_dtype]
        type_ = vector_type(element, vector * 8 // element.width)
        place = fn.add(self.bias_offset, fn.mul(channel, itemsize(self.bias_dtype)))
        bias = fn.load(fn.at(fn.tables, place), vector_type(ELEMENTS[self.bias_dtype], lanes), vector)
        wide = self.bias_dtype == "int64"
        sums = [constant(vector_type(I32, lanes), 0) if wide else bias] * count
        for column in range(self.window_columns):
            taps = fn.at(memory, column * self.op.dilation[1] * step)
            for number, row, group in parts:
                x = fn.load(fn.at(taps, group * self.blocks.plane), type_, 4)
                where = (number * self.window_columns + column) * vector
                w = fn.load(fn.at(weights, where), type_, vector)
                sums[row] = self.product.product(fn, sums[row], x, w)
        return [fn.b.add(fn.b.sext(total, bias.type), bias) for total in sums] if wide else sums

    def _store(self, sums: list[Any], pixels: list[Index], channel: Index, used: int) -> None:
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
