"""Code of ``prim.rescale``, with the following clamp where it can be folded in.

Fixed point on lanes of 32 bits: even and odd lanes are multiplied as the low and high halves of 64-bit lanes,
so no lane moves; the odd results are shifted into the high halves and blended. Vectors start at even
channels. NEON has an instruction for each rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from qimport import prim
from qimport.codegen.factors import FixedPointFacts
from qimport.codegen.function import F32, F64, I32, I64, Index, KernelFunction, index
from qimport.codegen.isa import neon
from qimport.codegen.rounding import small_even, to_float, to_int32
from qimport.codegen.sections import load_section
from qimport.codegen.tables import TableLayout
from qimport.codegen.vector import (
    clamp_signed,
    constant,
    like,
    pairwise,
    repeated,
    shuffle,
    splat,
    vector_type,
)
from qimport.ir.graph import Node

Table = Callable[[str], Any]
"""The lanes of a role's table."""


def shifted_left(fn: KernelFunction, x: Any, op: prim.Rescale, facts: FixedPointFacts, table: Table) -> Any:
    """What comes before the product of a fixed-point rounding."""
    if not facts.left:
        return x
    if op.rounding == "exact_up_saturated":
        return pairwise(fn, "sshl.sat", x, table("left"))
    return fn.b.shl(x, table("left"))


def rounded_by_neon(
    fn: KernelFunction, x: Any, op: prim.Rescale, facts: FixedPointFacts, table: Table
) -> Any:
    """A fixed-point rounding of int32 lanes by an instruction for each of its steps.

    Products do not saturate, as multipliers are not negative. SRSHL rounds ties up; one less than a negative
    number rounds up to what that number itself rounds to away from zero.
    """
    multiply = neon.high_product if op.exact else neon.rounded_high_product
    high = multiply(fn, shifted_left(fn, x, op, facts, table), table("multiplier"))
    if facts.negative != "none":
        sign = fn.b.ashr(high, like(high, 31))
        high = fn.b.add(high, sign if facts.negative == "all" else fn.b.and_(sign, table("negative")))
    return neon.rounding_shift(fn, high, table("right"))


