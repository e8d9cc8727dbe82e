"""Code of ``prim.scale_codes`` in lanes of 32 bits, by two limbs as ``prim.pair_sum`` (:mod:`.pair_sum`).

x as int32 is the pair of words (x, -1) where x is negative and (x, 0) elsewhere, so that one PMADDWD with the
limbs of slope and drop gives x * slope - drop for negative x. NEON takes x and its sign as words of their
own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from qimport import prim
from qimport.codegen.conversion import resized
from qimport.codegen.function import I8, I16, I32, KernelFunction
from qimport.codegen.isa import neon, packs
from qimport.codegen.isa.dot import multiply_add_pairs
from qimport.codegen.packing import bytes_of_words, packed
from qimport.codegen.pair_sum import WORDS, sum_of_products
from qimport.codegen.vector import clamp_signed, lanes_of, like, retyped, shuffle, vector_type
from qimport.ir.graph import Node
from qimport.prim.scale_codes import LIMB

MultiplyAdd = Callable[[KernelFunction, Any, Any, Any], Any]


def scale_codes(fn: KernelFunction, node: Node, codes: Any, lows: Any, highs: Any, rest: Any) -> Any:
    """Lanes of int8 or uint8 for lanes of ``codes`` and of int32 ``lows``, ``highs`` and ``rest``."""
    op, dtype = node.op, node.outputs[0].type.dtype
    assert isinstance(op, prim.ScaleCodes) and node.inputs[0] is not None
    unsigned = node.inputs[0].type.dtype == "uint8"
    bounds = prim.Clamp(op.zero_point, op.low, op.high)
    if neon.available(fn.target) and lanes_of(codes) % WORDS == 0:
        x = _without_zero(fn, op, codes, unsigned, I16)
        halves = [
            _by_smull(
                fn, op, *(shuffle(fn, v, v, range(start, start + WORDS)) for v in (x, lows, highs, rest))
            )
            for start in range(0, lanes_of(x), WORDS)
        ]
        return bytes_of_words(fn, halves, bounds, dtype)
    x = _without_zero(fn, op, codes, unsigned, I32)
    lanes, width = lanes_of(x), fn.target.lanes
    if not packs.available(fn.target) or lanes < width:
        total = fn.b.add(_total(fn, op, _by_words, x, lows, highs, rest), like(x, op.zero_point))
        return fn.b.trunc(clamp_signed(fn, total, op.low, op.high), retyped(total, I8))
    numbers = []
    for start in range(0, lanes, width):
        part = [shuffle(fn, v, v, range(start, start + width)) for v in (x, lows, highs, rest)]
        numbers.append(_total(fn, op, _by_pairs, *part))
    return packed(fn, numbers, bounds, dtype)


def _without_zero(fn: KernelFunction, op: prim.ScaleCodes, codes: Any, unsigned: bool, element: Any) -> Any:
    """Codes less their zero point, as wider integers."""
    wide = resized(fn, codes, element, unsigned)
    return fn.b.sub(wide, like(wide, op.input_zero))


def _by_smull(fn: KernelFunction, op: prim.ScaleCodes, x: Any, lows: Any, highs: Any, rest: Any) -> Any:
    """A NEON register of words, not yet with the zero point."""
    sign = fn.b.ashr(x, like(x, 15))
    return sum_of_products(fn, (x, sign), _words(fn, lows), _words(fn, highs), rest, op.shift)


def _words(fn: KernelFunction, limbs: Any) -> list[Any]:
    """The limbs of the slopes, and those of the drops."""
    both = fn.b.bitcast(limbs, vector_type(I16, 2 * lanes_of(limbs)))
    return [shuffle(fn, both, both, range(k, lanes_of(both), 2)) for k in (0, 1)]


def _total(
    fn: KernelFunction, op: prim.ScaleCodes, multiply: MultiplyAdd, x: Any, lows: Any, highs: Any, rest: Any
) -> Any:
    low = multiply(fn, rest, x, lows)
    high = multiply(fn, fn.b.ashr(low, like(low, LIMB)), x, highs)
    return fn.b.ashr(high, like(high, op.shift - LIMB))


def _by_pairs(fn: KernelFunction, total: Any, x: Any, limbs: Any) -> Any:
    words = vector_type(I16, 2 * lanes_of(x))
    return multiply_add_pairs(fn, total, fn.b.bitcast(x, words), fn.b.bitcast(limbs, words))


def _by_words(fn: KernelFunction, total: Any, x: Any, limbs: Any) -> Any:
    """One product of 32 bits, and what negative x drop."""
    half, sign = like(x, 16), fn.b.ashr(x, like(x, 31))
    slope, drop = fn.b.ashr(fn.b.shl(limbs, half), half), fn.b.ashr(limbs, half)
    return fn.b.sub(fn.b.add(total, fn.b.mul(x, slope)), fn.b.and_(sign, drop))
