"""Orders in which sums of float32 products are formed, and the fused multiply-add. Normative.

A sum of floats depends on its order, so an order is a part of a result's definition. Each one here is that
of a loop in the interpreter: several accumulators take products in turn, are added up in a fixed pattern, and
what the loop leaves over is added one product at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
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


def fold_in_order(
    x: npt.NDArray[Any], axes: tuple[int, ...], start: Any, step: Callable[[Any, Any], Any]
) -> npt.NDArray[Any]:
    """step(... step(step(start, x0), x1) ...) over ``axes`` by index; they stay with extent 1.

    ``start`` None means the first element.
    """
    kept = tuple(1 if axis in axes else size for axis, size in enumerate(x.shape))
    rest = [axis for axis in range(x.ndim) if axis not in axes]
    count = math.prod(x.shape[axis] for axis in axes)
    rows = np.moveaxis(
        x.transpose(*rest, *sorted(axes)).reshape(*(x.shape[axis] for axis in rest), count), -1, 0
    )
    total = rows[0] if start is None else np.full(rows.shape[1:], start, x.dtype)
    for row in rows[1 if start is None else 0 :]:
        total = step(total, row)
    return np.asarray(total, x.dtype).reshape(kept)


RowOrder = Literal["lanes", "fours", "packets"]


def sum_row(x: npt.NDArray[Any], order: RowOrder) -> npt.NDArray[Any]:
    """float32 sums along the last dimension, which stays with extent 1, in the order of a vector kernel.

    ``lanes`` (XNNPACK's ``f32_rsum`` on AVX-512): two sums of 16 lanes take 16 elements in turn, a last
    single 16 go to the first; first plus second; the rest, zeros behind it, is added; then halves of the
    lanes onto each other. ``fours`` (XNNPACK's ``f32_raddstoreexpminusmax``): likewise, but what four vectors
    do not divide is added to first plus second, a vector at a time. ``packets`` (Eigen on SSE): see
    :func:`_sum_packets`.
    """
    with np.errstate(all="ignore"):
        if order != "packets":
            return _sum_lanes(x, order)
        rows = x.reshape(-1, x.shape[-1])
        starts = -np.arange(len(rows)) * x.shape[-1] % PACKET
        result = np.empty(len(rows), np.float32)
        for start in range(PACKET):
            if (starts == start).any():
                result[starts == start] = _sum_packets(rows[starts == start], start)
        return result.reshape(*x.shape[:-1], 1)


SUM_LANES = 16
PACKET = 4


def _sum_lanes(x: npt.NDArray[Any], order: RowOrder) -> npt.NDArray[Any]:
    count = x.shape[-1]
    whole = count // SUM_LANES
    sums = [np.zeros((*x.shape[:-1], SUM_LANES), np.float32) for _ in range(2)]
    vectors = [x[..., k * SUM_LANES : (k + 1) * SUM_LANES] for k in range(whole)]
    in_turn = whole - whole % (2 if order == "lanes" else 4)
    for k in range(in_turn):
        sums[k % 2] = sums[k % 2] + vectors[k]
    left = sum(vectors[in_turn:], sums[0]) if order == "lanes" else sums[0]
    total = left + sums[1]
    if order == "fours":
        total = sum(vectors[in_turn:], total)
    if count % SUM_LANES:
        rest = np.zeros_like(total)
        rest[..., : count % SUM_LANES] = x[..., whole * SUM_LANES :]
        total = total + rest
    while total.shape[-1] > 1:
        half = total.shape[-1] // 2
        total = total[..., :half] + total[..., half:]
    return total


def _sum_packets(x: npt.NDArray[Any], start: int) -> npt.NDArray[Any]:
    """Sums of rows whose first multiple of 16 bytes is element ``start``.

    Packets of four from there on go in two sums that take them in turn; the lanes are added as
    (0 + 2) + (1 + 3), then the elements before and behind, by index. Rows without a whole packet are summed
    by index.
    """
    count = x.shape[1]
    packets = (count - start) // PACKET
    if packets <= 0:
        return fold_in_order(x, (1,), None, np.add)[:, 0]
    body = x[:, start : start + packets * PACKET].reshape(len(x), packets, PACKET)
    first = body[:, 0]
    if packets > 1:
        second, paired = body[:, 1], packets - packets % 2
        for k in range(2, paired, 2):
            first, second = first + body[:, k], second + body[:, k + 1]
        first = first + second
        if packets > paired:
            first = first + body[:, paired]
    total = (first[:, 0] + first[:, 2]) + (first[:, 1] + first[:, 3])
    for k in (*range(start), *range(start + packets * PACKET, count)):
        total = total + x[:, k]
    return np.asarray(total)


PASS = 9


def sum_in_passes(taps: Sequence[Any], zero: Any, add: Callable[[Any, Any], Any]) -> Any:
    """The sum of a window as XNNPACK's ``f32_avgpool`` adds it: nine taps at a time.

    Zeros stand for what is missing in the last pass. A pass is ((2 + 3) + (4 + 5)) + (((0 + 1) + 8) + (6 +
    7)); every pass is added to those before it. ``taps`` are anything that ``add`` takes.
    """
    total = None
    for first in range(0, len(taps), PASS):
        t = [*taps[first : first + PASS], *[zero] * (first + PASS - len(taps))]
        ends = add(add(add(t[0], t[1]), t[8]), add(t[6], t[7]))
        part = add(add(add(t[2], t[3]), add(t[4], t[5])), ends)
        total = part if total is None else add(total, part)
    return total


Blend = Literal[
    "tenth_bits",
    "eleventh_bits",
    "steps",
    "fused_steps",
    "weights",
    "fused_weights",
    "terms",
    "quarters",
]

INTEGRAL_BLENDS: tuple[Blend, ...] = ("tenth_bits", "eleventh_bits")


def blend(kind: Blend, corners: Sequence[npt.NDArray[Any]], fy: Any, fx: Any) -> Any:
    """The value between four pixels tl, tr, bl, br; ``fx`` and ``fy`` say how far it is from tl.

    The first two in int64, the others in float32, where every step is rounded; g = 1 - f:

        tenth_bits     v = (tl*(2^10-fx) + tr*fx)*(2^10-fy) + (bl*(2^10-fx) + br*fx)*fy;
                       (v + (v > 0 ? 2^19 : -2^19)) / 2^20 toward zero
        eleventh_bits  t = tl*2^11 + (tr-tl)*fx, b likewise; (t*2^11 + (b-t)*fy + 2^21) >> 22
        steps          t = tl + (tr-tl)*fx, b likewise; t + (b-t)*fy
        fused_steps    the same, each product and sum in one step
        weights        (((0 + tl*(gy*gx)) + tr*(gy*fx)) + bl*(fy*gx)) + br*(fy*fx)
        fused_weights  the same from tr*(gy*fx) on, each later product and sum in one step: tl, bl, br
        terms          ((((tl*gy)*gx + (bl*fy)*gx) + (tr*gy)*fx) + (br*fy)*fx) + 0
        quarters       ((tl + bl) + (tr + br)) * 0.25
    """
    tl, tr, bl, br = corners
    if kind == "tenth_bits":
        v = (tl * (1024 - fx) + tr * fx) * (1024 - fy) + (bl * (1024 - fx) + br * fx) * fy
        v = v + np.where(v > 0, 1 << 19, -(1 << 19))
        return np.sign(v) * (np.abs(v) >> 20)
    if kind == "eleventh_bits":
        t, b = (tl << 11) + (tr - tl) * fx, (bl << 11) + (br - bl) * fx
        return ((t << 11) + (b - t) * fy + (1 << 21)) >> 22
    if kind == "steps":
        t, b = tl + (tr - tl) * fx, bl + (br - bl) * fx
        return t + (b - t) * fy
    if kind == "fused_steps":
        t, b = (fused_multiply_add(right - left, fx, left) for left, right in ((tl, tr), (bl, br)))
        return fused_multiply_add(b - t, fy, t)
    if kind == "quarters":
        return ((tl + bl) + (tr + br)) * np.float32(0.25)
    gy, gx = np.float32(1) - fy, np.float32(1) - fx
    if kind == "weights":
        return (((np.float32(0) + tl * (gy * gx)) + tr * (gy * fx)) + bl * (fy * gx)) + br * (fy * fx)
    if kind == "fused_weights":
        total = tr * (gy * fx)
        for pixel, weight in ((tl, gy * gx), (bl, fy * gx), (br, fy * fx)):
            total = fused_multiply_add(pixel, weight, total)
        return total
    return (((tl * gy) * gx + (bl * fy) * gx) + (tr * gy) * fx) + (br * fy) * fx + np.float32(0)
