"""``prim.rescale`` and the clamp to bytes behind it, for whole registers of sums.

The float32 rule of XNNPACK is computed as it is, and on NEON so are those of fixed point. On x86 the
latter are *speculated* in float32, which takes half the instructions of integers: with
the real factor c = m / 2^(31 + s) they are floor(x * c + k + 1/2), where k is 2^-(s + 1), negative for
negative x under ``double_away`` (see :mod:`qimport.codegen.factors`). Computed in float32, x * c + k is off
by less than :data:`ERROR` where the result is a byte at all, so that rounding to the nearest integer gives
the same unless the value lies that close to the middle of two integers. Such lanes are *in doubt*: whoever
emits the code tests once for many lanes and computes them again with integers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import ir

from qimport import prim
from qimport.codegen.factors import FixedPointFacts
from qimport.codegen.function import F32, I32, Index, KernelFunction
from qimport.codegen.isa import neon
from qimport.codegen.packing import packed, packs_bytes
from qimport.codegen.requantize import rounded_by_neon
from qimport.codegen.sections import load_section
from qimport.codegen.tables import TableLayout
from qimport.codegen.target import Target
from qimport.codegen.vector import (
    lanes_of,
    like,
    magnitude,
    mangled,
    shuffle,
    vector_type,
)
from qimport.ir.graph import Node

ERROR = 2.0**-14
"""Bound of |float32 result - real result| while that stays within 256.

Sums beyond 2^24 lose up to 2^-24 of themselves when they become floats, the factor loses as much, the product
and the addition half a unit in the last place each: 256 * 2^-23 + 2^-16 + 2^-16.
"""

_FURTHEST_FROM_INTEGER = float(np.nextafter(np.float32(0.5 - ERROR), np.float32(0)))
_NEAREST, _MAGNITUDE_OF_LARGER = 0, 11
"""Immediates of VREDUCEPS (what rounding to the nearest integer takes away) and of VRANGEPS."""


def applies(layout: TableLayout, node: Node, target: Target) -> bool:
    """Whether a rescale and the clamp behind it can be computed so: bytes, and factors that suit floats."""
    clamp = layout.clamps.get(node)
    if not packs_bytes(target) or clamp is None or not isinstance(node.op, prim.Rescale):
        return False
    if clamp.outputs[0].type.dtype not in ("int8", "uint8") or node.inputs[0] is None:
        return False
    assert isinstance(clamp.op, prim.Clamp)
    if node.inputs[0].type.dtype != "int32" or not -256 < clamp.op.zero_point < 256:
        return False
    facts = layout.facts[node]
    if isinstance(facts, FixedPointFacts):
        return facts.speculative or not speculates(target)
    return node.op.rounding == "float32_even"


def speculates(target: Target) -> bool:
    """Whether fixed point is tried in floats first, so that results may be in doubt."""
    return not neon.available(target)


class ByteRequantizer:
    """Emits one rescale and its clamp for ``lanes`` sums: ``lanes // repeat`` channels, ``repeat`` times."""

    def __init__(
        self, fn: KernelFunction, node: Node, layout: TableLayout, channel: Index, lanes: int, repeat: int
    ) -> None:
        self.fn, self.b, self.node, self.layout, self.channel = fn, fn.b, node, layout, channel
        self.channels = lanes // repeat
        self.lanes = lanes
        self.width = fn.target.lanes
        clamp = layout.clamps[node]
        assert isinstance(clamp.op, prim.Clamp)
        self.clamp, self.dtype = clamp.op, clamp.outputs[0].type.dtype

    def emit(self, x: Any) -> tuple[Any, list[Any]]:
        """The bytes, and for fixed point what :func:`in_doubt` tests."""
        pieces = [
            shuffle(self.fn, x, x, range(start, start + self.width)) if self.lanes > self.width else x
            for start in range(0, self.lanes, self.width)
        ]
        numbers, doubts = [], list[Any]()
        for position, piece in enumerate(pieces):
            channel = self.fn.add(self.channel, position * self.width % self.channels)
            numbers.append(self._rounded(piece, channel, doubts))
        return packed(self.fn, numbers, self.clamp, self.dtype), doubts

    def _rounded(self, x: Any, channel: Index, doubts: list[Any]) -> Any:
        """One register of sums as integers, or as something beyond all bytes where those are."""
        op, facts = self.node.op, self.layout.facts[self.node]
        assert isinstance(op, prim.Rescale)
        if not isinstance(facts, FixedPointFacts):
            return self._float32(x, channel)
        if not speculates(self.fn.target):
            return rounded_by_neon(self.fn, x, op, facts, lambda role: self._table(role, channel))
        number, doubt = self._speculated(x, facts, channel)
        doubts.append(doubt)
        return number

    def _float32(self, x: Any, channel: Index) -> Any:
        """round_half_even(x * scale); x86 wants what is above int32 bounded before the conversion."""
        product = self.b.fmul(self.b.sitofp(x, vector_type(F32, self.width)), self._table("scale", channel))
        if neon.available(self.fn.target):
            return neon.nearest(self.fn, product)
        bounded = _minimum(self.fn, product, like(product, self.clamp.high - self.clamp.zero_point))
        return rounded(self.fn, bounded)

    def _speculated(self, x: Any, facts: FixedPointFacts, channel: Index) -> tuple[Any, Any]:
        """The nearest integer to x * c + k, and how far the value is from it."""
        nudge = self._table("nudge", channel)
        if facts.negative != "none":
            mask = like(x, -(2**31)) if facts.negative == "all" else self._table("sign", channel)
            bits = self.b.xor(self.b.bitcast(nudge, x.type), self.b.and_(x, mask))
            nudge = self.b.bitcast(bits, nudge.type)
        value = _multiply_add(self.fn, self.b.sitofp(x, nudge.type), self._table("factor", channel), nudge)
        number = rounded(self.fn, value)
        return number, fraction(self.fn, value, number)

    def _table(self, role: str, channel: Index) -> Any:
        """One register of a table at ``channel``."""
        return load_section(self.fn, self.layout.section(self.node, role), channel, self.width)


