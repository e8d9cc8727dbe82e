"""Dot-product steps: 32-bit lanes that accumulate short products of activations and weights.

Every step adds, in each int32 lane, ``group`` products of one pixel's activations (the same four bytes
for all lanes: four codes of 8 bits or two of 16) with that lane's own weights, wrapping. ``meaning`` is the
step in NumPy; no step saturates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from qimport.codegen.function import I16, I32, KernelFunction
from qimport.codegen.isa.instruction import Instruction
from qimport.codegen.vector import lanes_of, retyped, shuffle, splat, vector_type
from qimport.fixedpoint import wrap32
from qimport.ir.graph import Array

Product = Callable[[KernelFunction, Any, Any, Any], Any]


@dataclass(frozen=True)
class DotProduct(Instruction):
    """One way to accumulate the products of four bytes of activations per lane.

    ``lanes``: int32 lanes of a register. ``registers``: how many
    accumulators fit beside the operands. ``weight_dtype``: int8 weights need the activations' sum when
    they have a zero point, int16 ones have it subtracted. ``adjacent``: how many products of a lane
    lie side by side in its weights, [group / adjacent][lane][adjacent]. ``unsigned``: whether activations are
    taken as 0..255 or -128..127. ``product(fn, acc, x, w)`` emits the step: acc and w for ``lanes`` lanes,
    x one i32 of four bytes. ``group``: activations in these, 4 of 8 bits or 2 of 16 bits.
    """

    lanes: int
    registers: int
    weight_dtype: str
    adjacent: int
    unsigned: bool
    product: Product
    group: int = 4

    def meaning(self, acc: Array, x: Array, w: Array) -> Array:
        """acc int32[lanes] + x[group] . w[lanes, group], modulo 2^32."""
        return wrap32(acc.astype(np.int64) + w.astype(np.int64) @ x.astype(np.int64)).astype(np.int32)


WORD_BYTES = 4
"""Bytes of activations per step."""


def _dot_bytes(name: str, lanes: int) -> Product:
    """An instruction that takes both operands as bytes."""

    def product(fn: KernelFunction, acc: Any, x: Any, w: Any) -> Any:
        repeated = splat(fn, x, lanes)
        x, w = fn.b.bitcast(repeated, acc.type), fn.b.bitcast(w, acc.type)
        return fn.intrinsic(name, acc.type, [acc, x, w])

    return product


def _widening_multiply(lanes: int, group: int) -> Product:
    """Products of words as plain integer arithmetic; NEON has SMLAL for each."""

    def product(fn: KernelFunction, acc: Any, x: Any, w: Any) -> Any:
        words = fn.b.bitcast(x, vector_type(I16, group))
        for k in range(group):
            activation = fn.b.sext(shuffle(fn, words, words, [k] * lanes), acc.type)
            part = fn.b.sext(shuffle(fn, w, w, range(k * lanes, (k + 1) * lanes)), acc.type)
            acc = fn.b.add(acc, fn.b.mul(activation, part))
        return acc

    return product


def _pairs_of_words(lanes: int, name: str = "") -> Product:
    """Two words times two words per lane; ``name``: an instruction that takes the accumulator as well."""

    def product(fn: KernelFunction, acc: Any, x: Any, w: Any) -> Any:
        words = vector_type(I16, 2 * lanes)
        x, w = fn.b.bitcast(splat(fn, x, lanes), words), fn.b.bitcast(w, words)
        if name:
            return fn.intrinsic(name, acc.type, [acc, x, w])
        return multiply_add_pairs(fn, acc, x, w)

    return product


_PAIRS = {
    ("x86-64", 16): "llvm.x86.avx512.pmaddw.d.512",
    ("x86-64", 8): "llvm.x86.avx2.pmadd.wd",
    ("x86-64", 4): "llvm.x86.sse2.pmadd.wd",
    ("wasm32", 4): "llvm.wasm.dot",
}
"""The multiply-and-add of words on an architecture, for this many lanes of sums."""


def multiply_add_pairs(fn: KernelFunction, acc: Any, a: Any, b: Any) -> Any:
    """acc plus the products of words ``a`` and ``b``, two neighbours into each lane, modulo 2^32."""
    lanes = lanes_of(a) // 2
    name = _PAIRS.get((fn.target.architecture.name, lanes))
    if name and lanes * 4 <= fn.target.vector_bytes:
        return fn.b.add(acc, fn.intrinsic(name, acc.type, [a, b]))
    wide = retyped(a, I32)
    products = fn.b.mul(fn.b.sext(a, wide), fn.b.sext(b, wide))
    if lanes == 1:
        first, second = (fn.b.extract_element(products, I32(lane)) for lane in (0, 1))
        return fn.b.add(acc, fn.b.add(first, second))
    halves = (shuffle(fn, products, products, range(half, 2 * lanes, 2)) for half in (0, 1))
    return fn.b.add(acc, fn.b.add(*halves))


DOT_PRODUCTS: tuple[DotProduct, ...] = (
    DotProduct("avx512vnni", "x86-64", ("avx512vnni",), 16, 30, "int8", 4, True,
               _dot_bytes("llvm.x86.avx512.vpdpbusd.512", 16)),
    DotProduct("avxvnni", "x86-64", ("avxvnni",), 8, 14, "int8", 4, True,
               _dot_bytes("llvm.x86.avx512.vpdpbusd.256", 8)),
    DotProduct("avx512", "x86-64", ("avx512",), 16, 29, "int16", 2, True, _pairs_of_words(16), 2),
    DotProduct("avx2", "x86-64", ("avx2",), 8, 14, "int16", 2, True, _pairs_of_words(8), 2),
    DotProduct("sse2", "x86-64", (), 4, 14, "int16", 2, True, _pairs_of_words(4), 2),
    DotProduct("wasm", "wasm32", (), 4, 14, "int16", 2, True, _pairs_of_words(4), 2),
)  # fmt: skip
"""Best first; the first that the target has is used. Steps on two activations take bytes widened to words."""

WORD_PRODUCTS: tuple[DotProduct, ...] = (
    DotProduct("avx512vnni_words", "x86-64", ("avx512vnni",), 16, 30, "int16", 2, False,
               _pairs_of_words(16, "llvm.x86.avx512.vpdpwssd.512"), 2),
    DotProduct("avxvnni_words", "x86-64", ("avxvnni",), 8, 14, "int16", 2, False,
               _pairs_of_words(8, "llvm.x86.avx512.vpdpwssd.256"), 2),
    DotProduct("avx512_words", "x86-64", ("avx512",), 16, 29, "int16", 2, False, _pairs_of_words(16), 2),
    DotProduct("avx2_words", "x86-64", ("avx2",), 8, 14, "int16", 2, False, _pairs_of_words(8), 2),
    DotProduct("sse2_words", "x86-64", (), 4, 14, "int16", 2, False, _pairs_of_words(4), 2),
    DotProduct("wasm_words", "wasm32", (), 4, 14, "int16", 2, False, _pairs_of_words(4), 2),
    DotProduct("neon_words", "arm64", ("neon",), 4, 22, "int16", 1, False, _widening_multiply(4, 2), 2),
)  # fmt: skip
"""The same for activations of 16 bits. Products with weights of 9 bits take 24, so pairs cannot saturate."""
