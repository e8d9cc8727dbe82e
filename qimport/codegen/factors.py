"""Factors of ``prim.rescale`` as tables, in the form the target's instructions want.

A fixed-point factor is a multiplier m (0 <= m < 2^31), a left shift and a right shift s. For s > 0 both
double roundings are one shift of one 64-bit number (n is 2^31 for ``double_away`` and negative x, else 0):

    double rounding of x * m / 2^(31 + s) = (x * m + 2^30 + 2^(30 + s) - n) >> (31 + s)

and for s = 0 it is (x * m + 2^30) >> 31. A product that is rounded only once lacks the first 2^30; its s is
at least 1, with one more bit of left shift where that takes it. Adding 2^62 makes the sum non-negative, so
that a logical shift will do (SSE2 and AVX2 have no 64-bit arithmetic one); it comes out as 2^(31 - s), which
is subtracted afterwards, together with the zero point of a following clamp.

NEON needs none of this: SQRDMULH (SQDMULH for a product rounded once) and SRSHL are the roundings.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from qimport import fixedpoint, prim
from qimport.codegen.isa import neon
from qimport.codegen.target import Target
from qimport.errors import CompilerBug
from qimport.ir.graph import Array, Graph, Node

Ints = npt.NDArray[np.int64]

FEWEST_FRACTION_BITS, MOST_ROUND_FACTORS = 12, 1 / 16
"""Results with fewer bits behind the point lie in the middle of two integers too often to speculate that they
do not; and the share of channels that may be so."""

FLOAT_ROUNDING_LIMIT = 2**22
"""Floats up to this magnitude are rounded to integers by adding 1.5 * 2^23."""


@dataclass(frozen=True)
class FixedPointFacts:
    """What code may know about the factors of a fixed-point rescale.

    ``left``: some left shift is not zero. ``right``: every right shift is positive.
    ``negative``: for how many channels negative operands need the correction of ``double_away``.
    ``speculative``: results are rarely in the middle of two integers, so that floats may be tried first
    (:mod:`qimport.codegen.byte_requantize`).
    """

    left: bool
    right: bool
    negative: Literal["none", "some", "all"]
    speculative: bool


@dataclass(frozen=True)
class FixedPointFactors:
    """Per channel (or one): multiplier, left shift, right shift, and whether negatives are corrected.

    ``exact`` products are rounded once: their addend lacks 2^30.
    """

    multiplier: Ints
    left: Ints
    right: Ints
    negative: npt.NDArray[np.bool_]
    exact: bool

    @staticmethod
    def of(node: Node) -> FixedPointFactors:
        """From the constants of a fixed-point ``prim.rescale``."""
        op = node.op
        assert isinstance(op, prim.Rescale)
        multiplier, exponent = (_content(node, position) for position in (1, 2))
        shape = np.broadcast_shapes(multiplier.shape, exponent.shape)
        away = np.full(shape, op.rounding == "double_away")
        if op.leftover is not None and op.leftover != op.rounding:
            away = np.resize(away, node.outputs[0].type.shape[-1:])
            away[op.leftover_from :] = op.leftover == "double_away"
        multiplier, exponent = (
            np.broadcast_to(array.astype(np.int64), away.shape) for array in (multiplier, exponent)
        )
        if np.any(multiplier < 0) or np.any(exponent < -31) or np.any(exponent > 31):
            raise CompilerBug(f"{op.NAME} with a multiplier below zero or an exponent outside -31..31")
        # Zero stays zero for any shift.
        right = np.maximum(-exponent, 1 if op.exact else np.where(multiplier == 0, 1, 0))
        left = np.maximum(exponent + right if op.exact else exponent, 0)
        return FixedPointFactors(multiplier, left, right, away & (right > 0), op.exact)

    @property
    def addend(self) -> Ints:
        """What is added to products before their shift."""
        second = np.where(self.right > 0, 1 << (30 + self.right), 0)
        return np.asarray((1 << 62) + (0 if self.exact else 1 << 30) + second)

    @property
    def facts(self) -> FixedPointFacts:
        """What code may depend on."""
        negative = ("all" if self.negative.all() else "some") if self.negative.any() else "none"
        right, left = bool(self.right.all()), bool(self.left.any())
        speculative = right and not left and float(self._often_in_the_middle.mean()) <= MOST_ROUND_FACTORS
        return FixedPointFacts(left, right, negative, speculative)  # type: ignore[arg-type]

    @property
    def _often_in_the_middle(self) -> npt.NDArray[np.bool_]:
        """Channels whose factor is nearly a power of two."""
        lowest_bit = np.log2(np.maximum(self.multiplier & -self.multiplier, 1))
        fraction_bits = 31 + self.right - lowest_bit
        often: npt.NDArray[np.bool_] = (self.multiplier != 0) & (fraction_bits < FEWEST_FRACTION_BITS)
        return often


def _content(node: Node, position: int) -> npt.NDArray[Any]:
    value = node.inputs[position]
    if value is None or value.data is None:
        raise CompilerBug(f"{node.op.NAME}: factor {position} is not a constant")
    return value.data


def clamps_of_rescales(graph: Graph) -> dict[Node, Node]:
    """The ``prim.clamp`` that alone reads a rescale's result, where its zero point cannot overflow an int32.

    Fixed-point results with positive right shifts lie within 2^30 + 1; float ones are clamped unrounded.
    """
    users = graph.users()
    found = {}
    for node in graph.nodes:
        readers = users.get(node.outputs[0], [])
        if not isinstance(node.op, prim.Rescale) or node.outputs[0] in graph.outputs or len(readers) != 1:
            continue
        clamp = readers[0].op
        if isinstance(clamp, prim.Clamp) and _foldable(node, clamp):
            found[node] = readers[0]
    return found


def _foldable(node: Node, clamp: prim.Clamp) -> bool:
    assert isinstance(node.op, prim.Rescale)
    if node.op.fixed_point:
        return abs(clamp.zero_point) < 2**29 and FixedPointFactors.of(node).facts.right
    bounds = (clamp.low - clamp.zero_point, clamp.high - clamp.zero_point)
    return node.op.rounding == "float32_even" and max(map(abs, bounds)) <= FLOAT_ROUNDING_LIMIT


def sections(node: Node, clamp: Node | None, target: Target) -> Iterator[tuple[str, Array]]:
    """Role and content of each table of a rescale; arrays have one element or one per channel.

    64-bit tables come as two planes, for even and for odd channels: the halves of a 64-bit lane.
    """
    op = node.op
    assert isinstance(op, prim.Rescale)
    if op.rounding in ("single_up", "narrow_up"):
        yield from (_single if op.rounding == "single_up" else _narrow)(node)
        return
    if not op.fixed_point:
        yield "scale", _content(node, 1)
        return
    of = FixedPointFactors.of(node)
    yield "multiplier", of.multiplier.astype(np.int32)
    if of.facts.left:
        yield "left", of.left.astype(np.int32)
    if neon.available(target):
        yield "right", (-of.right).astype(np.int32)
        if of.facts.negative == "some":
            yield "negative", np.where(of.negative, -1, 0).astype(np.int32)
        return
    if of.facts.speculative and clamp is not None and clamp.outputs[0].type.itemsize == 1:
        yield from _speculated(of)
    zero_point = clamp.op.zero_point if clamp is not None and isinstance(clamp.op, prim.Clamp) else 0
    yield "offset", (zero_point - (1 << (31 - of.right))).astype(np.int32)
    yield from _planes("addend", of.addend)
    even, odd = _split(31 + of.right)
    yield "shift.even", even
    yield "shift.odd", odd - 32 if of.facts.right else odd
    if of.facts.negative == "some":
        yield from _planes("negative", np.where(of.negative, 1 << 31, 0))


def _speculated(of: FixedPointFactors) -> Iterator[tuple[str, Array]]:
    """The real factor in float32, what is added to its products, and which of those change sign with them."""
    yield "factor", np.ldexp(of.multiplier.astype(np.float64), -31 - of.right).astype(np.float32)
    nudged = (of.right > 0) & (not of.exact)
    yield "nudge", np.where(nudged, np.ldexp(1.0, -1 - of.right), 0.0).astype(np.float32)
    if of.facts.negative == "some":
        yield "sign", np.where(of.negative, -(2**31), 0).astype(np.int32)


def _single(node: Node) -> Iterator[tuple[str, Array]]:
    """The 16-bit multiplier, half of the last place and the right shift, for lanes of 64 bits."""
    multiplier, exponent = (_content(node, position).astype(np.int64) for position in (1, 2))
    if np.any(exponent >= 15):
        raise CompilerBug(f"{node.op.NAME} single_up with an exponent above 14")
    yield "multiplier", fixedpoint.reduced_multiplier(multiplier)
    yield "addend", np.int64(1) << (14 - exponent)
    yield "shift", 15 - exponent


def _narrow(node: Node) -> Iterator[tuple[str, Array]]:
    """A multiplier of 16 bits and both shifts, of which the right one leaves the bit that decides."""
    multiplier, exponent = (_content(node, position) for position in (1, 2))
    if np.any(exponent > 30) or np.any(exponent < -31):
        raise CompilerBug(f"{node.op.NAME} narrow_up with an exponent outside -31..30")
    yield "multiplier", multiplier.astype(np.int32)
    yield "left", np.where(exponent < 0, 0, exponent + 1).astype(np.int32)
    yield "right", np.maximum(-exponent - 1, 0).astype(np.int32)


def _split(table: Ints) -> tuple[Ints, Ints]:
    if table.size == 1:
        return table, table
    padded = np.resize(table, table.size + table.size % 2)
    return padded[0::2], padded[1::2]


def _planes(role: str, table: Ints) -> Iterator[tuple[str, Array]]:
    even, odd = _split(table)
    yield f"{role}.even", even
    yield f"{role}.odd", odd
