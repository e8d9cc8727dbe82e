"""The order in which the interpreter's optimized kernels sum matrix products of floats.

They hand x [R, K] times w [K, N] to Eigen's general matrix product, as it is built with SSE (packets of four,
no fused multiply-add): w's columns are the rows there, taken eight, four and one at a time, x's rows are the
columns, taken four and one at a time, and each combination has a loop with its own accumulators. A vector on
either side goes to other loops, tiny products to yet another one.

Large K is cut into blocks that fit into the first-level cache, so these bytes depend on the machine that the
interpreter runs on: :data:`CACHE_BYTES` is that of the CPUs with which this was measured (48 KiB).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from qimport.summation import Float32, Order, matrix_product

CACHE_BYTES = 48 * 1024
"""First-level data cache of Intel server CPUs from Ice Lake on."""

_TINY = 20
_UNBLOCKED = 48
_PEELING = 8
# What of the cache the accumulators of one tile take, and bytes of both operands per product.
_TILE_BYTES = 8 * 4 * 4
_STEP_BYTES = (8 + 4) * 4
LARGEST_BLOCK = (CACHE_BYTES - _TILE_BYTES) // _STEP_BYTES // _PEELING * _PEELING


@dataclass(frozen=True)
class Part:
    """Rows [r0, r1) and outputs [n0, n1) of a product, and the order of their sums."""

    rows: tuple[int, int]
    outputs: tuple[int, int]
    order: Order


def block_of(rows: int, depth: int, outputs: int) -> int:
    """How many products are summed before they are added to what came before; 0 for all."""
    if min(rows, outputs) == 1 or max(rows, depth, outputs) < _UNBLOCKED or depth <= LARGEST_BLOCK:
        return 0
    rest = depth % LARGEST_BLOCK
    if rest == 0:
        return LARGEST_BLOCK
    sweeps = depth // LARGEST_BLOCK + 1
    return LARGEST_BLOCK - _PEELING * ((LARGEST_BLOCK - 1 - rest) // (_PEELING * sweeps))


def parts_of(rows: int, depth: int, outputs: int) -> tuple[Part, ...]:
    """The parts of a product, which cover it without overlap."""
    return tuple(p for p in _parts(rows, depth, outputs) if p.rows[0] < p.rows[1])


def _parts(rows: int, depth: int, outputs: int) -> Iterator[Part]:
    everything = (0, rows), (0, outputs)
    if rows == 1 and outputs == 1:
        yield Part(*everything, "inner")
        return
    if rows == 1 or outputs == 1:
        yield Part(*everything, "lanes")
        return
    if rows + depth + outputs < _TINY:
        yield Part(*everything, "packets")
        return
    eights, fours, whole = outputs // 8 * 8, outputs // 4 * 4, rows // 4 * 4
    if eights:
        yield Part((0, rows), (0, eights), "sequential")
    for first, last, order in ((eights, fours, "pairs"), (fours, outputs, "quads")):
        if first < last:
            yield Part((0, whole), (first, last), "pairs" if order == "pairs" else "quads")
            yield Part((whole, rows), (first, last), "sequential")


def optimized_product(x: Float32, w: Float32) -> Float32:
    """x [R, K] times w [K, N] in these orders."""
    (rows, depth), outputs = x.shape, w.shape[1]
    result = np.zeros((rows, outputs), np.float32)
    size = block_of(rows, depth, outputs) or depth
    for part in parts_of(rows, depth, outputs):
        here, there = slice(*part.rows), slice(*part.outputs)
        for begin in range(0, depth, size):
            block = slice(begin, begin + size)
            zeros = np.zeros(part.outputs[1] - part.outputs[0], np.float32)
            found = matrix_product(x[here, block], w[block, there], zeros, part.order)
            result[here, there] = found if begin == 0 else result[here, there] + found
    return result
