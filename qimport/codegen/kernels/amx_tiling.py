"""How a ``prim.mac`` is cut into AMX tiles: which pixels share a tile, where a tile is read, in which order.

A *block* is up to two tiles of pixels by up to two tiles of channels; its sums stay in tiles while all runs
are walked. The rows of a tile of activations lie equally far apart: directly in the input, or in a *panel*, a
copy of the activations of a block in aligned rows that hold all runs of a pixel one after another.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

from qimport.codegen.kernels import mac

ROWS, COLUMNS, ROW_BYTES = 16, 16, 64
"""Tile rows (pixels), int32 columns (channels), bytes of a row."""

PANEL_BYTES = 56 * 1024
"""The largest panel: it lies on the stack, of which no function takes more than 64 KiB."""

CACHE_BYTES = 1024 * 1024
"""What is expected to stay in the second-level cache from one block to the next."""

STEP, STEP_OF_ONE_TILE, CROSSING = 84, 46, 40
"""Cycles of a step (measured): four products and their loads, two of them, and more where all rows of the
activations cross a cache line. Tiles with few rows are hardly faster."""

COPIED_PIXEL, COPIED_VECTOR = 10, 6
"""Cycles to copy the activations of a pixel into a panel (measured): to find it, and for each vector."""

PREFETCHED_BYTES, MOST_PREFETCHED_LINES, HEAVY_BYTES = 512 * 1024, 8, 64 * 1024
"""How far a kernel runs ahead of the constants that are read next, how many lines a step may fetch, and with
how many bytes of weights it begins to: the constants of small networks are in the cache anyway."""


@dataclass(frozen=True)
class Tiling:
    """The cut of a geometry; ``gathered`` when tiles are read from a panel.

    Activations are multiplied by ``planes`` sets of weights: a second one holds a zero point of the weights.
    Blocks are cut from *positions*, which are equally spaced pixels. In a panel these are the output pixels.
    In the input a row of output pixels is followed by positions that stand between it and the next row; these
    are computed with the others and dropped.
    """

    geometry: mac.Geometry
    planes: int
    gathered: bool

    @property
    def images(self) -> int:
        """Runs of positions; blocks do not reach over their ends."""
        return 1 if self.gathered else self.geometry.images

    @property
    def row_positions(self) -> int:
        """Positions from one row of output pixels to the next; 0 if that is no whole number."""
        geo = self.geometry
        if self.gathered or geo.rows == 1:
            return geo.width
        return 0 if geo.row_step % geo.pixel_step else geo.row_step // geo.pixel_step

    @property
    def positions(self) -> int:
        """Positions of one image."""
        geo = self.geometry
        if self.gathered:
            return geo.images * geo.rows * geo.width
        return (geo.rows - 1) * self.row_positions + geo.width

    @property
    def pixel_tiles(self) -> int:
        """Tiles of positions per block: one or two."""
        odd_block = self.positions < 2 * ROWS and self.positions % 2
        rows = -(-mac.balanced(self.positions, 2 * ROWS) // 2) * 2
        too_large = self.gathered and rows * self.view.pixel_step > PANEL_BYTES
        return 1 if self.positions <= ROWS or odd_block or too_large else 2

    @property
    def tile_rows(self) -> int:
        """Positions per tile."""
        return -(-mac.balanced(self.positions, self.pixel_tiles * ROWS) // self.pixel_tiles)

    @property
    def block_rows(self) -> int:
        """Positions per block. The last block of an image moves back instead of reaching beyond."""
        return self.pixel_tiles * self.tile_rows

    @property
    def blocks_per_image(self) -> int:
        """Blocks that cover one image."""
        return -(-self.positions // self.block_rows)

    @property
    def pixel_blocks(self) -> int:
        """Blocks that cover all pixels."""
        return self.images * self.blocks_per_image

    @property
    def column_tiles(self) -> int:
        """Tiles of 16 output channels."""
        return -(-self.geometry.outputs // COLUMNS)

    @property
    def channel_blocks(self) -> int:
        """Pairs of channel tiles; the last may be a single one."""
        return -(-self.column_tiles // 2)

    @property
    def view(self) -> mac.Geometry:
        """The geometry that tiles see: of the kernel, or of the rows of the panel."""
        geo = self.geometry
        if not self.gathered:
            return geo
        length = -(-((geo.runs - 1) * self.panel_run + geo.run_length) // ROW_BYTES) * ROW_BYTES
        row = length | ROW_BYTES  # an odd number of lines spreads rows over all sets of the cache
        one_run = {"run_rows": 1, "run_columns": 1, "run_length": length}
        return replace(geo, pixel_step=row, run_row_step=0, run_column_step=0, **one_run)

    @property
    def panel_run(self) -> int:
        """Bytes from run to run in a panel: whole lines if that leaves few of them empty."""
        length = self.geometry.run_length
        whole = -(-length // ROW_BYTES) * ROW_BYTES
        return whole if whole * 7 <= length * 8 else length

    @property
    def block_bytes(self) -> int:
        """Bytes of a tile row of activations."""
        return min(self.view.run_length, ROW_BYTES)

    @property
    def blocks_per_run(self) -> int:
        """Tiles along one run; the last moves back over its predecessor, where its weights are zero."""
        return -(-self.view.run_length // ROW_BYTES)

    def block_start(self, number: int) -> int:
        """First byte of a tile within its run."""
        return min(number * ROW_BYTES, self.view.run_length - self.block_bytes)

    @property
    def steps(self) -> int:
        """Tiles along all activations of a pixel."""
        return self.view.runs * self.blocks_per_run

    @property
    def tile_bytes(self) -> int:
        """Bytes of one packed weight tile."""
        return self.block_bytes // 4 * ROW_BYTES

    @property
    def weight_bytes(self) -> int:
        """Bytes of all packed weights."""
        return self.column_tiles * self.steps * self.planes * self.tile_bytes

    @property
    def table_bytes(self) -> int:
        """Bytes of weights, bias and the tile configuration."""
        return self.weight_bytes + self.column_tiles * ROW_BYTES + ROW_BYTES

    @property
    def channels_outside(self) -> bool:
        """Whether all pixels are walked for one pair of channel tiles after another.

        Weights that do not stay in the cache are then read once; activations are read for every pair.
        """
        if self.weight_bytes <= CACHE_BYTES or self.pixel_blocks == 1:
            return False
        if self.gathered:
            return self.pixel_blocks * self.block_rows * self.view.pixel_step <= PANEL_BYTES
        geo = self.geometry
        return geo.images * geo.rows * max(geo.row_step, geo.width * geo.pixel_step) <= CACHE_BYTES

    @property
    def prefetched_lines(self) -> int:
        """Cache lines of constants that each step fetches ahead."""
        if self.weight_bytes < HEAVY_BYTES:
            return 0
        ahead = self.weight_bytes if self.channels_outside else min(PREFETCHED_BYTES, 2 * self.weight_bytes)
        lines = -(-ahead // (ROW_BYTES * self.pixel_blocks * self.channel_blocks * self.steps))
        return min(lines, MOST_PREFETCHED_LINES * (2 if self.channels_outside else 1))

    @property
    def panel_blocks(self) -> int:
        """Blocks of pixels that are in the panel at a time."""
        return self.pixel_blocks if self.channels_outside else 1

    @property
    def possible(self) -> bool:
        """Whether positions are equally spaced, tile rows whole, and a panel not too large."""
        if self.gathered:
            return self.block_rows * self.view.pixel_step <= PANEL_BYTES
        whole_rows = self.geometry.run_length >= ROW_BYTES or self.geometry.run_length % 4 == 0
        return whole_rows and self.row_positions > 0

    @property
    def cycles(self) -> float:
        """Counted cost of products, their loads, and copies."""
        pairs, single = divmod(self.column_tiles, 2)
        full = STEP if self.pixel_tiles == 2 else STEP_OF_ONE_TILE
        step: float = self.planes * (full * pairs + STEP_OF_ONE_TILE * single)
        if not self.gathered:
            step *= 1 + CROSSING / STEP * self._crossing_rows()
            return self.pixel_blocks * self.steps * step
        geo = self.geometry
        vectors = geo.runs * -(-geo.run_length // ROW_BYTES)
        copied = self.block_rows * (COPIED_PIXEL + COPIED_VECTOR * vectors)
        return self.pixel_blocks * (self.steps * step + copied)

    def _crossing_rows(self) -> float:
        """Share of tile rows that cross a cache line, if the tensor starts at one."""
        view = self.view
        starts = [
            row * view.run_row_step + column * view.run_column_step + self.block_start(block)
            for row in range(view.run_rows)
            for column in range(view.run_columns)
            for block in range(self.blocks_per_run)
        ]
        places = [(start + pixel * view.pixel_step) % ROW_BYTES for start in starts for pixel in range(ROWS)]
        return sum(place + self.block_bytes > ROW_BYTES for place in places) / len(places)

    @property
    def configuration(self) -> bytes:
        """Palette 1: tiles 0-3 are sums, 4-5 activations, 6-7 weights."""
        data = bytearray(ROW_BYTES)
        data[0] = 1
        shapes = [(self.tile_rows, ROW_BYTES)] * 4
        shapes += [(self.tile_rows, self.block_bytes)] * 2
        shapes += [(self.block_bytes // 4, ROW_BYTES)] * 2
        for tile, (rows, row_bytes) in enumerate(shapes):
            data[16 + 2 * tile : 18 + 2 * tile] = row_bytes.to_bytes(2, "little")
            data[48 + tile] = rows
        return bytes(data)


@functools.cache
def choose(geometry: mac.Geometry, planes: int) -> Tiling | None:
    """The cheapest way to cut a geometry; None if there is none."""
    ways = [Tiling(geometry, planes, gathered) for gathered in (False, True)]
    return min((way for way in ways if way.possible), key=lambda way: way.cycles, default=None)
