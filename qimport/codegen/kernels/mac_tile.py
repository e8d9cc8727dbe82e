"""``prim.mac`` on register tiles: a few pixels by a few vectors of output channels, any dot-product step.

Weights are packed per block of output channels as [run][group of 4 bytes][vector] and then as the
dot product wants them; activations are read four bytes at a time, in place or from a copy
(:class:`Panel`) that has what the dot product takes. Sums of 64 bits are made of sums of 32 bits over pieces
that cannot overflow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from llvmlite import ir

from qimport.codegen.function import ELEMENTS, I32, I64, Index, KernelFunction, itemsize
from qimport.codegen.isa.dot import DOT_PRODUCTS, WORD_BYTES, DotProduct
from qimport.codegen.kernels import access, mac
from qimport.codegen.kernels.finish import Finisher
from qimport.codegen.kernels.panel import Panel, row_elements
from qimport.codegen.tables import TableLayout
from qimport.codegen.target import Target
from qimport.codegen.vector import constant, vector_type
from qimport.ir.types import DTYPES
from qimport.lower.kernel import Kernel

MOST_PIXELS, MOST_VECTORS = 12, 4
"""Pixels and vectors of output channels of the largest tile."""

LATENCY = 5
"""Cycles until the next product can be added to a sum."""

WEIGHT_BYTES_PER_CYCLE = 32
"""What the second cache delivers."""

PANEL_BYTES = 24 * 1024
"""Activations of a tile that stay in the first cache beside the weights."""

PIECE = 256
"""Products of 16-bit activations and 9-bit weights whose sum fits into 32 bits."""


@dataclass(frozen=True)
class Tiling:
    """How outputs are cut: ``vectors`` per channel block (the last may have fewer), ``pixels`` per tile."""

    dot: DotProduct
    geometry: mac.Geometry
    vectors: int
    pixels: int

    @property
    def groups(self) -> int:
        """Groups of four bytes per run, the last one possibly incomplete."""
        return -(-self.geometry.run_length // self.dot.group)

    @property
    def vector_bytes(self) -> int:
        """Weight bytes of one vector of lanes in one group."""
        return self.dot.lanes * self.dot.group * int(np.dtype(DTYPES[self.dot.weight_dtype][1]).itemsize)

    @property
    def channel_vectors(self) -> int:
        """Vectors that hold all output channels."""
        return -(-self.geometry.outputs // self.dot.lanes)

    @property
    def weight_bytes(self) -> int:
        """Bytes of all packed weights."""
        return mac.align(self.channel_vectors * self.geometry.runs * self.groups * self.vector_bytes)


def tiling(kernel: Kernel, dot: DotProduct) -> Tiling:
    """The cheapest tile by :func:`_cycles`, the one with most vectors of several."""
    geo, sums = mac.geometry(kernel), mac.needs_activation_sums(kernel)
    most = mac.balanced(-(-geo.outputs // dot.lanes), min(MOST_VECTORS, dot.registers // 3))
    tiles = [Tiling(dot, geo, v, _pixels(geo, dot, v, sums)) for v in range(most, 0, -1)]
    return min(tiles, key=_cycles)


def _pixels(geo: mac.Geometry, dot: DotProduct, vectors: int, sums: bool) -> int:
    """Pixels whose sums for ``vectors`` vectors fit into registers, and whose activations into a panel."""
    most = max(1, min(MOST_PIXELS, (dot.registers - vectors - 1) // (vectors + sums)))
    while most > 1 and _panel_bytes(geo, dot, most) > PANEL_BYTES:
        most -= 1
    return mac.balanced(geo.width, most)


def _panel_bytes(geo: mac.Geometry, dot: DotProduct, pixels: int) -> int:
    """What a copy of the activations of ``pixels`` neighbouring pixels takes."""
    return row_elements(geo, pixels) * geo.run_rows * WORD_BYTES // dot.group


def _cycles(tiles: Tiling) -> float:
    """Roughly the time of one step of all sums of a row of pixels, where weights come from the second cache.

    Two products per cycle, or one where it takes two instructions, :data:`WEIGHT_BYTES_PER_CYCLE`, and
    sums that wait for their predecessors; activations are loaded meanwhile, but not for nothing.
    """
    product, weights = 2 / tiles.dot.group, tiles.vector_bytes / WEIGHT_BYTES_PER_CYCLE
    return sum(
        rows * blocks * (max(pixels * vectors * product, vectors * weights, LATENCY) + pixels / 4)
        for pixels, rows in _parts(tiles.geometry.width, tiles.pixels)
        for vectors, blocks in _parts(tiles.channel_vectors, tiles.vectors)
    )


def _parts(extent: int, size: int) -> list[tuple[int, int]]:
    """Sizes and numbers of the parts that ``extent`` is cut into."""
    whole, rest = divmod(extent, size)
    return [(size, whole), *([(rest, 1)] if rest else [])]


def applies(kernel: Kernel, dot: DotProduct) -> bool:
    """Weights in the file, and operands of the widths that are multiplied."""
    fits = mac.multiplies_bytes if dot in DOT_PRODUCTS else mac.multiplies_words_by_bytes
    return mac.constant_weights(kernel) and fits(kernel)


def table_bytes(kernel: Kernel, dot: DotProduct) -> int:
    """Bytes of weights and bias."""
    tiles, (_, _, _, bias) = tiling(kernel, dot), mac.root_of(kernel)
    return tiles.weight_bytes + mac.align(tiles.channel_vectors * dot.lanes * bias.type.itemsize)


def pack(kernel: Kernel, dot: DotProduct) -> bytes:
    """Weights in the order they are read, then the corrected bias."""
    tiles = tiling(kernel, dot)
    wide = dot.weight_dtype == "int16"
    matrix = mac.matrix(kernel, dot.unsigned, subtract_zero=wide)
    outputs, runs, run = matrix.weights.shape
    lanes = tiles.channel_vectors * dot.lanes
    padded = np.zeros((lanes, runs, tiles.groups * dot.group), DTYPES[dot.weight_dtype][1])
    padded[:outputs, :, :run] = matrix.weights
    parts = (dot.group // dot.adjacent, dot.adjacent)
    steps = padded.reshape(tiles.channel_vectors, dot.lanes, runs * tiles.groups, *parts)
    starts = range(0, tiles.channel_vectors, tiles.vectors)
    blocks = [steps[v : v + tiles.vectors].transpose(2, 0, 3, 1, 4) for v in starts]
    weights = b"".join(block.tobytes() for block in blocks)
    bias = np.zeros(lanes, matrix.bias.dtype)
    bias[:outputs] = matrix.bias
    return weights.ljust(tiles.weight_bytes, b"\0") + bias.tobytes().ljust(mac.align(bias.nbytes), b"\0")


def emit(module: Any, name: str, kernel: Kernel, target: Target, layout: TableLayout, dot: DotProduct) -> Any:
    """Channel blocks outside, pixels inside: a block's weights stay in cache."""
    fn = access.start(module, name, kernel, target)
    kernel_tile = _TileKernel(fn, kernel, target, layout, tiling(kernel, dot))
    kernel_tile.run()
    return fn.finish()


