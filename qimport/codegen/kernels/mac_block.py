"""``prim.mac`` of bytes on blocks: a panel of pixels, walked for one block of output channels after another.

All activations go through a :class:`~qimport.codegen.kernels.block_panel.BlockPanel`, so that the inner loop
reads two streams, activations and weights, in the order in which they lie in memory. That costs two
instructions per 16 activations, once for all channels, and saves more than that in the loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from qimport.codegen.function import I64, Index, KernelFunction, index
from qimport.codegen.isa import blocks
from qimport.codegen.isa.blocks import CHANNELS, REGISTER_BYTES, REGISTERS, BlockProduct
from qimport.codegen.kernels import access, mac
from qimport.codegen.kernels.block_panel import BlockPanel, least_memory, tile_bytes
from qimport.codegen.kernels.finish import Finisher
from qimport.codegen.tables import TableLayout
from qimport.codegen.target import Target
from qimport.ir.graph import Array
from qimport.lower.kernel import Kernel

PANEL_BYTES, MOST_PANEL_BYTES = 16 * 1024, 48 * 1024
"""What tiles of a panel take together, to stay in the first cache beside the weights, and one at most."""

MOST_PIXELS, MOST_VECTORS = 12, 8
"""Pixels and vectors of channels of the largest tile."""

LOOP, TILE = 4, 12
"""Instructions around a step of the inner loop, and around a tile."""

FINISH, STORE = 8, 4
"""Instructions that make bytes of a vector of sums, and that store what fills a register or a part of it."""

UNROLLED_BYTES = 16
"""Bytes of a pixel in a round of the inner loop."""


@dataclass(frozen=True)
class Tiling:
    """Tiles of ``pixels`` by ``vectors`` of four channels, and how many of them are in a panel."""

    block: BlockProduct
    geometry: mac.Geometry
    pixels: int
    vectors: int

    @property
    def length(self) -> int:
        """Activations of a pixel."""
        return self.geometry.runs * self.geometry.run_length

    @property
    def all_pixels(self) -> int:
        """Output pixels of all images."""
        return self.geometry.images * self.geometry.rows * self.geometry.width

    @property
    def channel_vectors(self) -> int:
        """Vectors that hold all output channels."""
        return -(-self.geometry.outputs // CHANNELS)

    @property
    def panel_tiles(self) -> int:
        """Tiles in a panel."""
        fitting = PANEL_BYTES // tile_bytes(self.length, self.block, self.pixels)
        return max(1, min(fitting, self.all_pixels // self.pixels))

    @property
    def channel_bytes(self) -> int:
        """Bytes of the weights of a channel."""
        return self.block.padded(self.length)

    @property
    def weight_bytes(self) -> int:
        """Bytes of all packed weights."""
        return mac.align(self.channel_vectors * CHANNELS * self.channel_bytes)

    @property
    def table_bytes(self) -> int:
        """Bytes of weights and bias."""
        return self.weight_bytes + mac.align(
            self.block.vector_registers(self.channel_vectors) * REGISTER_BYTES
        )

    @property
    def instructions(self) -> float:
        """What all tiles take, roughly."""
        units = self.channel_bytes / self.block.unit
        return sum(
            tiles * rows * (units * self._step(pixels, vectors) + TILE + pixels * _finish(vectors))
            for pixels, tiles in _parts(self.all_pixels, self.pixels)
            for vectors, rows in _parts(self.channel_vectors, self.vectors)
        )

    def _step(self, pixels: int, vectors: int) -> float:
        """Instructions of a unit of a tile: products, loads by pairs, the loop."""
        block = self.block
        weights = vectors * CHANNELS * block.unit / REGISTER_BYTES / 2
        products = block.sum_registers(pixels, vectors) * block.instructions
        inputs = block.input_registers(pixels) / 2 + pixels * block.turns
        return products + weights + inputs + LOOP * block.unit / UNROLLED_BYTES


def _finish(vectors: int) -> int:
    """Instructions after the sums of a pixel: whole registers of bytes, then ever smaller parts of one."""
    return FINISH * vectors + STORE * (vectors // 4 + (vectors % 4).bit_count())


def _parts(extent: int, size: int) -> Iterator[tuple[int, int]]:
    """Sizes and numbers of the parts that ``extent`` is cut into."""
    whole, rest = divmod(extent, size)
    yield size, whole
    if rest:
        yield rest, 1


def tiling(kernel: Kernel, block: BlockProduct) -> Tiling:
    """The cheapest tile whose sums, activations and weights in flight have registers."""
    geo = mac.geometry(kernel)
    tiles = [
        Tiling(block, geo, pixels, vectors)
        for pixels in range(1, MOST_PIXELS + 1)
        for vectors in range(1, MOST_VECTORS + 1)
        if block.registers(pixels, vectors) <= REGISTERS
    ]
    fitting = [t for t in tiles if t.pixels <= t.all_pixels and t.vectors <= t.channel_vectors]
    small = [t for t in fitting if least_memory(geo, block, t.pixels) <= MOST_PANEL_BYTES]
    return min(small, key=lambda tiles: tiles.instructions)


def applies(kernel: Kernel, block: BlockProduct) -> bool:
    """Constant weights of bytes that are exact, of pixels that have room on the stack."""
    if not (mac.constant_weights(kernel) and mac.multiplies_bytes(kernel)):
        return False
    if least_memory(mac.geometry(kernel), block, 1) > MOST_PANEL_BYTES:
        return False
    return block.fits(_weights(kernel, block)[0])


def _weights(kernel: Kernel, block: BlockProduct) -> tuple[Array, Array]:
    """int8[outputs, bytes] and int32[outputs], both filled up with zeros."""
    matrix = mac.matrix(kernel, unsigned=False, subtract_zero=False)
    geo = mac.geometry(kernel)
    outputs, length = geo.outputs, geo.runs * geo.run_length
    channels = -(-outputs // CHANNELS) * CHANNELS
    weights = np.zeros((channels, block.padded(length)), np.int8)
    weights[:outputs, :length] = matrix.weights.reshape(outputs, length)
    bias = np.zeros(channels, np.int32)
    bias[:outputs] = matrix.bias
    return weights, bias


def table_bytes(kernel: Kernel, block: BlockProduct) -> int:
    """Bytes of weights and bias."""
    return tiling(kernel, block).table_bytes


def pack(kernel: Kernel, block: BlockProduct) -> bytes:
    """Weights in the order they are read, then the corrected bias."""
    tiles = tiling(kernel, block)
    weights, bias = _weights(kernel, block)
    step = tiles.vectors * CHANNELS
    packed = b"".join(block.pack(weights[start : start + step]) for start in range(0, len(weights), step))
    return packed.ljust(tiles.weight_bytes, b"\0") + blocks.packed_bias(block, bias)


def emit(
    module: Any, name: str, kernel: Kernel, target: Target, layout: TableLayout, block: BlockProduct
) -> Any:
    """Panels of pixels outside, then blocks of channels, whose weights stay in cache for all tiles."""
    fn = access.start(module, name, kernel, target)
    _BlockKernel(fn, kernel, target, layout, tiling(kernel, block)).run()
    return fn.finish()


class _BlockKernel:
    """One function being written."""

    def __init__(
        self, fn: KernelFunction, kernel: Kernel, target: Target, layout: TableLayout, tiles: Tiling
    ) -> None:
        op, x, w, _ = mac.root_of(kernel)
        self.fn, self.tiles, self.block, self.outputs = fn, tiles, tiles.block, tiles.geometry.outputs
        pointer = access.pointer_to(fn, kernel, layout, x)
        zero = op.weight_zero - (128 if w.type.dtype == "uint8" else 0)
        shape, flip = (tiles.pixels, tiles.panel_tiles), mac.flip(kernel, unsigned=False)
        self.panel = BlockPanel(fn, pointer, tiles.geometry, tiles.block, *shape, flip, zero)
        self.sums = mac.tile_memory(fn, tiles.pixels * tiles.vectors * CHANNELS)
        self.finisher = Finisher(fn, kernel, target, layout)

    def run(self) -> None:
        """All panels of whole tiles, then the pixels that fill none."""
        fn, pixels, together = self.fn, self.tiles.pixels, self.tiles.panel_tiles
        whole = self.tiles.all_pixels // pixels

        def panel(first: Index, *position: Any) -> list[Any]:
            count: Index = together
            if whole % together:
                left = fn.b.sub(index(whole), index(first))
                count = fn.intrinsic("llvm.smin.i64", I64, [index(together), left])
            following = self.panel.fill(count, pixels, position)
            self._all_channels(fn.mul(first, pixels), count, pixels)
            return following

        position = fn.loop(0, whole, together, panel, self.panel.start())
        if rest := self.tiles.all_pixels % pixels:
            self.panel.fill(1, rest, position)
            self._all_channels(whole * pixels, 1, rest)

    def _all_channels(self, first: Index, count: Index, pixels: int) -> None:
        """``count`` tiles in the panel, from output pixel ``first`` on."""
        channels = self.tiles.vectors * CHANNELS
        whole, rest = divmod(self.outputs, channels)
        self.fn.loop(0, whole, 1, lambda number: self._channels(number, channels, first, count, pixels))
        if rest:
            self._channels(whole, rest, first, count, pixels)

    def _channels(self, number: Index, outputs: int, first: Index, count: Index, pixels: int) -> None:
        """Block ``number`` of channels, of which it has ``outputs``."""
        fn, vectors = self.fn, -(-outputs // CHANNELS)
        channel = fn.mul(number, self.tiles.vectors * CHANNELS)
        bias = fn.add(self.tiles.weight_bytes, fn.mul(channel, 4 * self.block.tile_pixels))

        def tile(place: Index) -> None:
            start = self._start(fn.at(fn.tables, bias), place, pixels, vectors)
            weights = fn.at(blocks.reloaded(fn, fn.tables), fn.mul(channel, self.tiles.channel_bytes))
            sums = self._multiply(place, weights, start, pixels, vectors)
            pixel = fn.add(first, fn.mul(place, pixels))
            if self.finisher.takes_registers:
                rows = [sums[start : start + vectors] for start in range(0, len(sums), vectors)]
                self.finisher.finish_registers(rows, pixel, channel, outputs)
                return
            for slot, total in enumerate(sums):
                fn.store(total, fn.at(self.sums, slot * REGISTER_BYTES), REGISTER_BYTES)
            self.finisher.finish(self.sums, vectors * CHANNELS, pixel, pixels, channel, outputs)

        fn.loop(0, count, 1, tile)

    def _start(self, bias: Any, tile: Index, pixels: int, vectors: int) -> list[Any]:
        """The bias, less what the activations of a pixel owe to the zero point of the weights.

        It is loaded for every pixel: that takes half the instructions of copies.
        """
        fn, block = self.fn, self.block
        count, start = block.vector_registers(vectors), []
        for pixel in range(0, pixels, block.tile_pixels):
            bias = blocks.reloaded(fn, bias)
            row = [
                fn.load(fn.at(bias, i * REGISTER_BYTES), blocks.SUMS, REGISTER_BYTES) for i in range(count)
            ]
            if self.panel.owed is not None:
                owed = self.panel.owed_by(tile, pixel, pixels)
                row = [fn.b.add(total, owed) for total in row]
            start += row
        return start

    def _multiply(
        self, tile: Index, weights: Any, start: Sequence[Any], pixels: int, vectors: int
    ) -> list[Any]:
        """The sums [pixel][vector] of a tile."""
        fn, block = self.fn, self.block
        x = fn.at(self.panel.memory, fn.mul(tile, self.panel.tile_bytes))
        whole, rest = divmod(self.tiles.channel_bytes, block.unit)
        unroll = UNROLLED_BYTES // block.unit

        def unit(number: Index, depth: int, sums: Sequence[Any]) -> list[Any]:
            here = fn.at(weights, fn.mul(number, vectors * CHANNELS * block.unit))
            inputs = [blocks.after(fn, value, sums[-1:]) for value in self._inputs(x, number, pixels)]
            return block.emit(fn, list(sums), inputs, here, vectors, depth)

        def several(number: Index, *sums: Any) -> list[Any]:
            for following in range(unroll):
                sums = tuple(unit(fn.add(fn.mul(number, unroll), following), block.unit, sums))
            return list(sums)

        sums = fn.loop(0, whole // unroll, 1, several, start)
        for number in range(whole // unroll * unroll, whole):
            sums = unit(number, block.unit, sums)
        if rest:
            sums = unit(whole, rest, sums)
        return blocks.unzipped(fn, block, list(sums), pixels, vectors)

    def _inputs(self, x: Any, number: Index, pixels: int) -> list[Any]:
        """Unit ``number`` of all pixels, in registers."""
        fn, block = self.fn, self.block
        count = block.input_registers(pixels)
        here = fn.at(x, fn.mul(number, count * REGISTER_BYTES))
        return [fn.load(fn.at(here, i * REGISTER_BYTES), blocks.BYTES, REGISTER_BYTES) for i in range(count)]
