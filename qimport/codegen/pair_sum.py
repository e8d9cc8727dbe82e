"""Code of ``prim.pair_sum`` in lanes of 32 bits, by two limbs of the factors.

With m = m1 * 2^15 + m0, n likewise, and an offset of q * 2^s + r, floor((a m + b n + offset) / 2^s) is

    ((a m1 + b n1 + ((a m0 + b n0 + r) >> 15)) >> (s - 15)) + q

because floors of quotients nest. All limbs have 16 bits, so on x86 one PMADDWD of the words (a, b) gives both
products of a limb. The words come from bytes by interleaving with each other and then with zeros, for which
codes are taken as unsigned; packs with saturation put the results back in order. NEON widens a and b to words
of their own and adds the product of each with SMLAL. Saturation on the way changes no result: q has 15 bits,
results have 8.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from qimport import prim
from qimport.codegen.conversion import resized
from qimport.codegen.function import I8, I16, I32, KernelFunction
from qimport.codegen.isa import neon, packs
from qimport.codegen.isa.dot import multiply_add_pairs
from qimport.codegen.packing import bytes_of_words
from qimport.codegen.target import Target
from qimport.codegen.vector import (
    by_lanes,
    clamp_signed,
    concatenated,
    lanes_of,
    like,
    pairwise,
    retyped,
    shuffle,
    splat,
    vector_type,
)
from qimport.errors import CompilerBug
from qimport.ir.graph import Array, Node
from qimport.ir.types import INTEGER_RANGE
from qimport.prim.pair import FACTOR_BITS, STEP_BITS
from qimport.prim.scale_codes import LIMB

SMALLEST = 16
"""Bytes of the narrowest vector register."""

WORDS = 8
"""Words of a NEON register."""


def sections(node: Node, target: Target) -> Iterator[tuple[str, Array]]:
    """Role and content of each table: pairs of limbs as the words of one int32, r and q.

    The offset is that of the codes as the target takes them.
    """
    factors = node.inputs[2]
    assert factors is not None and factors.data is not None
    assert isinstance(node.op, prim.PairSum)
    shift = node.op.shift
    m, n, offset = (int(number) for number in factors.data)
    largest = abs(offset) + 128 * (abs(m) + abs(n))
    if max(abs(m), abs(n)) >= 1 << FACTOR_BITS or largest >= 1 << (STEP_BITS + shift):
        raise CompilerBug(f"{node.op.NAME} with factors {m}, {n}, offset {offset}, shift {shift}")
    if packs.available(target):
        for signed, factor in zip(_signed(node), (m, n), strict=True):
            offset -= 128 * factor * signed  # unsigned codes are larger by 128
    low = (1 << LIMB) - 1
    yield "high", np.array([_words(m >> LIMB, n >> LIMB)], np.int32)
    yield "low", np.array([_words(m & low, n & low)], np.int32)
    yield "rest", np.array([offset & ((1 << shift) - 1)], np.int32)
    yield "step", np.array([offset >> shift], np.int16)


def _signed(node: Node) -> list[bool]:
    """Whether the codes of each operand are."""
    return [value is not None and value.type.dtype == "int8" for value in node.inputs[:2]]


def _words(first: int, second: int) -> int:
    return second << 16 | first & 0xFFFF


class PairSummer:
    """Emits one ``prim.pair_sum``; ``number(role)`` loads the entry of a table."""

    def __init__(self, fn: KernelFunction, node: Node, number: Callable[[str], Any]) -> None:
        assert isinstance(node.op, prim.PairSum)
        self.fn, self.b, self.op, self.number = fn, fn.b, node.op, number
        self.signed = _signed(node)
        self.dtype = node.outputs[0].type.dtype

    def emit(self, a: Any, b: Any) -> Any:
        """The codes for lanes of codes."""
        if packs.available(self.fn.target):
            width = max(SMALLEST, min(lanes_of(a), self.fn.target.vector_bytes))
            codes = (
                self.b.xor(x, like(x, 0x80)) if signed else x
                for x, signed in zip((a, b), self.signed, strict=True)
            )
            return by_lanes(self.fn, width, self._register, *codes)
        if neon.available(self.fn.target) and lanes_of(a) >= neon.QUAD:
            width = SMALLEST if lanes_of(a) > WORDS else WORDS
            return by_lanes(self.fn, width, self._by_words, a, b)
        return self._by_products(a, b)

    def _wide(self, codes: Sequence[Any], element: Any) -> list[Any]:
        """The codes of both operands as wider integers."""
        return [
            resized(self.fn, x, element, not signed) for x, signed in zip(codes, self.signed, strict=True)
        ]

    def _total(self, limb: Callable[[str, Any], Any], lanes: int) -> Any:
        """The shifted sum without q; ``limb(role, total)`` adds the products of one limb."""
        low = limb("low", splat(self.fn, self.number("rest"), lanes))
        high = limb("high", self.b.ashr(low, like(low, LIMB)))
        return self.b.ashr(high, like(high, self.op.shift - LIMB))

    def _by_words(self, a: Any, b: Any) -> Any:
        """One or two NEON registers of words."""
        fn, halves = self.fn, range(0, lanes_of(a), WORDS)

        def factors(role: str) -> list[Any]:
            pair = self.b.bitcast(self.number(role), vector_type(I16, 2))
            return [shuffle(fn, pair, pair, [k] * WORDS) for k in (0, 1)]

        low, high = factors("low"), factors("high")
        rest, step = splat(fn, self.number("rest"), WORDS), splat(fn, self.number("step"), WORDS)
        words = []
        for start in halves:
            parts = [shuffle(fn, x, x, range(start, start + WORDS)) for x in (a, b)]
            total = sum_of_products(fn, self._wide(parts, I16), low, high, rest, self.op.shift)
            words.append(pairwise(fn, "sadd.sat", total, step))
        return bytes_of_words(fn, words, prim.Clamp(0, self.op.low, self.op.high), self.dtype)

    def _by_products(self, a: Any, b: Any) -> Any:
        """Four products of 32 bits."""
        a, b = self._wide((a, b), I32)

        def limb(role: str, total: Any) -> Any:
            words = splat(self.fn, self.number(role), lanes_of(a))
            half = like(words, 16)
            first, second = self.b.ashr(self.b.shl(words, half), half), self.b.ashr(words, half)
            return self.b.add(self.b.add(total, self.b.mul(a, first)), self.b.mul(b, second))

        total = self._total(limb, lanes_of(a))
        step = self.b.sext(self.number("step"), I32)
        codes = self.b.add(total, splat(self.fn, step, lanes_of(total)))
        return self.b.trunc(clamp_signed(self.fn, codes, self.op.low, self.op.high), retyped(codes, I8))

    def _register(self, a: Any, b: Any) -> Any:
        """Unsigned codes that fill a register with bytes."""
        words = [self._words(_interleaved(self.fn, a, b, upper)) for upper in (False, True)]
        if (self.op.low, self.op.high) != INTEGER_RANGE[self.dtype]:
            words = [clamp_signed(self.fn, part, self.op.low, self.op.high) for part in words]
        return packs.packed_bytes(self.fn, self.dtype, *words)

    def _words(self, mixed: Any) -> Any:
        """Sums as words, for bytes that are a and b in turn."""
        lanes = lanes_of(mixed)
        words = vector_type(I16, lanes // 2)
        totals = []
        for upper in (False, True):
            pairs = self.b.bitcast(_interleaved(self.fn, mixed, like(mixed, 0), upper), words)
            totals.append(self._total(partial(self._limb, pairs), lanes // 4))
        step = splat(self.fn, self.number("step"), lanes // 2)
        return pairwise(self.fn, "sadd.sat", packs.packed_words(self.fn, *totals), step)

    def _limb(self, pairs: Any, role: str, total: Any) -> Any:
        factors = splat(self.fn, self.number(role), lanes_of(total))
        return multiply_add_pairs(self.fn, total, pairs, self.b.bitcast(factors, pairs.type))


def sum_of_products(
    fn: KernelFunction, words: Sequence[Any], low: Sequence[Any], high: Sequence[Any], rest: Any, shift: int
) -> Any:
    """(words . factors + rest) >> shift of NEON registers of int16, saturated; factors in two limbs."""
    quads = []
    for start in range(0, WORDS, neon.QUAD):
        part = range(start, start + neon.QUAD)
        total = shuffle(fn, rest, rest, part)
        for factors in (low, high):
            for word, factor in zip(words, factors, strict=True):
                operands = (shuffle(fn, x, x, part) for x in (word, factor))
                total = fn.b.add(total, neon.widening_product(fn, *operands))
            if factors is low:
                total = fn.b.ashr(total, like(total, LIMB))
        quads.append(neon.narrowed(fn, total, shift - LIMB))
    return concatenated(fn, quads)


def _interleaved(fn: KernelFunction, a: Any, b: Any, upper: bool) -> Any:
    """PUNPCKLBW, or PUNPCKHBW for the ``upper`` halves of lanes of 128 bits."""
    lanes = lanes_of(a)
    places = [start + 8 * upper + i for start in range(0, lanes, 16) for i in range(8)]
    return shuffle(fn, a, b, [lane for place in places for lane in (place, lanes + place)])
