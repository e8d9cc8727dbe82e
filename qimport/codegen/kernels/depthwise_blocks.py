"""How depthwise layers are cut into blocks, and how weights are packed, for :mod:`mac_depthwise_taps`."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from qimport.codegen.isa.taps import TAP_BYTES, TapProduct
from qimport.codegen.kernels import mac
from qimport.fixedpoint import wrap32
from qimport.lower.kernel import Kernel

UNROLLED_TAPS = 49
"""Windows up to this many taps become straight code; 32 bits hold their sums of 16-bit activations."""

MULTIPLIERS = (1, 2, 4, 8)
"""Outputs per input channel for which activations are repeated by one shuffle."""

ROWS = (1, 2, 4)
"""Output rows per block."""

TOGETHER = 4
"""Vectors of sums that are finished together: they become one register of bytes."""

MOST_WEIGHTS = 30
"""Vectors of weights per vector of channels: what registers do not hold has to come from memory quickly."""

INTERLEAVING = 3
"""Instructions per interleaved vector of channels."""

MEMORY = 16384
"""Bytes of interleaved input: a third of a first-level cache."""

MOST_MEMORY = 3 * MEMORY
"""What the smallest block of wide or dilated windows may take; it lies on the stack."""

LEAST_CHANNELS, MOST_CHANNELS = 64, 256
"""Channels per block: whole registers of bytes are interleaved, and weights and tables stay in cache."""

CHANNEL_STEP = 16
"""Channels per block are a multiple of every vector and of every multiplier."""


@dataclass(frozen=True)
class Rows:
    """``count`` output rows that share what they read: input rows ``lines``, taken ``group`` at a time."""

    count: int
    window: int
    stride: int
    dilation: int
    group: int

    @functools.cached_property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """The input rows that are read, counted from the first, ``group`` at a time."""
        lines = sorted({self._line(row, tap) for row in range(self.count) for tap in range(self.window)})
        return tuple(tuple(lines[start : start + self.group]) for start in range(0, len(lines), self.group))

    @functools.cached_property
    def parts(self) -> tuple[tuple[int, int], ...]:
        """Output row and number of a group that it reads: one step for each column of the window."""
        rows, groups = range(self.count), range(len(self.groups))
        return tuple((row, group) for row in rows for group in groups if self.taps(row, group))

    def taps(self, row: int, group: int) -> dict[int, int]:
        """What output row ``row`` reads of a group: position in the group -> row of the window."""
        reads = {self._line(row, tap): tap for tap in range(self.window)}
        return {place: reads[line] for place, line in enumerate(self.groups[group]) if line in reads}

    def _line(self, row: int, tap: int) -> int:
        return row * self.stride + tap * self.dilation


@dataclass(frozen=True)
class Blocks:
    """Output rows, ``columns`` of output pixels and ``channels`` that are computed together.

    ``input_columns`` are interleaved for them. Blocks at the end overlap their predecessors; in place, where
    no pixel may be computed twice, numbers of rows and columns are divisors.
    """

    product: TapProduct
    rows: Rows
    columns: int
    channels: int
    input_columns: int

    @property
    def plane(self) -> int:
        """Bytes of one interleaved group of rows."""
        return mac.align(self.input_columns * self.channels * TAP_BYTES)

    @property
    def memory(self) -> int:
        """Bytes of all interleaved groups."""
        return len(self.rows.groups) * self.plane


def blocks_of(kernel: Kernel, product: TapProduct) -> Blocks:
    """Few channels are taken all at once, so that columns are neighbours; many such that all columns fit."""
    op, _, w, _ = mac.root_of(kernel)
    outputs, _, taps, _ = w.type.shape
    width = kernel.root.outputs[0].type.shape[2]
    rows = _rows(kernel, product)
    step, edge = op.stride[1], (taps - 1) * op.dilation[1] + 1
    places = MEMORY // (TAP_BYTES * len(rows.groups))
    channels = outputs
    if outputs > MOST_CHANNELS:
        fitting = places // ((width - 1) * step + edge)
        channels = _part(outputs, min(max(fitting, LEAST_CHANNELS), MOST_CHANNELS), CHANNEL_STEP)
    columns = _part(width, max((places // channels - edge) // step + 1, edge), 1)
    if kernel.in_place:
        columns = max(size for size in range(1, columns + 1) if width % size == 0)
    return Blocks(product, rows, columns, channels, (columns - 1) * step + edge)


def _rows(kernel: Kernel, product: TapProduct) -> Rows:
    """The number of output rows that costs the fewest instructions per row."""
    op, _, w, _ = mac.root_of(kernel)
    _, window, columns, _ = w.type.shape
    height = kernel.root.outputs[0].type.shape[1]

    def cost(rows: Rows) -> float:
        steps = columns * len(rows.parts)
        return (steps + INTERLEAVING * op.stride[1] * len(rows.groups)) / rows.count

    counts = [count for count in ROWS if count <= height and not (kernel.in_place and height % count)]
    every = [Rows(count, window, op.stride[0], op.dilation[0], product.group) for count in counts]
    few = [rows for rows in every if columns * len(rows.parts) <= MOST_WEIGHTS]
    return min(few or every[:1], key=cost)


def _part(extent: int, most: int, step: int) -> int:
    """All of ``extent``, or a multiple of ``step`` up to ``most``: a divisor unless all are much smaller."""
    if extent <= most:
        return extent
    sizes = range(most // step * step, most // 2, -step)
    even = mac.balanced(-(-extent // step), most // step) * step
    return next((size for size in sizes if extent % size == 0), even)


def unrolls(kernel: Kernel, weight_dtype: str) -> bool:
    """Depthwise with 8-bit weights in the file, a window of moderate size, a few outputs per input channel.

    Products of bytes, of weights packed as int8, want activations of 8 bits and weights without zero point.
    """
    if not (mac.is_depthwise(kernel) and mac.constant_weights(kernel)):
        return False
    _, x, w, _ = mac.root_of(kernel)
    outputs, kh, kw, _ = w.type.shape
    if w.type.itemsize != 1 or kh * kw > UNROLLED_TAPS or outputs // x.type.shape[3] not in MULTIPLIERS:
        return False
    return weight_dtype != "int8" or (mac.multiplies_bytes(kernel) and not mac.needs_activation_sums(kernel))


def applies(kernel: Kernel, product: TapProduct) -> bool:
    """Layers of :func:`unrolls` whose window has a moderate reach."""
    return unrolls(kernel, product.weight_dtype) and blocks_of(kernel, product).memory <= MOST_MEMORY


def weight_bytes(kernel: Kernel, blocks: Blocks) -> int:
    """Bytes of packed weights; the bias follows."""
    outputs, _, columns, _ = mac.root_of(kernel)[2].type.shape
    vectors = -(-outputs // blocks.product.lanes)
    return mac.align(vectors * len(blocks.rows.parts) * columns * blocks.product.lanes * TAP_BYTES)


def table_bytes(kernel: Kernel, product: TapProduct) -> int:
    """Bytes of weights and bias."""
    _, _, w, bias = mac.root_of(kernel)
    lanes = -(-w.type.shape[0] // product.lanes) * product.lanes
    return weight_bytes(kernel, blocks_of(kernel, product)) + mac.align(lanes * bias.type.itemsize)


def pack(kernel: Kernel, product: TapProduct) -> bytes:
    """Weights [vector][part][column of the window][lane][group], then the bias less what it owes."""
    op, _, w, bias = mac.root_of(kernel)
    assert w.data is not None and bias.data is not None
    blocks = blocks_of(kernel, product)
    outputs, _, columns, _ = w.type.shape
    weights = w.data[..., 0].astype(np.int64) - op.weight_zero
    vectors, parts = -(-outputs // product.lanes), blocks.rows.parts
    packed = np.zeros((vectors * product.lanes, len(parts), columns, product.group), product.weight_dtype)
    for number, part in enumerate(parts):
        for place, tap in blocks.rows.taps(*part).items():
            packed[:outputs, number, :, place] = weights[:, tap]
    steps = packed.reshape(vectors, product.lanes, *packed.shape[1:]).transpose(0, 2, 3, 1, 4)
    moved = mac.flip(kernel, product.unsigned) * (1 if product.unsigned else -1)
    owed = bias.data.astype(np.int64) - (op.input_zero + moved) * weights.sum((1, 2))
    sums = np.zeros(vectors * product.lanes, bias.type.dtype)
    sums[:outputs] = owed if bias.type.dtype == "int64" else wrap32(owed)
    content: bytes = steps.tobytes()
    return content.ljust(weight_bytes(kernel, blocks), b"\0") + sums.tobytes()
