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
    """Rows of tiles outside; then blocks of channels around tiles, so that their weights stay in registers.

    Weights that do not fit are loaded for every tile, in the other order: LLVM would move these loads out of
    the loop over tiles, to the stack. The result may seem to alias the operands: LLVM would otherwise load
    the activations of a whole tile at once, and have no registers left for its weights.
    """
    fn = KernelFunction(module, name, len(kernel.graph.inputs), target, in_place=True)
    tiles = tiles_of(kernel, product)
    writer = _TileKernel(fn, kernel, target, layout, tiles)
    images, height, width, outputs = kernel.root.outputs[0].type.shape

    def channels(body: Callable[[Index], None]) -> None:
        fn.loop(0, outputs, CHANNELS, body)

    def columns(body: Callable[[Index], None]) -> None:
        fn.overlapping(width, tiles.size[1], body)

    def rows(image: Index, row: Index) -> None:
        def along(channel: Index) -> None:
            weight, bias = writer.weights(channel), writer.bias(channel)
            columns(lambda column: _Tile(writer, (image, row, column), channel, weight).emit(bias))

        def tile(channel: Index, column: Index) -> None:
            place = (image, row, column)
            _Tile(writer, place, channel, writer.weights(channel)).emit(writer.bias(channel))

        if tiles.resident:
            channels(along)
        else:
            columns(lambda column: channels(lambda channel: tile(channel, column)))

    fn.loop(0, images, 1, lambda image: fn.overlapping(height, tiles.size[0], lambda row: rows(image, row)))
    return fn.finish()


Weight = Callable[[int], Any]


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
        """Gives weights of a block of channels by pattern; resident ones are loaded now."""
        fn, tiles = self.fn, self.tiles
        element = ELEMENTS[tiles.product.dtype]
        type_ = vector_type(element, CHANNELS * tiles.product.group)
        size = type_.count * element.width // 8
        block = fn.at(fn.tables, fn.mul(channel, self.block_bytes // CHANNELS))

        def load(pattern: int) -> Any:
            return fn.load(fn.at(block, pattern * size), type_, 8)

        if not tiles.resident:
            return load
        return [load(pattern) for pattern in range(len(tiles.patterns))].__getitem__

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
        self.pixels = [fn.add(first, row * writer.pixels[1] + column) for row, column in tiles.pixels]
        self.loaded: dict[tuple[tuple[int, int], ...], Any] = {}

    def emit(self, bias: Any) -> None:
        """All its sums and results."""
        wide = self.writer.bias_type.dtype == "int64"
        start = constant(vector_type(I32, CHANNELS), 0) if wide else bias
        all_sums = [] if self.tiles.resident else self._step_by_step(start)
        for number in range(0, len(self.pixels), FINISHED_TOGETHER):
            part = slice(number, number + FINISHED_TOGETHER)
            sums = all_sums[part] or [self._summed(start, pixel) for pixel in self.tiles.pixels[part]]
            if wide:
                sums = [self.fn.b.add(self.fn.b.sext(total, bias.type), bias) for total in sums]
            self.writer.finisher.store_pixels(sums, self.pixels[part], self.channel, CHANNELS)

    def _step_by_step(self, start: Any) -> list[Any]:
        """The sums of all pixels, some steps of every pixel at a time."""
        sums = [start] * len(self.pixels)
        most = max(len(self.tiles.steps(*pixel)) for pixel in self.tiles.pixels)
        for first in range(0, most, STEPS_TOGETHER):
            part = slice(first, first + STEPS_TOGETHER)
            sums = [self._summed(*pixel, part) for pixel in zip(sums, self.tiles.pixels, strict=True)]
        return sums

    def _summed(self, total: Any, pixel: tuple[int, int], part: slice = slice(None)) -> Any:
        """``total`` and some of the steps of a pixel (row and column in the tile)."""
        steps: Sequence[tuple[Any, Any]] = [
            (self._activations(step.reads), self.weight(self.tiles.patterns[step.taps]))
            for step in self.tiles.steps(*pixel)[part]
        ]
        return self.tiles.product.total(self.fn, total, steps)

    def _activations(self, reads: tuple[tuple[int, int], ...]) -> Any:
        """The activations of a step, loaded where they are first needed."""
        if reads not in self.loaded:
            strides = self.writer.own[1:3]
            places = [self.fn.add(self.source, access.offset(self.fn, read, strides)) for read in reads]
            taken = [self.writer.activations(position) for position in places]
            unsigned = self.writer.x.dtype == "uint8"
            self.loaded[reads] = self.tiles.product.step(self.fn, taken, unsigned)
        return self.loaded[reads]
