"""How depthwise layers are cut into tiles, and how weights are packed, for :mod:`mac_depthwise_tile`."""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass

import numpy as np

from qimport.codegen.isa.channels import CHANNELS, ChannelProduct
from qimport.codegen.kernels import mac
from qimport.codegen.kernels.depthwise_blocks import MULTIPLIERS, UNROLLED_TAPS, Rows
from qimport.fixedpoint import wrap32
from qimport.ir.graph import Array
from qimport.lower.kernel import Kernel

ROWS = (1, 2)
"""Output rows per tile."""

MOST_COLUMNS = 7
"""Output columns per tile: sums of so many pixels fit into registers."""

MOST_STEPS = 200
"""Steps per tile, which are straight code."""

MOST_RESIDENT = 18
"""Registers for weights and activations beside sums, tables of requantization and what is in between."""

STEP, INTERLEAVED_GROUP, FINISHED_PAIR, LOOP = 2, 4, 20, 5
"""Instructions of a step, of interleaving beside loads, of requantizing two pixels, and around a tile."""


@dataclass(frozen=True)
class Tiles:
    """Output rows by ``columns`` of output pixels that are computed from the same activations."""

    product: ChannelProduct
    rows: Rows
    columns: int
    window_columns: int
    stride: int
    dilation: int

    @functools.cached_property
    def patterns(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """The ways in which output rows read a group: (position in the group, row of the window)."""
        return tuple(dict.fromkeys(self._pattern(*part) for part in self.rows.parts))

    def steps(self, row: int) -> list[tuple[int, int, int]]:
        """Group of rows, pattern and column of the window of every step of output row ``row``."""
        groups = [group for reader, group in self.rows.parts if reader == row]
        return [
            (group, self.patterns.index(self._pattern(row, group)), column)
            for group in groups
            for column in range(self.window_columns)
        ]

    def _pattern(self, row: int, group: int) -> tuple[tuple[int, int], ...]:
        return tuple(self.rows.taps(row, group).items())

    @property
    def resident(self) -> bool:
        """Whether registers hold all weights and a window; then a tile is computed pixel by pixel.

        Otherwise it is computed step by step, so that weights are loaded once for all its pixels.
        """
        vectors = (len(self.patterns) + len(self.rows.groups)) * self.window_columns
        return vectors * self.product.registers <= MOST_RESIDENT

    @property
    def cost(self) -> int:
        """Instructions per tile, about."""
        pixels = self.rows.count * self.columns
        places = itertools.product(range(self.columns), range(self.window_columns))
        inputs = len({column * self.stride + tap * self.dilation for column, tap in places})
        groups = self.rows.groups
        load = sum(map(len, groups)) + (len(groups) * INTERLEAVED_GROUP if self.product.group > 1 else 0)
        steps = sum(len(self.steps(row)) for row in range(self.rows.count)) * self.columns
        weights = 0 if self.resident else steps // self.columns
        return steps * STEP + inputs * load + weights + -(-pixels // 2) * FINISHED_PAIR + LOOP


def tiles_of(kernel: Kernel, product: ChannelProduct) -> Tiles:
    """Tiles that cost the fewest instructions; in place, where they may not overlap, they fit evenly."""
    op, _, w, _ = mac.root_of(kernel)
    _, window, taps, _ = w.type.shape
    _, height, width, _ = kernel.root.outputs[0].type.shape

    def fits(size: int, extent: int) -> bool:
        return size <= extent and not (kernel.in_place and extent % size)

    found = [
        Tiles(product, rows, columns, taps, op.stride[1], op.dilation[1])
        for rows in (Rows(n, window, op.stride[0], op.dilation[0], product.group) for n in ROWS)
        for columns in range(1, MOST_COLUMNS + 1)
        if fits(rows.count, height) and fits(columns, width)
    ]
    small = [tiles for tiles in found if tiles.columns * taps * len(tiles.rows.parts) <= MOST_STEPS]
    best = [tiles for tiles in small if tiles.resident or tiles.rows.count == 1] or found[:1]
    return min(best, key=lambda t: -(-height // t.rows.count) * -(-width // t.columns) * t.cost)


def applies(kernel: Kernel, product: ChannelProduct) -> bool:
    """8-bit weights in the file, a window of moderate size, a few outputs per input channel, whole blocks.

    What is interleaved must serve several windows without leaving registers.
    """
    if not (mac.is_depthwise(kernel) and mac.constant_weights(kernel)):
        return False
    _, x, w, _ = mac.root_of(kernel)
    outputs, kh, kw, _ = w.type.shape
    if w.type.itemsize != 1 or kh * kw > UNROLLED_TAPS or outputs // x.type.shape[3] not in MULTIPLIERS:
        return False
    if outputs % CHANNELS:
        return False
    if product.dtype == "int8" and (not mac.multiplies_bytes(kernel) or mac.needs_activation_sums(kernel)):
        return False
    if product.in_pairs and int((_weights(kernel) == -128).sum((1, 2)).max()) > 1:
        return False
    return product.group == 1 or tiles_of(kernel, product).resident


def _weights(kernel: Kernel) -> Array:
    """int64[outputs, rows, columns] less the zero point."""
    op, _, w, _ = mac.root_of(kernel)
    assert w.data is not None
    return w.data[..., 0].astype(np.int64) - op.weight_zero


def block_bytes(kernel: Kernel, tiles: Tiles) -> int:
    """Bytes of the weights of ``CHANNELS`` channels."""
    itemsize = np.dtype(tiles.product.dtype).itemsize
    return len(tiles.patterns) * tiles.window_columns * CHANNELS * tiles.product.group * itemsize


def weight_bytes(kernel: Kernel, tiles: Tiles) -> int:
    """Bytes of packed weights; the bias follows."""
    outputs = mac.root_of(kernel)[2].type.shape[0]
    return mac.align(outputs // CHANNELS * block_bytes(kernel, tiles))


def table_bytes(kernel: Kernel, product: ChannelProduct) -> int:
    """Bytes of weights and bias."""
    bias = mac.root_of(kernel)[3].type
    return weight_bytes(kernel, tiles_of(kernel, product)) + bias.size * bias.itemsize


def pack(kernel: Kernel, product: ChannelProduct) -> bytes:
    """Weights [block][pattern][column of the window][channel][group], then the bias less what it owes."""
    op, _, _, bias = mac.root_of(kernel)
    assert bias.data is not None
    tiles, weights = tiles_of(kernel, product), _weights(kernel)
    outputs, _, columns = weights.shape
    packed = np.zeros((outputs, len(tiles.patterns), columns, product.group), product.dtype)
    for number, pattern in enumerate(tiles.patterns):
        for place, tap in pattern:
            packed[:, number, :, place] = weights[:, tap]
    blocks = packed.reshape(-1, CHANNELS, *packed.shape[1:]).transpose(0, 2, 3, 1, 4)
    owed = bias.data.astype(np.int64) - (op.input_zero - flip(kernel, product)) * weights.sum((1, 2))
    sums = owed if bias.type.dtype == "int64" else wrap32(owed).astype(np.int32)
    content: bytes = blocks.tobytes()
    return content.ljust(weight_bytes(kernel, tiles), b"\0") + sums.tobytes()


def flip(kernel: Kernel, product: ChannelProduct) -> int:
    """The byte that makes stored activations what the product takes, by an exclusive or: signed bytes."""
    return mac.flip(kernel, False) if product.dtype == "int8" else 0