class _TileKernel:
    """One function being written."""

    def __init__(
        self, fn: KernelFunction, kernel: Kernel, target: Target, layout: TableLayout, tiles: Tiling
    ) -> None:
        _, x, w, _ = mac.root_of(kernel)
        self.fn, self.tiles, self.dot, self.geo = fn, tiles, tiles.dot, tiles.geometry
        self.x = access.pointer_to(fn, kernel, layout, x)
        wide = self.dot.weight_dtype == "int16"
        self.sums = not wide and mac.needs_activation_sums(kernel)
        op = mac.root_of(kernel)[0]
        self.weight_zero = op.weight_zero - (128 if w.type.dtype == "uint8" else 0)
        self.input_bytes = x.type.itemsize
        self.element_bytes = WORD_BYTES // self.dot.group
        self.one_tile = self.geo.images * self.geo.rows == 1 and self.geo.width <= tiles.pixels
        self.run_row_step = self.geo.run_row_step
        self.streamed = 0
        self.panel = self._make_panel(x.type.dtype, mac.flip(kernel, self.dot.unsigned))
        self.sum_dtype = mac.sum_type(kernel)
        self.sum_bytes = itemsize(self.sum_dtype)
        self.tile = mac.tile_memory(fn, tiles.pixels * tiles.vectors * self.dot.lanes, self.sum_dtype)
        self.finisher = Finisher(fn, kernel, target, layout)

    def _make_panel(self, dtype: str, flip: int) -> Panel | None:
        """Memory for a copy of a tile's activations, where dot products cannot take them as they are.

        Where a whole run is too long for it, ``streamed`` elements of one are in the panel at a time.
        """
        geo, widened = self.geo, self.input_bytes < self.element_bytes
        if not (flip or widened or geo.run_length % self.dot.group):
            return None
        if _panel_bytes(geo, self.dot, self.tiles.pixels) > PANEL_BYTES:
            self.streamed = min(geo.run_length, PIECE * (PANEL_BYTES // WORD_BYTES // PIECE))
            self.one_tile = False
            geo = replace(geo, run_rows=1, run_columns=1, run_length=self.streamed)
        panel = Panel(self.fn, geo, dtype, flip, widened, self.tiles.pixels)
        if not self.streamed:
            self.run_row_step = panel.row_step
        return panel

    def run(self) -> None:
        """All blocks of output channels."""
        lanes, vectors = self.dot.lanes, self.tiles.vectors
        if self.panel is not None and self.one_tile:
            self.panel.fill(self.x, self.geo.width)
        whole = self.geo.outputs // (lanes * vectors)
        self.fn.loop(0, whole, 1, lambda block: self._channels(block, vectors, vectors * lanes))
        rest = self.geo.outputs - whole * lanes * vectors
        if rest:
            self._channels(whole, -(-rest // lanes), rest)

    def _channels(self, block: Index, vectors: int, count: int) -> None:
        """Every pixel for one block of ``count`` channels in ``vectors`` vectors."""
        full = self.tiles.vectors
        steps = self.geo.runs * self.tiles.groups
        weights = self.fn.at(self.fn.tables, self.fn.mul(block, full * steps * self.tiles.vector_bytes))
        channel = self.fn.mul(block, full * self.dot.lanes)

        def row(image: Index, line: Index) -> None:
            start = self.fn.add(self.fn.mul(image, self.geo.image_step), self.fn.mul(line, self.geo.row_step))
            first = self.fn.mul(self.fn.add(self.fn.mul(image, self.geo.rows), line), self.geo.width)

            def tile(column: Index, pixels: int) -> None:
                place = self.fn.add(start, self.fn.mul(column, self.geo.pixel_step))
                x = self.fn.at(self.x, self.fn.mul(place, self.input_bytes))
                if self.panel is not None and not self.streamed:
                    if not self.one_tile:
                        self.panel.fill(x, pixels)
                    x = self.panel.memory
                self._multiply(x, weights, channel, pixels, vectors)
                self.finisher.finish(
                    self.tile, vectors * self.dot.lanes, self.fn.add(first, column), pixels, channel, count
                )

            whole = self.geo.width - self.geo.width % self.tiles.pixels
            self.fn.loop(0, whole, self.tiles.pixels, lambda column: tile(column, self.tiles.pixels))
            if whole < self.geo.width:
                tile(whole, self.geo.width - whole)

        access.nest(self.fn, (self.geo.images, self.geo.rows), lambda place: row(*place))

    def _multiply(self, x: Any, weights: Any, channel: Index, pixels: int, vectors: int) -> None:
        """Sums of ``pixels`` x ``vectors`` lanes into the tile."""
        lanes = self.dot.lanes
        type_ = vector_type(ELEMENTS[self.sum_dtype], lanes)
        place = self.fn.add(self.tiles.weight_bytes, self.fn.mul(channel, self.sum_bytes))
        bias = self.fn.at(self.fn.tables, place)
        start = [self.fn.load(self.fn.at(bias, v * lanes * self.sum_bytes), type_, 4) for v in range(vectors)]
        if self.sum_dtype == "int64":
            self._store(start * pixels)
            self._multiply_pieces(x, weights, pixels, vectors)
            return
        carried = start * pixels
        if self.sums:
            carried += [constant(type_, 0)] * pixels
        sums = self._window(x, weights, pixels, vectors, carried)
        if self.sums:
            sums = self._without_weight_zero(sums, pixels, vectors)
        self._store(sums)

    def _store(self, sums: Sequence[Any]) -> None:
        for number, total in enumerate(sums):
            self.fn.store(total, self.fn.at(self.tile, number * self.dot.lanes * self.sum_bytes), 4)

    def _without_weight_zero(self, sums: Sequence[Any], pixels: int, vectors: int) -> list[Any]:
        """The products' sums less the weights' zero point times the activations' sum."""
        results = []
        for number, total in enumerate(sums[: pixels * vectors]):
            activations = sums[pixels * vectors + number // vectors]
            owed = self.fn.b.mul(activations, constant(total.type, self.weight_zero))
            results.append(self.fn.b.sub(total, owed))
        return results

    def _window(
        self, x: Any, weights: Any, pixels: int, vectors: int, carried: Sequence[Any]
    ) -> Sequence[Any]:
        """All runs of a pixel, one after the other."""

        def run(row: Index, column: Index, carried: Sequence[Any]) -> Sequence[Any]:
            source, here = self._place_of_run(x, weights, row, column, vectors)
            if self.streamed:
                return self._streamed_run(source, here, vectors, carried)
            return self._piece(source, here, 0, self.geo.run_length, pixels, vectors, carried)

        def rows(row: Index, *carried: Any) -> Sequence[Any]:
            return self.fn.loop(0, self.geo.run_columns, 1, lambda column, *c: run(row, column, c), carried)

        return self.fn.loop(0, self.geo.run_rows, 1, rows, carried)

    def _streamed_run(self, source: Any, weights: Any, vectors: int, carried: Sequence[Any]) -> Sequence[Any]:
        """A run of one pixel, of which the panel holds a stretch at a time."""
        whole, rest = divmod(self.geo.run_length, self.streamed)
        groups = self.streamed // self.dot.group

        def stretch(first: Index, count: int, carried: Sequence[Any]) -> Sequence[Any]:
            x, here = self._copied(source, weights, first, count, vectors)
            return self._piece(x, here, 0, count, 1, vectors, carried)

        carried = self.fn.loop(
            0, whole, 1, lambda number, *c: stretch(self.fn.mul(number, groups), self.streamed, c), carried
        )
        return stretch(whole * groups, rest, carried) if rest else carried

    def _copied(self, source: Any, weights: Any, first: Index, count: int, vectors: int) -> tuple[Any, Any]:
        """Where activations from group ``first`` of a run are copied to, and where their weights are."""
        assert self.panel is not None
        begin = self.fn.mul(first, self.dot.group * self.input_bytes)
        self.panel.copy(self.fn.at(source, begin), 0, count)
        step = vectors * self.tiles.vector_bytes
        return self.panel.memory, self.fn.at(weights, self.fn.mul(first, step))

    def _place_of_run(self, x: Any, weights: Any, row: Index, column: Index, vectors: int) -> tuple[Any, Any]:
        """Where a run's activations and weights are."""
        geo, step = self.geo, self.tiles.groups * vectors * self.tiles.vector_bytes
        offset = self.fn.add(self.fn.mul(row, self.run_row_step), self.fn.mul(column, geo.run_column_step))
        number = self.fn.add(self.fn.mul(row, geo.run_columns), column)
        return (
            self.fn.at(x, self.fn.mul(offset, self.input_bytes if self.streamed else self.element_bytes)),
            self.fn.at(weights, self.fn.mul(number, step)),
        )

    def _multiply_pieces(self, x: Any, weights: Any, pixels: int, vectors: int) -> None:
        """32-bit sums of at most :data:`PIECE` products each, added to the 64-bit sums in the tile."""
        zeros = [constant(vector_type(I32, self.dot.lanes), 0)] * (pixels * vectors)
        length = self.geo.run_length
        if length * self.geo.runs <= PIECE:
            self._add(self._window(x, weights, pixels, vectors, zeros))
            return

        def run(place: list[Index]) -> None:
            source, here = self._place_of_run(x, weights, place[0], place[1], vectors)

            def piece(first: Index, count: int) -> None:
                if self.streamed:
                    x, weights = self._copied(source, here, first, count, vectors)
                    self._add(self._piece(x, weights, 0, count, 1, vectors, zeros))
                else:
                    self._add(self._piece(source, here, first, count, pixels, vectors, zeros))

            whole, rest = divmod(length, PIECE)
            groups = PIECE // self.dot.group
            self.fn.loop(0, whole, 1, lambda number: piece(self.fn.mul(number, groups), PIECE))
            if rest:
                piece(whole * groups, rest)

        access.nest(self.fn, (self.geo.run_rows, self.geo.run_columns), run)

    def _add(self, sums: Sequence[Any]) -> None:
        """Add 32-bit sums to the 64-bit sums in the tile."""
        type_ = vector_type(I64, self.dot.lanes)
        for number, part in enumerate(sums):
            place = self.fn.at(self.tile, number * self.dot.lanes * self.sum_bytes)
            self.fn.store(self.fn.b.add(self.fn.load(place, type_, 4), self.fn.b.sext(part, type_)), place, 4)

    def _piece(
        self,
        x: Any,
        weights: Any,
        first: Index,
        length: int,
        pixels: int,
        vectors: int,
        carried: Sequence[Any],
    ) -> Sequence[Any]:
        """``length`` elements of a run from group ``first`` on. Past its end, weights are zero.

        Where activations are summed, the last group is on its own: not all of it counts.
        """
        groups = -(-length // self.dot.group)
        whole = length // self.dot.group if self.sums else groups

        def group(number: Index, *carried: Any) -> Sequence[Any]:
            place = self.fn.add(first, number)
            return self._group(x, place, self.dot.group, weights, pixels, vectors, carried)

        carried = self.fn.loop(0, whole, 1, group, carried)
        if whole == groups:
            return carried
        rest = length % self.dot.group
        return self._group(x, self.fn.add(first, whole), rest, weights, pixels, vectors, carried)

    def _group(
        self,
        x: Any,
        number: Index,
        count: int,
        weights: Any,
        pixels: int,
        vectors: int,
        carried: Sequence[Any],
    ) -> Sequence[Any]:
        """One step of every accumulator with group ``number``, ``count`` of whose elements are summed."""
        size = self.tiles.vector_bytes
        type_ = vector_type(ELEMENTS[self.dot.weight_dtype], self.dot.lanes * self.dot.group)
        here = self.fn.at(weights, self.fn.mul(number, vectors * size))
        w = [self.fn.load(self.fn.at(here, v * size), type_, 16) for v in range(vectors)]
        counted = [int(k < count) for k in range(self.dot.group)] * self.dot.lanes
        results = list(carried)
        for pixel in range(pixels):
            step = pixel * self.geo.pixel_step * self.element_bytes
            place = self.fn.at(x, self.fn.add(self.fn.mul(number, WORD_BYTES), step))
            activations = self.fn.load(place, I32)
            for vector in range(vectors):
                slot = pixel * vectors + vector
                results[slot] = self.dot.product(self.fn, results[slot], activations, w[vector])
            if self.sums:
                slot = pixels * vectors + pixel
                ones = ir.Constant(type_, [ir.Constant(type_.element, one) for one in counted])
                results[slot] = self.dot.product(self.fn, results[slot], activations, ones)
        return results