class Rescaler:
    """Emits one rescale node on ``lanes`` elements: ``repeat`` times the channels from ``channel`` on."""

    def __init__(
        self,
        fn: KernelFunction,
        node: Node,
        layout: TableLayout,
        channel: Index,
        lanes: int,
        repeat: int = 1,
    ) -> None:
        self.fn = fn
        self.b = fn.b
        self.node = node
        self.layout = layout
        self.channel = channel
        self.lanes = lanes
        self.repeat = repeat
        self.clamp = layout.clamps.get(node)

    def emit(self, x: Any) -> Any:
        """The rescaled ``x``; when a clamp is folded in, its result before the element type narrows."""
        assert isinstance(self.node.op, prim.Rescale)
        if self.node.op.rounding == "single_up":
            return self._single(x)
        if self.node.op.rounding == "narrow_up":
            return self._narrow(x)
        if not self.node.op.fixed_point:
            return self._float(x, self.node.op.rounding)
        facts = self.layout.facts[self.node]
        assert isinstance(facts, FixedPointFacts)
        if self.clamp is None:
            return self._fixed(x, self.node.op, facts, 0)
        assert isinstance(self.clamp.op, prim.Clamp)
        result = self._fixed(x, self.node.op, facts, self.clamp.op.zero_point)
        return clamp_signed(self.fn, result, self.clamp.op.low, self.clamp.op.high)

    def _fixed(self, x: Any, op: prim.Rescale, facts: FixedPointFacts, zero_point: int) -> Any:
        """A fixed-point rounding, plus the zero point of the clamp that is folded in."""
        if neon.available(self.fn.target):
            result = rounded_by_neon(self.fn, x, op, facts, self._table)
            return self.b.add(result, like(result, zero_point)) if zero_point else result
        x = shifted_left(self.fn, x, op, facts, self._table)
        return self._wide_scalar(x, facts) if self.lanes == 1 else self._wide(x, facts)

    def _table(self, role: str) -> Any:
        """A table at this channel: one value for every lane, or a vector of them."""
        section = self.layout.section(self.node, role)
        return load_section(self.fn, section, self.channel, self.lanes, self.repeat)

    def _plane(self, role: str) -> Any:
        """A plane of a 64-bit table: every second channel, one 64-bit lane for two lanes."""
        section = self.layout.section(self.node, role)
        type_ = ir.VectorType(I64, self.lanes // 2)
        base = self.fn.at(self.fn.tables, section.offset)
        if section.count == 1:
            scalar = self.fn.load(base, I64, 8)
            return (
                self.b.bitcast(scalar, type_) if self.lanes == 2 else splat(self.fn, scalar, self.lanes // 2)
            )
        if isinstance(self.channel, int):
            place = self.fn.at(base, self.channel // 2 * 8)
        else:  # two channels of 4 bytes take as much room as one entry
            place = self.fn.at(base, self.b.mul(self.channel, index(4)))
        channels = ir.VectorType(I64, self.lanes // 2 // self.repeat)
        return repeated(self.fn, self.fn.load(place, channels, 8), self.repeat)

    def _single(self, x: Any) -> Any:
        """64-bit lanes: multiply, add half, shift; the result wraps into 32 bits."""
        product = self.b.add(self.b.mul(x, self._table("multiplier")), self._table("addend"))
        return self.b.trunc(self.b.ashr(product, self._table("shift")), vector_type(I32, self.lanes))

    def _narrow(self, x: Any) -> Any:
        """Shift, keeping one bit that decides how to round to int16, and multiply by 16 bits."""
        shifted = self.b.ashr(pairwise(self.fn, "sshl.sat", x, self._table("left")), self._table("right"))
        bounded = clamp_signed(self.fn, shifted, -(2**16), 2**16 - 2)
        narrow = self.b.ashr(self.b.add(bounded, like(x, 1)), like(x, 1))
        product = self.b.add(self.b.mul(narrow, self._table("multiplier")), like(x, 2**14))
        return self.b.ashr(product, like(x, 15))

    def _wide(self, x: Any, facts: FixedPointFacts) -> Any:
        """The identity of :mod:`qimport.codegen.factors` on both halves of 64-bit lanes."""
        pairs = ir.VectorType(I64, self.lanes // 2)
        x, multiplier = self.b.bitcast(x, pairs), self.b.bitcast(self._table("multiplier"), pairs)
        half = constant(pairs, 32)
        even = self._rounded(
            self.b.ashr(self.b.shl(x, half), half),
            self.b.ashr(self.b.shl(multiplier, half), half),
            facts,
            self._plane,
            "even",
        )
        odd = self._rounded(self.b.ashr(x, half), self.b.ashr(multiplier, half), facts, self._plane, "odd")
        lanes = vector_type(I32, self.lanes)
        source = range(1 if facts.right else 0, self.lanes, 2)
        order = [lane for k, odd_lane in enumerate(source) for lane in (2 * k, self.lanes + odd_lane)]
        result = shuffle(self.fn, self.b.bitcast(even, lanes), self.b.bitcast(odd, lanes), order)
        return self.b.add(result, self._table("offset"))

    def _wide_scalar(self, x: Any, facts: FixedPointFacts) -> Any:
        """The same for a single element, whose channel may be even or odd."""
        parity = self._parity()

        def entry(role: str) -> Any:
            even = self.layout.section(self.node, role.replace(".odd", ".even"))
            distance = self.layout.section(self.node, role.replace(".even", ".odd")).offset - even.offset
            offset: Index = even.offset
            if even.count > 1 or not isinstance(parity, int) or parity:
                pair = (
                    self.channel // 2
                    if isinstance(self.channel, int)
                    else self.b.lshr(self.channel, index(1))
                )
                position = self.fn.add(self.fn.mul(pair, 8), self.fn.mul(parity, distance))
                offset = self.fn.add(even.offset, position)
            return self.fn.load(self.fn.at(self.fn.tables, offset), I64, 8)

        wide = self._rounded(
            self.b.sext(x, I64), self.b.sext(self._table("multiplier"), I64), facts, entry, "even", parity
        )
        return self.b.add(self.b.trunc(wide, I32), self._table("offset"))

    def _parity(self) -> Index:
        """0 or 1: which plane holds the channel; single factors are read from the even one."""
        if self.layout.section(self.node, "multiplier").count == 1:
            return 0
        return self.channel % 2 if isinstance(self.channel, int) else self.b.and_(self.channel, index(1))

    def _rounded(
        self, x: Any, multiplier: Any, facts: FixedPointFacts, table: Any, plane: str, parity: Index = 0
    ) -> Any:
        """x * multiplier, rounded and shifted; ``table(role)`` gives a table's 64-bit values."""
        total = self.b.add(self.b.mul(x, multiplier), table(f"addend.{plane}"))
        if facts.negative != "none":
            everywhere = facts.negative == "all"
            bit = constant(x.type, 1 << 31) if everywhere else table(f"negative.{plane}")
            total = self.b.sub(total, self.b.and_(x, bit))
        shift = table(f"shift.{plane}")
        if facts.right and not (isinstance(parity, int) and parity == 0):
            shift = self.b.add(shift, index(self.fn.mul(parity, 32)))
        return self.b.lshr(total, shift)

    def _float(self, x: Any, rounding: str) -> Any:
        element = F32 if rounding == "float32_even" else F64
        product = self.b.fmul(to_float(self.fn, x, element), self._table("scale"))
        if element == F64:
            return to_int32(self.fn, product, "away", saturate=rounding == "float64_away_saturated")
        if self.clamp is None:
            return to_int32(self.fn, product, "even", saturate=True)
        clamp = self.clamp.op
        assert isinstance(clamp, prim.Clamp)
        low, high = clamp.low - clamp.zero_point, clamp.high - clamp.zero_point
        return small_even(self.fn, product, low, high, clamp.zero_point)
