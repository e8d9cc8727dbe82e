"""Products that XNNPACK's int8 depthwise kernels lose on ARM.

They take the taps of a window column by column, and add the products of every two neighbours in 16 bits: of
the first and the second tap, of the third and the fourth, and so on; an odd last one stays alone. Where
weight and activation of both are -128 the sum 2^15 wraps to -2^15, so that the accumulator loses 2^16.
Outside the image an activation is its zero point.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from qimport.fixedpoint import Int
from qimport.ir.graph import Array, Call

if TYPE_CHECKING:
    from qimport.qnn.geometry import Geometry, SlidingWindow

LOST = 2**16
"""What a sum loses with every pair."""

LOWEST = -128

Tap = tuple[int, int]


def loses_pairs(op: Geometry, call: Call) -> bool:
    """Whether the kernel that runs may lose pairs."""
    delegated = call.mode.arm64 and op.kernel_family(call) == "xnnpack"
    return delegated and call.input(0).dtype == "int8" and op.is_depthwise(call)


def weights_by_tap(w: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    """[1, KH, KW, C] or [C, KH, KW, 1] as [KH, KW, C]."""
    return w[0] if w.shape[0] == 1 and w.shape[3] > 1 else np.moveaxis(w[..., 0], 0, -1)


def pairs_of(w: Array) -> list[tuple[Tap, Tap, npt.NDArray[np.bool_]]]:
    """The pairs of taps that some channel may lose, and which channels; ``w`` is [KH, KW, C]."""
    height, width, _ = w.shape
    taps = [(row, column) for column in range(width) for row in range(height)]
    found = []
    for first, second in zip(taps[::2], taps[1::2], strict=False):
        both = (w[first] == LOWEST) & (w[second] == LOWEST)
        if both.any():
            found.append((first, second, both))
    return found


def lost_pairs(op: SlidingWindow, call: Call) -> Int:
    """How many pairs every sum loses."""
    x, outside = call.array(0) == LOWEST, call.input(0).quant.zero_point == LOWEST
    w = weights_by_tap(call.array(1))
    # Taps outside the image contribute zero.
    seen = {
        (row, column): (part != 0) ^ outside
        for row, column, part in op.taps((x ^ outside).astype(np.int8), w.shape[:2], call)
    }
    count = np.zeros(call.output.shape, np.int64)
    for first, second, channels in pairs_of(w):
        count += seen[first] & seen[second] & channels
    return count
