"""How depthwise layers are cut into tiles, and how weights are packed, for :mod:`mac_depthwise_tile`."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from qimport.codegen.isa.channels import CHANNELS, ChannelProduct
from qimport.codegen.kernels import mac
from qimport.codegen.kernels.depthwise_blocks import unrolls
from qimport.fixedpoint import wrap32
from qimport.ir.graph import Array
from qimport.lower.kernel import Kernel

ROWS = (1, 2)
"""Output rows per tile."""

MOST_COLUMNS = 8
"""Output columns per tile: registers hold the sums of so many pixels."""

MOST_STEPS = 200
"""Steps per tile, which are straight code."""

MOST_RESIDENT = 18
"""Registers for weights and activations beside sums, tables of requantization and what is in between."""

STEP, INTERLEAVING, FINISHED_PAIR, LOOP = 2, 4, 20, 5
"""Instructions of a step, of interleaving beside loads, of requantizing two pixels, and around a tile."""

Pair = tuple[int, int]
"""Along rows and along columns."""


@dataclass(frozen=True)
class Step:
    """What a pixel adds at a time: the activations at ``reads`` (row, column of the input from the tile on).

    ``taps`` says which of them the pixel wants, and for which weight: (position in ``reads``, row and column
    of the window). Pixels with equal ``taps`` share weights, those with equal ``reads`` activations.
    """

    reads: tuple[tuple[int, int], ...]
    taps: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True)
class Tiles:
    """``size`` (rows, columns) output pixels that are computed from the same activations."""

    product: ChannelProduct
    size: tuple[int, int]
    window: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]

    def steps(self, row: int, column: int) -> list[Step]:
        """The steps of a pixel, row by row of the input."""
        lines = [place for place, _ in self._reach(row, 0)]
        columns = [place for place, _ in self._reach(column, 1)]
        if self.product.across:
            return [
                Step(
                    tuple((line, place) for place in group),
                    tuple((position, tap, across) for position, across in taps),
                )
                for tap, line in enumerate(lines)
                for group, taps in self._read(column, 1)
            ]
        return [
            Step(
                tuple((line, place) for line in group),
                tuple((position, down, tap) for position, down in taps),
            )
            for group, taps in self._read(row, 0)
            for tap, place in enumerate(columns)
        ]

    def _reach(self, pixel: int, axis: int) -> list[tuple[int, int]]:
        """The input places along an axis that an output pixel reads, and their places in the window."""
        first = pixel * self.stride[axis]
        return [(first + tap * self.dilation[axis], tap) for tap in range(self.window[axis])]

    def _read(self, pixel: int, axis: int) -> list[tuple[tuple[int, ...], list[tuple[int, int]]]]:
        """The groups of input places that a pixel reads, and of each: (position, place in the window)."""
        mine, size = dict(self._reach(pixel, axis)), self.product.group
        every = sorted({place for other in range(self.size[axis]) for place, _ in self._reach(other, axis)})
        groups = [tuple(every[start : start + size]) for start in range(0, len(every), size)]
        read = [(group, [(k, mine[p]) for k, p in enumerate(group) if p in mine]) for group in groups]
        return [(group, taps) for group, taps in read if taps]

    @functools.cached_property
    def pixels(self) -> list[tuple[int, int]]:
        """Row and column of every pixel, column by column."""
        return [(row, column) for column in range(self.size[1]) for row in range(self.size[0])]

    @functools.cached_property
    def patterns(self) -> dict[tuple[tuple[int, int, int], ...], int]:
        """The number of the packed weights for every ``taps``."""
        taps = dict.fromkeys(step.taps for pixel in self.pixels for step in self.steps(*pixel))
        return {pattern: number for number, pattern in enumerate(taps)}

    @property
    def resident(self) -> bool:
        """Whether registers hold all weights and a window; then a tile is computed pixel by pixel.

        Otherwise it is computed step by step, so that weights are loaded once for all its pixels.
        """
        column = {step.reads for row, place in self.pixels if place == 0 for step in self.steps(row, 0)}
        vectors = len(self.patterns) + len(column)
        return vectors * self.product.registers <= MOST_RESIDENT

    @property
    def cost(self) -> int:
        """Instructions per tile, about."""
        steps = [step for pixel in self.pixels for step in self.steps(*pixel)]
        reads = {step.reads for step in steps}
        load = sum(map(len, reads)) + (len(reads) * INTERLEAVING if self.product.group > 1 else 0)
        weights = 0 if self.resident else len(self.patterns) * self.product.registers
        return len(steps) * STEP + load + weights + -(-len(self.pixels) // 2) * FINISHED_PAIR + LOOP


@functools.cache
def _best(
    product: ChannelProduct, window: Pair, stride: Pair, dilation: Pair, extent: Pair, even: bool
) -> Tiles:
    """Tiles that cover ``extent`` with the fewest instructions; ``even`` ones never overlap."""

    def fits(size: int, count: int) -> bool:
        return size <= count and not (even and count % size)

    found = [
        Tiles(product, (rows, columns), window, stride, dilation)
        for rows in ROWS
        for columns in range(1, MOST_COLUMNS + 1)
        if fits(rows, extent[0]) and fits(columns, extent[1])
    ]
    small = [t for t in found if len(t.pixels) * len(t.steps(0, 0)) <= MOST_STEPS]
    best = [tiles for tiles in small if tiles.resident or tiles.size[0] == 1] or found[:1]
    return min(best, key=lambda t: -(-extent[0] // t.size[0]) * -(-extent[1] // t.size[1]) * t.cost)


def tiles_of(kernel: Kernel, product: ChannelProduct) -> Tiles:
    """Tiles that cost the fewest instructions; in place, where they may not overlap, they fit evenly."""
    op, _, w, _ = mac.root_of(kernel)
    _, kh, kw, _ = w.type.shape
    _, height, width, _ = kernel.root.outputs[0].type.shape
    return _best(product, (kh, kw), op.stride, op.dilation, (height, width), kernel.in_place)


def applies(kernel: Kernel, product: ChannelProduct) -> bool:
    """Layers of :func:`unrolls` in whole blocks of channels.

    What is interleaved must serve several windows without leaving registers.
    """
    if not unrolls(kernel, product.dtype) or mac.root_of(kernel)[2].type.shape[0] % CHANNELS:
        return False
    if product.in_pairs and int((_weights(kernel) == -128).sum((1, 2)).max()) > 1:
        return False
    return product.group == 1 or product.across or tiles_of(kernel, product).resident


def _weights(kernel: Kernel) -> Array:
    """int64[outputs, rows, columns] less the zero point."""
    op, _, w, _ = mac.root_of(kernel)
    assert w.data is not None
    return w.data[..., 0].astype(np.int64) - op.weight_zero


def block_bytes(kernel: Kernel, tiles: Tiles) -> int:
    """Bytes of the weights of ``CHANNELS`` channels."""
    itemsize = np.dtype(tiles.product.dtype).itemsize
    return len(tiles.patterns) * CHANNELS * tiles.product.group * itemsize


def weight_bytes(kernel: Kernel, tiles: Tiles) -> int:
    """Bytes of packed weights; the bias follows."""
    outputs = mac.root_of(kernel)[2].type.shape[0]
    return mac.align(outputs // CHANNELS * block_bytes(kernel, tiles))


def table_bytes(kernel: Kernel, product: ChannelProduct) -> int:
    """Bytes of weights and bias."""
    bias = mac.root_of(kernel)[3].type
    return weight_bytes(kernel, tiles_of(kernel, product)) + bias.size * bias.itemsize


def pack(kernel: Kernel, product: ChannelProduct) -> bytes:
    """Weights [block][pattern][channel][group], then the bias less what it owes."""
    op, _, _, bias = mac.root_of(kernel)
    assert bias.data is not None
    tiles, weights = tiles_of(kernel, product), _weights(kernel)
    packed = np.zeros((len(weights), len(tiles.patterns), product.group), product.dtype)
    for pattern, number in tiles.patterns.items():
        for position, row, column in pattern:
            packed[:, number, position] = weights[:, row, column]
    blocks = packed.reshape(-1, CHANNELS, *packed.shape[1:]).transpose(0, 2, 1, 3)
    owed = bias.data.astype(np.int64) - (op.input_zero - flip(kernel, product)) * weights.sum((1, 2))
    sums = owed if bias.type.dtype == "int64" else wrap32(owed).astype(np.int32)
    content: bytes = blocks.tobytes()
    return content.ljust(weight_bytes(kernel, tiles), b"\0") + sums.tobytes()


def flip(kernel: Kernel, product: ChannelProduct) -> int:
    """The byte that makes stored activations what the product takes, by an exclusive or: signed bytes."""
    return mac.flip(kernel, False) if product.dtype == "int8" else 0
