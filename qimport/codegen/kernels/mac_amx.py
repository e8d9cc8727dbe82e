"""``prim.mac`` on AMX tiles: up to 2 x 16 pixels by 2 x 16 output channels, int8 products into int32.

Activations are tile rows read in place (a row is one pixel, its bytes one run of the input); weights
are packed as tiles [channels / 16][run block][bytes / 4][16][4]. Pixels are cut into equal segments;
the last one moves back over its predecessor instead of reading past the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from llvmlite import ir

from qimport.codegen.function import I8, I64, Index, KernelFunction, index
from qimport.codegen.kernels import access, mac
from qimport.codegen.tables import TableLayout
from qimport.codegen.target import Target
from qimport.lower.kernel import Kernel

ROWS, COLUMNS, ROW_BYTES = 16, 16, 64
"""Tile rows (pixels), int32 columns (channels), bytes of a row."""

SMALLEST_BLOCK = 16
"""Run bytes per tile below which tiles are too empty to pay."""


@dataclass(frozen=True)
class Tiling:
    """``block`` run bytes per tile; ``segment`` pixels per tile, ``segments`` of them per row of pixels."""

    geometry: mac.Geometry
    block: int
    segment: int
    segments: int

    @property
    def column_tiles(self) -> int:
        """Tiles of 16 output channels, an even number."""
        return -(-self.geometry.outputs // (2 * COLUMNS)) * 2

    @property
    def blocks(self) -> int:
        """Tiles along one pixel's activations."""
        return self.geometry.runs * self.geometry.run_length // self.block

    @property
    def tile_bytes(self) -> int:
        """Bytes of one packed weight tile."""
        return self.block // 4 * ROW_BYTES

    @property
    def weight_bytes(self) -> int:
        """Bytes of all packed weights."""
        return self.column_tiles * self.blocks * self.tile_bytes

    @property
    def table_bytes(self) -> int:
        """Bytes of weights, bias tiles and the tile configuration."""
        return self.weight_bytes + self.column_tiles * ROWS * ROW_BYTES + 64

    @property
    def configuration(self) -> bytes:
        """Palette 1: tiles 0-3 are sums, 4-5 activations, 6-7 weights."""
        data = bytearray(64)
        data[0] = 1
        shapes = (
            [(self.segment, ROW_BYTES)] * 4
            + [(self.segment, self.block)] * 2
            + [(self.block // 4, ROW_BYTES)] * 2
        )
        for tile, (rows, row_bytes) in enumerate(shapes):
            data[16 + 2 * tile : 18 + 2 * tile] = row_bytes.to_bytes(2, "little")
            data[48 + tile] = rows
        return bytes(data)


def applies(kernel: Kernel) -> bool:
    """Runs that cut into tiles, weights without zero point, no pixel computed twice in place."""
    if mac.is_depthwise(kernel) or not mac.constant_weights(kernel) or not mac.multiplies_bytes(kernel):
        return False
    if mac.needs_activation_sums(kernel):
        return False
    geo = mac.geometry(kernel)
    exact = geo.width % _segment(kernel, geo) == 0
    return _block(geo) >= SMALLEST_BLOCK and (exact or not kernel.in_place) and geo.width * geo.rows >= 4


def _block(geo: mac.Geometry) -> int:
    """The largest multiple of four bytes, at most 64, that divides a run; 0 if there is none."""
    return max((size for size in range(4, ROW_BYTES + 1, 4) if geo.run_length % size == 0), default=0)


def _segment(kernel: Kernel, geo: mac.Geometry) -> int:
    if kernel.in_place:
        return max(size for size in range(1, ROWS + 1) if geo.width % size == 0)
    return mac.balanced(geo.width, ROWS)


def tiling(kernel: Kernel) -> Tiling:
    """How a kernel is cut."""
    geo = mac.geometry(kernel)
    segment = _segment(kernel, geo)
    return Tiling(geo, _block(geo), segment, -(-geo.width // segment))


def pack(kernel: Kernel) -> bytes:
    """Weight tiles, bias tiles (every row the same), tile configuration."""
    tiles = tiling(kernel)
    unsigned = mac.root_of(kernel)[1].type.dtype == "uint8"
    matrix = mac.matrix(kernel, unsigned, subtract_zero=False)
    outputs = tiles.geometry.outputs
    padded = np.zeros((tiles.column_tiles * COLUMNS, tiles.blocks * tiles.block), np.int8)
    padded[:outputs] = matrix.weights.reshape(outputs, -1)
    steps = padded.reshape(tiles.column_tiles, COLUMNS, tiles.blocks, tiles.block // 4, 4)
    bias = np.zeros(tiles.column_tiles * COLUMNS, np.int32)
    bias[:outputs] = matrix.bias
    rows = np.repeat(bias.reshape(-1, 1, COLUMNS), ROWS, axis=1)
    weights: bytes = steps.transpose(0, 2, 3, 1, 4).tobytes()
    return weights + rows.tobytes() + tiles.configuration


def emit(module: Any, name: str, kernel: Kernel, target: Target, layout: TableLayout) -> Any:
    """Pairs of pixel segments outside, pairs of channel tiles inside."""
    fn = access.start(module, name, kernel, target)
    _AmxKernel(fn, kernel, target, layout).run()
    return fn.finish()


class _AmxKernel:
    """One function being written."""

    def __init__(self, fn: KernelFunction, kernel: Kernel, target: Target, layout: TableLayout) -> None:
        x = mac.root_of(kernel)[1]
        self.fn = fn
        self.tiles = tiling(kernel)
        self.geo = self.tiles.geometry
        self.x = access.pointer_to(fn, kernel, layout, x)
        self.product = "tdpbusd" if x.type.dtype == "uint8" else "tdpbssd"
        self.sums = mac.tile_memory(fn, 2 * ROWS * 2 * COLUMNS)
        self.finisher = mac.Finisher(fn, kernel, target, layout)

    def _tile(self, name: str, *arguments: Any) -> None:
        values = [I8(a) if isinstance(a, int) else a for a in arguments]
        self.fn.intrinsic(f"llvm.x86.{name}", ir.VoidType(), values)

    def run(self) -> None:
        """Configure, compute, release."""
        configuration = self.tiles.table_bytes - 64
        self._tile("ldtilecfg", self.fn.at(self.fn.tables, configuration))
        count = self.geo.images * self.geo.rows * self.tiles.segments
        pairs = count - count % 2
        self.fn.loop(0, pairs, 2, lambda number: self._segments(number, 2))
        if count % 2:
            self._segments(count - 1, 1)
        self._tile("tilerelease")

    def _segments(self, number: Index, count: int) -> None:
        """``count`` pixel segments from ``number`` on, for all channels."""
        places = [self._place(self.fn.add(number, i)) for i in range(count)]
        whole = self.geo.outputs // (2 * COLUMNS)
        self.fn.loop(0, whole, 1, lambda pair: self._channels(places, pair, 2 * COLUMNS))
        rest = self.geo.outputs - whole * 2 * COLUMNS
        if rest:
            self._channels(places, whole, rest)

    def _place(self, number: Index) -> tuple[Any, Index]:
        """Address of a segment's first activation, and its first output pixel."""
        fn, geo, segments = self.fn, self.geo, self.tiles.segments
        line, part = self._divide(number, segments)
        image, row = self._divide(line, geo.rows)
        column = fn.mul(part, self.tiles.segment)
        last = geo.width - self.tiles.segment
        if isinstance(column, int):
            column = min(column, last)
        elif geo.width % self.tiles.segment:
            column = fn.intrinsic("llvm.smin.i64", I64, [column, index(last)])
        offset = fn.add(fn.mul(image, geo.image_step), fn.mul(row, geo.row_step))
        offset = fn.add(offset, fn.mul(column, geo.pixel_step))
        return fn.at(self.x, offset), fn.add(fn.mul(line, geo.width), column)

    def _divide(self, number: Index, by: int) -> tuple[Index, Index]:
        if by == 1:
            return number, 0
        if isinstance(number, int):
            return divmod(number, by)
        return self.fn.b.udiv(number, index(by)), self.fn.b.urem(number, index(by))

    def _channels(self, places: list[tuple[Any, Index]], pair: Index, count: int) -> None:
        """Two tiles of channels for the given segments, then their elementwise nodes."""
        fn, tiles, stride = self.fn, self.tiles, 2 * COLUMNS * 4
        bias = fn.at(fn.tables, fn.add(tiles.weight_bytes, fn.mul(pair, 2 * ROWS * ROW_BYTES)))
        weights = fn.at(fn.tables, fn.mul(pair, 2 * tiles.blocks * tiles.tile_bytes))
        for m in range(len(places)):
            for n in (0, 1):
                self._tile("tileloadd64", 2 * m + n, fn.at(bias, n * ROWS * ROW_BYTES), I64(ROW_BYTES))
        self._accumulate([x for x, _ in places], weights)
        for m, (_, pixel) in enumerate(places):
            memory = fn.at(self.sums, m * ROWS * stride)
            for n in (0, 1):
                self._tile("tilestored64", 2 * m + n, fn.at(memory, n * ROW_BYTES), I64(stride))
            self.finisher.finish(memory, 2 * COLUMNS, pixel, tiles.segment, fn.mul(pair, 2 * COLUMNS), count)

    def _accumulate(self, activations: list[Any], weights: Any) -> None:
        """All blocks of all runs; a step loads every tile before the first product."""
        fn, geo, tiles = self.fn, self.geo, self.tiles
        per_run = geo.run_length // tiles.block
        next_column = tiles.blocks * tiles.tile_bytes

        def step(row: Index, column: Index, block: Index) -> None:
            offset = fn.add(fn.mul(row, geo.run_row_step), fn.mul(column, geo.run_column_step))
            offset = fn.add(offset, fn.mul(block, tiles.block))
            number = fn.add(fn.mul(fn.add(fn.mul(row, geo.run_columns), column), per_run), block)
            here = fn.at(weights, fn.mul(number, tiles.tile_bytes))
            for m, x in enumerate(activations):
                self._tile("tileloadd64", 4 + m, fn.at(x, offset), I64(geo.pixel_step))
            for n in (0, 1):
                self._tile("tileloadd64", 6 + n, fn.at(here, n * next_column), I64(ROW_BYTES))
            for m in range(len(activations)):
                for n in (0, 1):
                    self._tile(self.product, 2 * m + n, 4 + m, 6 + n)

        access.nest(fn, (geo.run_rows, geo.run_columns, per_run), lambda place: step(*place))
