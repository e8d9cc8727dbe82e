"""Orders in which sums of float32 products are formed, and the fused multiply-add. Normative.

A sum of floats depends on its order, so an order is a part of a result's definition. Each one here is that
of a loop in the interpreter: several accumulators take products in turn, are added up in a fixed pattern, and
what the loop leaves over is added one product at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt

Float32 = npt.NDArray[Any]
"""An array of float32 elements."""

Order = Literal["sequential", "pairs", "quads", "lanes", "in_turn", "packets", "inner"]

Merges = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Phase:
    """Accumulator j % ``accumulators`` takes product j, for as many whole multiples of ``multiple`` as fit.

    Afterwards ``merges`` adds accumulators: (i, j) is a[i] = a[i] + a[j]. The next phase goes on with the
    first ones.
    """

    accumulators: int
    multiple: int
    merges: Merges = ()


_ONE_BY_ONE = Phase(1, 1)
_ACROSS: Merges = ((0, 2), (1, 3), (0, 1))
_LANES = Phase(4, 4, _ACROSS)

ORDERS: dict[Order, tuple[Phase, ...]] = {
    "sequential": (_ONE_BY_ONE,),
    "pairs": (Phase(2, 8, ((0, 1),)), _ONE_BY_ONE),
    "quads": (Phase(4, 4, ((0, 1), (2, 3), (0, 2))), _ONE_BY_ONE),
    "lanes": (_LANES, _ONE_BY_ONE),
    "in_turn": (Phase(4, 4, ((0, 1), (0, 2), (0, 3))), _ONE_BY_ONE),
    "packets": (Phase(8, 8, tuple((lane, lane + 4) for lane in range(4))), _LANES, _ONE_BY_ONE),
    "inner": (
        Phase(16, 4, (*((u + lane, u + 4 + lane) for u in (8, 4, 0) for lane in range(4)), *_ACROSS)),
        _ONE_BY_ONE,
    ),
}
"""The phases of every order; the last one always takes what is left."""

Sum = TypeVar("Sum")


def fused_multiply_add(a: npt.ArrayLike, b: npt.ArrayLike, c: npt.ArrayLike) -> Float32:
    """a * b + c of float32 operands, rounded once.

    The product is exact in float64. The sum is rounded to odd there, that is, its last bit is set if it is
    not exact, which makes the rounding to float32 that follows the only one.
    """
    with np.errstate(all="ignore"):
        product = np.asarray(a, np.float64) * np.asarray(b, np.float64)
        addend = np.asarray(c, np.float64)
        total = np.asarray(product + addend)
        back = total - product
        error = (product - (total - back)) + (addend - back)
        bits = np.atleast_1d(total).view(np.int64).reshape(total.shape)
        inexact = (error > 0) | (error < 0)
        toward_zero = (error > 0) != (total > 0)
        odd = np.where(inexact & (bits & 1 == 0), np.where(toward_zero, bits - 1, bits + 1), bits)
        return np.atleast_1d(odd).view(np.float64).reshape(total.shape).astype(np.float32)


def in_order(
    order: Order,
    depth: int,
    start: Sum,
    zero: Callable[[], Sum],
    step: Callable[[Sum, int], Sum],
    add: Callable[[Sum, Sum], Sum],
) -> Sum:
    """``start`` plus products 0 .. depth - 1: ``step(sum, k)`` adds product k, ``add`` adds two sums."""
    done, sums = 0, [start]
    for phase in ORDERS[order]:
        count = (depth - done) // phase.multiple * phase.multiple
        sums = [*sums, *(zero() for _ in range(phase.accumulators - len(sums)))][: phase.accumulators]
        for k in range(count):
            sums[k % phase.accumulators] = step(sums[k % phase.accumulators], done + k)
        for into, source in phase.merges:
            sums[into] = add(sums[into], sums[source])
        done += count
    return sums[0]


def matrix_product(
    x: Float32, w: Float32, start: Float32, order: Order = "sequential", fused: bool = False
) -> Float32:
    """``start`` [N] plus x [R, K] times w [K, N], every sum in ``order``; [R, N]."""
    shape = (x.shape[0], w.shape[1])

    def step(total: Float32, k: int) -> Float32:
        if fused:
            return fused_multiply_add(x[:, k, None], w[k], total)
        return np.asarray(total + x[:, k, None] * w[k], np.float32)

    with np.errstate(all="ignore"):
        return in_order(
            order,
            x.shape[1],
            np.asarray(np.broadcast_to(start, shape), np.float32),
            lambda: np.zeros(shape, np.float32),
            step,
            lambda a, b: np.asarray(a + b, np.float32),
        )