def unless_in_doubt(
    fn: KernelFunction, doubts: Sequence[Any], store: Callable[[], None], again: Callable[[], None]
) -> None:
    """Emit ``store``, and ``again`` in its place where any lane is in doubt; without ``doubts`` none is."""
    if not doubts:
        store()
        return
    with fn.b.if_else(in_doubt(fn, doubts), likely=False) as (rare, usual):
        with rare:
            again()
        with usual:
            store()


def in_doubt(fn: KernelFunction, distances: Sequence[Any]) -> Any:
    """Whether any lane of any of the ``distances`` from the nearest integer is too close to 1/2: an i1."""
    total = magnitude(fn, distances[0])
    for distance in distances[1:]:
        total = larger_magnitude(fn, total, distance)
    above = fn.b.fcmp_ordered(">", total, like(total, _FURTHEST_FROM_INTEGER))
    bits = ir.IntType(lanes_of(total))
    return fn.b.icmp_unsigned("!=", fn.b.bitcast(above, bits), bits(0))


def rounded(fn: KernelFunction, value: Any) -> Any:
    """float32 to int32, ties to even; what does not fit is -2^31."""
    type_ = vector_type(I32, lanes_of(value))
    if lanes_of(value) == 16:
        everywhere = [like(fn.b.bitcast(value, type_), 0), ir.IntType(16)(-1), I32(4)]
        return fn.intrinsic("llvm.x86.avx512.mask.cvtps2dq.512", type_, [value, *everywhere])
    name = {8: "llvm.x86.avx.cvt.ps2dq.256", 4: "llvm.x86.sse2.cvtps2dq"}[lanes_of(value)]
    return fn.intrinsic(name, type_, [value])


def fraction(fn: KernelFunction, value: Any, number: Any) -> Any:
    """value - number, exactly, where ``number`` is the integer that ``value`` was rounded to."""
    if lanes_of(value) == 16:
        rest = [I32(_NEAREST), like(value, 0.0), ir.IntType(16)(-1), I32(4)]
        return fn.intrinsic("llvm.x86.avx512.mask.reduce.ps.512", value.type, [value, *rest])
    return fn.b.fsub(value, fn.b.sitofp(number, value.type))


def larger_magnitude(fn: KernelFunction, total: Any, value: Any) -> Any:
    """max(total, |value|) for ``total`` >= 0."""
    if lanes_of(total) == 16:
        rest = [I32(_MAGNITUDE_OF_LARGER), like(total, 0.0), ir.IntType(16)(-1), I32(4)]
        return fn.intrinsic("llvm.x86.avx512.mask.range.ps.512", total.type, [total, value, *rest])
    size = magnitude(fn, value)
    return fn.b.select(fn.b.fcmp_ordered(">", total, size), total, size)


def _multiply_add(fn: KernelFunction, a: Any, b: Any, c: Any) -> Any:
    """a * b + c, rounded once or twice: :data:`ERROR` holds for both."""
    if fn.target.has("avx2"):
        return fn.intrinsic(f"llvm.fma.{mangled(a.type)}", a.type, [a, b, c])
    return fn.b.fadd(fn.b.fmul(a, b), c)


def _minimum(fn: KernelFunction, value: Any, limit: Any) -> Any:
    """The smaller one; there are no NaNs."""
    return fn.b.select(fn.b.fcmp_ordered("<", value, limit), value, limit)
