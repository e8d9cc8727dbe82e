"""Code of ``prim.scale_codes`` in lanes of 32 bits, by two limbs as ``prim.pair_sum`` (:mod:`.pair_sum`).

x as int32 is the pair of words (x, -1) where x is negative and (x, 0) elsewhere, so that one PMADDWD with the
limbs of slope and drop gives x * slope - drop for negative x.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from qimport import prim
from qimport.codegen.byte_requantize import packed, packs_bytes
from qimport.codegen.function import I8, I16, I32, KernelFunction
from qimport.codegen.isa.dot import multiply_add_pairs
from qimport.codegen.vector import clamp_signed, lanes_of, like, retyped, shuffle, vector_type
from qimport.ir.graph import Node
from qimport.prim.scale_codes import LIMB

MultiplyAdd = Callable[[KernelFunction, Any, Any, Any], Any]


def scale_codes(fn: KernelFunction, node: Node, codes: Any, lows: Any, highs: Any, rest: Any) -> Any:
    """Lanes of int8 or uint8 for lanes of ``codes`` and of int32 ``lows``, ``highs`` and ``rest``."""
    op, dtype = node.op, node.outputs[0].type.dtype
    assert isinstance(op, prim.ScaleCodes) and node.inputs[0] is not None
    extend = fn.b.sext if node.inputs[0].type.dtype == "int8" else fn.b.zext
    wide = extend(codes, retyped(codes, I32))
    x = fn.b.sub(wide, like(wide, op.input_zero))
    lanes, width = lanes_of(x), fn.target.lanes
    if not packs_bytes(fn.target) or lanes < width:
        total = fn.b.add(_total(fn, op, _by_words, x, lows, highs, rest), like(x, op.zero_point))
        return fn.b.trunc(clamp_signed(fn, total, op.low, op.high), retyped(total, I8))
    numbers = []
    for start in range(0, lanes, width):
        part = [shuffle(fn, v, v, range(start, start + width)) for v in (x, lows, highs, rest)]
        numbers.append(_total(fn, op, _by_pairs, *part))
    bounds = prim.Clamp(op.zero_point, op.low, op.high)
    return packed(fn, numbers, bounds, dtype)


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
