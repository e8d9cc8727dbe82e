"""``prim.mac`` on AMX tiles: up to 2 x 16 pixels by 2 x 16 output channels, int8 products into int32.

:mod:`qimport.codegen.kernels.amx_tiling` says how. Weights are packed as tiles [channel pair][run block]
[plane][one or two channel tiles][bytes / 4][16][4]. Blocks follow one another: overlapping them in time gains
nothing, as tile products and vector instructions want the same execution ports.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir

from qimport.codegen.function import I8, I32, I64, Index, KernelFunction, index
from qimport.codegen.kernels import access, mac
from qimport.codegen.kernels.amx_panel import Panel
from qimport.codegen.kernels.amx_tiling import COLUMNS, PREFETCHED_BYTES, ROW_BYTES, Tiling, choose
from qimport.codegen.kernels.finish import Finisher
from qimport.codegen.tables import TableLayout
from qimport.codegen.target import Target
from qimport.errors import CompilerBug
from qimport.ir.graph import Array
from qimport.ir.types import INTEGER_RANGE
from qimport.lower.kernel import Kernel

SMALLEST_PIXELS, SMALLEST_BYTES = 4, 16
"""Below so many pixels, or activations per pixel, tiles are too empty to pay."""


def applies(kernel: Kernel) -> bool:
    """Packed weights, a zero point that fits into a byte, enough to fill tiles."""
    if mac.is_depthwise(kernel) or not mac.constant_weights(kernel) or not mac.multiplies_bytes(kernel):
        return False
    geo, (op, _, w, _) = mac.geometry(kernel), mac.root_of(kernel)
    if geo.runs * geo.run_length < SMALLEST_BYTES or op.weight_zero == INTEGER_RANGE[w.type.dtype][0]:
        return False
    return geo.images * geo.rows * geo.width >= SMALLEST_PIXELS and _choice(kernel) is not None


def _choice(kernel: Kernel) -> Tiling | None:
    return choose(mac.geometry(kernel), 2 if mac.needs_activation_sums(kernel) else 1)


def tiling(kernel: Kernel) -> Tiling:
    """How a kernel is cut."""
    found = _choice(kernel)
    if found is None:
        raise CompilerBug(f"{kernel.describe()} does not fit AMX tiles")
    return found


def pack(kernel: Kernel) -> bytes:
    """Weight tiles, bias, tile configuration.

    sum x (w - zero) = sum x w + sum x (-zero): the zero point is a second plane of equal weights.
    """
    tiles = tiling(kernel)
    unsigned = mac.root_of(kernel)[1].type.dtype == "uint8"
    matrix = mac.matrix(kernel, unsigned, subtract_zero=False)
    planes = [matrix.weights, np.full_like(matrix.weights, -matrix.zero)][: tiles.planes]
    weights = np.stack([_weight_tiles(tiles, plane) for plane in planes])
    pairs = (weights[:, first : first + 2] for first in range(0, tiles.column_tiles, 2))
    packed = b"".join(pair.transpose(3, 0, 1, 4, 2, 5).tobytes() for pair in pairs)
    bias = np.zeros(tiles.column_tiles * COLUMNS, np.int32)
    bias[: tiles.geometry.outputs] = matrix.bias
    return packed + bias.tobytes() + tiles.configuration


def _weight_tiles(tiles: Tiling, weights: Array) -> Array:
    """Weights [outputs, runs, run_length] as int8 [channel tile, channel, step, bytes / 4, 4].

    Zeros fill tiles up and hide what is loaded twice.
    """
    view, outputs = tiles.view, len(weights)
    if tiles.gathered:
        spaced = np.zeros((outputs, tiles.geometry.runs, tiles.panel_run), np.int8)
        spaced[:, :, : weights.shape[2]] = weights
        weights = spaced.reshape(outputs, 1, -1)[:, :, : view.run_length]
    rows = np.zeros((tiles.column_tiles * COLUMNS, view.runs, view.run_length), np.int8)
    rows[:outputs, :, : weights.shape[2]] = weights
    blocks = np.zeros((*rows.shape[:2], tiles.blocks_per_run, tiles.block_bytes), np.int8)
    for number in range(tiles.blocks_per_run):
        start, done = tiles.block_start(number), number * ROW_BYTES
        blocks[:, :, number, done - start :] = rows[:, :, done : start + tiles.block_bytes]
    return blocks.reshape(tiles.column_tiles, COLUMNS, tiles.steps, tiles.block_bytes // 4, 4)


def emit(module: Any, name: str, kernel: Kernel, target: Target, layout: TableLayout) -> Any:
    """One loop over all blocks."""
    fn = access.start(module, name, kernel, target)
    _AmxKernel(fn, kernel, target, layout).run()
    return fn.finish()


class _AmxKernel:
    """One function being written."""

    def __init__(self, fn: KernelFunction, kernel: Kernel, target: Target, layout: TableLayout) -> None:
        x = mac.root_of(kernel)[1]
        self.fn = fn
        self.tiles = tiling(kernel)
        self.geo, self.view = self.tiles.geometry, self.tiles.view
        self.x = access.pointer_to(fn, kernel, layout, x)
        self.panel = Panel(fn, self.x, self.tiles) if self.tiles.gathered else None
        self.product = "tdpbusd" if x.type.dtype == "uint8" else "tdpbssd"
        self.sums = mac.tile_memory(fn, self.tiles.block_rows * 2 * COLUMNS)
        self.table_bytes = layout.size
        self.finisher = Finisher(fn, kernel, target, layout)

    def _tile(self, name: str, *arguments: Any) -> None:
        values = [I8(a) if isinstance(a, int) else a for a in arguments]
        self.fn.intrinsic(f"llvm.x86.{name}", ir.VoidType(), values)

    def run(self) -> None:
        """All blocks, one after another."""
        fn, tiles = self.fn, self.tiles
        self._tile("ldtilecfg", fn.at(fn.tables, tiles.table_bytes - ROW_BYTES))
        pixels, channels = tiles.pixel_blocks, tiles.channel_blocks
        if tiles.channels_outside:
            self._gather_all()
            access.nest(fn, (channels, pixels), lambda block: self._block(block[1], block[0]))
        else:
            fn.loop(0, pixels, 1, self._all_channels)
        self._tile("tilerelease")

    def _gather_all(self) -> None:
        if self.panel is not None:
            self.fn.loop(0, self.tiles.pixel_blocks, 1, self._gather)

    def _all_channels(self, pixels: Index) -> None:
        if self.panel is not None:
            self._gather(pixels)
        self.fn.loop(0, self.tiles.channel_blocks, 1, lambda channels: self._block(pixels, channels))

    def _block(self, pixels: Index, channels: Index) -> None:
        """Multiply, store, finish."""
        activations, ahead = self._activations(pixels), self._ahead(pixels, channels)
        cut = self.tiles.column_tiles % 2 == 1

        def multiply(whole: bool) -> None:
            self._accumulate(activations, ahead, channels, 2 if whole else 1)

        self._last_channels(channels, cut, multiply)
        self._store()
        self._finish(pixels, channels)

    def _ahead(self, pixels: Index, channels: Index) -> Any:
        """Where this block fetches constants ahead: its share of what follows.

        That are weights of other channels, or the tables of the kernels that run next, which lie behind ours.
        """
        fn, tiles = self.fn, self.tiles
        if tiles.channels_outside:
            start, number = PREFETCHED_BYTES, fn.add(fn.mul(channels, tiles.pixel_blocks), pixels)
        else:
            start, number = self.table_bytes, fn.add(fn.mul(pixels, tiles.channel_blocks), channels)
        share = tiles.steps * tiles.prefetched_lines * ROW_BYTES
        return fn.b.gep(fn.tables, [index(fn.add(start, fn.mul(number, share)))], source_etype=I8)

    def _at_most(self, value: Index, most: int) -> Index:
        if isinstance(value, int):
            return min(value, most)
        return self.fn.intrinsic("llvm.umin.i64", I64, [value, index(most)])

    def _minus(self, a: Index, b: Index) -> Index:
        if isinstance(a, int) and isinstance(b, int):
            return a - b
        return self.fn.b.sub(index(a), index(b))

    def _positions(self, pixels: Index) -> tuple[Index, Index, Index]:
        """Image of a block, its first position, and its first position that no block before has."""
        tiles = self.tiles
        image, number = self.fn.divide(pixels, tiles.blocks_per_image)
        new = self.fn.mul(number, tiles.block_rows)
        return image, self._at_most(new, tiles.positions - tiles.block_rows), new

    def _gather(self, pixels: Index) -> None:
        """Copy the activations of a block of pixels into the panel."""
        assert self.panel is not None
        _, first, _ = self._positions(pixels)
        self.panel.fill(pixels if self.tiles.channels_outside else 0, first)

    def _activations(self, pixels: Index) -> list[Any]:
        """Address of each tile of activations of a block."""
        fn, tiles = self.fn, self.tiles
        if self.panel is not None:
            place = pixels if tiles.channels_outside else 0
            start = fn.at(self.panel.memory, fn.mul(place, self.panel.block_bytes))
        else:
            image, first, _ = self._positions(pixels)
            offset = fn.add(fn.mul(image, self.geo.image_step), fn.mul(first, self.geo.pixel_step))
            start = fn.at(self.x, offset)
        size = tiles.tile_rows * self.view.pixel_step
        return [fn.at(start, tile * size) for tile in range(tiles.pixel_tiles)]

    def _last_channels(self, channels: Index, cut: bool, body: Callable[[bool], None]) -> None:
        """``body(whole)`` for a block of channels; ``cut``: whether the last one differs from the others."""
        blocks = self.tiles.channel_blocks
        if not cut or isinstance(channels, int):
            body(not cut or channels < blocks - 1)
            return
        with self.fn.b.if_else(self.fn.b.icmp_unsigned("<", channels, index(blocks - 1))) as (whole, rest):
            with whole:
                body(True)
            with rest:
                body(False)

    def _accumulate(self, activations: list[Any], ahead: Any, channels: Index, columns: int) -> None:
        """All blocks of all runs; a step loads every tile before the first product."""
        fn, tiles, view = self.fn, self.tiles, self.view
        bias = fn.at(fn.tables, fn.add(tiles.weight_bytes, fn.mul(channels, 2 * ROW_BYTES)))
        weights = fn.at(fn.tables, fn.mul(channels, 2 * tiles.steps * tiles.planes * tiles.tile_bytes))
        for m in range(len(activations)):
            for n in range(columns):
                self._tile("tileloadd64", 2 * m + n, fn.at(bias, n * ROW_BYTES), I64(0))

        def step(place: list[Index]) -> None:
            row, column, block = place
            offset = fn.add(fn.mul(row, view.run_row_step), fn.mul(column, view.run_column_step))
            last = view.run_length - tiles.block_bytes
            offset = fn.add(offset, self._at_most(fn.mul(block, ROW_BYTES), last))
            number = fn.add(fn.mul(row, view.run_columns), column)
            number = fn.add(fn.mul(number, tiles.blocks_per_run), block)
            self._prefetch(ahead, number)
            for plane in range(tiles.planes):
                part = fn.add(fn.mul(number, tiles.planes), plane)
                here = fn.at(weights, fn.mul(part, columns * tiles.tile_bytes))
                for n in range(columns):
                    self._tile("tileloadd64", 6 + n, fn.at(here, n * tiles.tile_bytes), I64(ROW_BYTES))
                for m, x in enumerate(activations if plane == 0 else ()):
                    self._tile("tileloadd64", 4 + m, fn.at(x, offset), I64(view.pixel_step))
                for m in range(len(activations)):
                    for n in range(columns):
                        self._tile(self.product, 2 * m + n, 4 + m, 6 + n)

        access.nest(fn, (view.run_rows, view.run_columns, tiles.blocks_per_run), step)

    def _prefetch(self, ahead: Any, step: Index) -> None:
        """Fetch lines that are needed later into the second-level cache; this never faults."""
        fn, lines = self.fn, self.tiles.prefetched_lines
        for line in range(lines):
            offset = fn.add(fn.mul(step, lines * ROW_BYTES), line * ROW_BYTES)
            place = fn.b.gep(ahead, [index(offset)], source_etype=I8)
            fn.intrinsic("llvm.prefetch.p0", ir.VoidType(), [place, I32(0), I32(2), I32(1)])

    def _store(self) -> None:
        """Tiles of sums into memory, rows of two tiles next to each other."""
        stride = 2 * COLUMNS * 4
        for m in range(self.tiles.pixel_tiles):
            for n in range(min(2, self.tiles.column_tiles)):
                place = m * self.tiles.tile_rows * stride + n * ROW_BYTES
                self._tile("tilestored64", 2 * m + n, self.fn.at(self.sums, place), I64(stride))

    def _finish(self, pixels: Index, channels: Index) -> None:
        """Finish the sums of a block, each output pixel once."""
        fn, tiles = self.fn, self.tiles
        image, first, new = self._positions(pixels)
        end = fn.add(first, tiles.block_rows)
        if tiles.row_positions == self.geo.width:
            row, count = self._minus(new, first), self._minus(end, new)
            self._finish_pixels(row, fn.add(fn.mul(image, tiles.positions), new), count, channels)
            return
        width, distance = self.geo.width, tiles.row_positions
        top = fn.mul(image, self.geo.rows)

        def line(number: Any) -> None:
            start = fn.mul(number, distance)
            begin = fn.intrinsic("llvm.umax.i64", I64, [index(start), index(new)])
            stop = fn.intrinsic("llvm.umin.i64", I64, [index(fn.add(start, width)), index(end)])
            with fn.b.if_then(fn.b.icmp_unsigned("<", begin, stop)):
                pixel = fn.add(fn.mul(fn.add(top, number), width), self._minus(begin, start))
                self._finish_pixels(self._minus(begin, first), pixel, self._minus(stop, begin), channels)

        lines = [fn.divide(position, distance)[0] for position in (new, end)]
        fn.loop(index(lines[0]), fn.add(lines[1], 1), 1, line)

    def _finish_pixels(self, row: Index, pixel: Index, count: Index, channels: Index) -> None:
        """``count`` rows of sums from ``row`` on belong to consecutive output pixels."""
        fn = self.fn
        memory = fn.at(self.sums, fn.mul(row, 2 * COLUMNS * 4))
        channel, rest = fn.mul(channels, 2 * COLUMNS), self.geo.outputs % (2 * COLUMNS)

        def finish(whole: bool) -> None:
            self.finisher.finish(memory, 2 * COLUMNS, pixel, count, channel, 2 * COLUMNS if whole else rest)

        self._last_channels(channels, rest > 0, finish)
