"""Depthwise ``prim.mac`` with windows in registers.

A tile is one or two output rows by some output columns, of ``CHANNELS`` channels. Columns of the input are
loaded once for all windows of the tile that share them; along a row of tiles, weights and tables stay where
they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from qimport.codegen.function import ELEMENTS, I32, Index, KernelFunction, itemsize
from qimport.codegen.isa.channels import CHANNELS, ChannelProduct
from qimport.codegen.kernels import access, mac
from qimport.codegen.kernels.depthwise_tiles import Tiles, block_bytes, flip, tiles_of, weight_bytes
from qimport.codegen.kernels.finish import Finisher
from qimport.codegen.tables import TableLayout
from qimport.codegen.target import Target
from qimport.codegen.vector import constant, like, shuffle, splat, vector_type
from qimport.lower.kernel import Kernel, dense_strides

STEPS_TOGETHER = 2
"""Steps that a product may add up before it adds them to the sums."""

FINISHED_TOGETHER = 2
"""Pixels whose channels fill a register with bytes."""


def emit(
    module: Any, name: str, kernel: Kernel, target: Target, layout: TableLayout, product: ChannelProduct
) -> Any:
    """Rows of tiles outside, blocks of channels next, tiles inside.

    The result may seem to alias the operands: LLVM would otherwise load the activations of a whole tile at
    once, and have no registers left for its weights.
    """
    fn = KernelFunction(module, name, len(kernel.graph.inputs), target, in_place=True)
    tiles = tiles_of(kernel, product)
    writer = _TileKernel(fn, kernel, target, layout, tiles)
    images, height, width, outputs = kernel.root.outputs[0].type.shape

    def rows(image: Index, row: Index) -> None:
        def block(channel: Index) -> None:
            weight, bias = writer.weights(channel), writer.bias(channel)
            fn.overlapping(
                width,
                tiles.columns,
                lambda column: _Tile(writer, (image, row, column), channel, weight).emit(bias),
            )

        fn.loop(0, outputs, CHANNELS, block)

    fn.loop(
        0, images, 1, lambda image: fn.overlapping(height, tiles.rows.count, lambda row: rows(image, row))
    )
    return fn.finish()


Weight = Callable[[int, int], Any]


class _TileKernel:
    """What the kernel knows while its code is written."""

    def __init__(
        self, fn: KernelFunction, kernel: Kernel, target: Target, layout: TableLayout, tiles: Tiles
    ) -> None:
        op, x, w, bias = mac.root_of(kernel)
        self.fn, self.tiles, self.op, self.x, self.bias_type = fn, tiles, op, x.type, bias.type
        self.multiplier = w.type.shape[0] // x.type.shape[3]
        self.flip = flip(kernel, tiles.product)
        self.block_bytes = block_bytes(kernel, tiles)
        self.bias_offset = weight_bytes(kernel, tiles)
        self.pointer = access.pointer_to(fn, kernel, layout, x)
        self.own = dense_strides(x.type.shape)
        self.pixels = dense_strides(kernel.root.outputs[0].type.shape[:3])
        self.finisher = Finisher(fn, kernel, target, layout)

    def weights(self, channel: Index) -> Weight:
        """Gives weights of a block by pattern and column of the window; resident ones are loaded now."""
        fn, tiles = self.fn, self.tiles
        element = ELEMENTS[tiles.product.dtype]
        type_ = vector_type(element, CHANNELS * tiles.product.group)
        size = type_.count * element.width // 8
        block = fn.at(fn.tables, fn.mul(channel, self.block_bytes // CHANNELS))

        def load(pattern: int, column: int) -> Any:
            return fn.load(fn.at(block, (pattern * tiles.window_columns + column) * size), type_, 8)

        if not tiles.resident:
            return load
        columns = range(tiles.window_columns)
        loaded = [[load(pattern, column) for column in columns] for pattern in range(len(tiles.patterns))]
        return lambda pattern, column: loaded[pattern][column]

    def bias(self, channel: Index) -> Any:
        """The bias of a block of channels."""
        place = self.fn.add(self.bias_offset, self.fn.mul(channel, itemsize(self.bias_type.dtype)))
        type_ = vector_type(ELEMENTS[self.bias_type.dtype], CHANNELS)
        return self.fn.load(self.fn.at(self.fn.tables, place), type_, 8)

    def activations(self, position: Index) -> Any:
        """The activations of a block of channels in the product's domain, each as often as it has outputs."""
        inputs = CHANNELS // self.multiplier
        place = self.fn.element(self.pointer, position, self.x.dtype)
        x = self.fn.load(place, vector_type(ELEMENTS[self.x.dtype], inputs))
        if self.flip:
            x = self.fn.b.xor(x, like(x, self.flip))
        if inputs == 1:
            return splat(self.fn, x, CHANNELS)
        if self.multiplier == 1:
            return x
        return shuffle(self.fn, x, x, [lane // self.multiplier for lane in range(CHANNELS)])


class _Tile:
    """The pixels from ``corner`` (image, row, column) on, of the block of channels from ``channel`` on."""

    def __init__(
        self, writer: _TileKernel, corner: tuple[Index, ...], channel: Index, weight: Weight
    ) -> None:
        fn, tiles = writer.fn, writer.tiles
        self.writer, self.fn, self.tiles, self.channel, self.weight = writer, fn, tiles, channel, weight
        strides = (1, *writer.op.stride)
        start = [fn.mul(place, step) for place, step in zip(corner, strides, strict=True)]
        inputs, _ = fn.divide(channel, writer.multiplier)
        self.source = fn.add(access.offset(fn, start, writer.own[:3]), inputs)
        first = access.offset(fn, corner, writer.pixels)
        self.places = [(row, column) for column in range(tiles.columns) for row in range(tiles.rows.count)]
        self.pixels = [fn.add(first, row * writer.pixels[1] + column) for row, column in self.places]
        self.loaded: dict[tuple[int, int], Any] = {}

    def emit(self, bias: Any) -> None:
        """All its sums and results."""
        wide = self.writer.bias_type.dtype == "int64"
        start = constant(vector_type(I32, CHANNELS), 0) if wide else bias
        numbers = range(len(self.places))
        groups = [numbers[n : n + FINISHED_TOGETHER] for n in numbers[::FINISHED_TOGETHER]]
        sums = [] if self.tiles.resident else self._step_by_step(start)
        for group in groups:
            mine = (
                [self._summed(start, self.places[n]) for n in group] if not sums else [sums[n] for n in group]
            )
            if wide:
                mine = [self.fn.b.add(self.fn.b.sext(total, bias.type), bias) for total in mine]
            pixels = [self.pixels[n] for n in group]
            self.writer.finisher.store_pixels(mine, pixels, self.channel, CHANNELS)

    def _step_by_step(self, start: Any) -> list[Any]:
        """The sums of all pixels, some steps of every pixel at a time."""
        sums = [start] * len(self.places)
        for first in range(0, len(self.tiles.steps(0)), STEPS_TOGETHER):
            part = slice(first, first + STEPS_TOGETHER)
            sums = [self._summed(*pixel, part) for pixel in zip(sums, self.places, strict=True)]
        return sums

    def _summed(self, total: Any, place: tuple[int, int], part: slice = slice(None)) -> Any:
        """``total`` and some of the steps of the pixel at ``place`` (row, column) of the tile."""
        row, column = place
        steps: Sequence[tuple[Any, Any]] = [
            (
                self._step(group, column * self.tiles.stride + tap * self.tiles.dilation),
                self.weight(pattern, tap),
            )
            for group, pattern, tap in self.tiles.steps(row)[part]
        ]
        return self.tiles.product.total(self.fn, total, steps)

    def _step(self, group: int, column: int) -> Any:
        """The activations of a group of rows in a column of the input, loaded where they are first needed."""
        if (group, column) not in self.loaded:
            _, line, step, _ = self.writer.own
            first = self.fn.add(self.source, column * step)
            lines = [self.fn.add(first, number * line) for number in self.tiles.rows.groups[group]]
            rows = [self.writer.activations(position) for position in lines]
            unsigned = self.writer.x.dtype == "uint8"
            self.loaded[group, column] = self.tiles.product.step(self.fn, rows, unsigned)
        return self.loaded[group, column]
