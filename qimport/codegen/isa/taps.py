"""Dot products of a window's taps: 32-bit lanes that are channels, each with its own activations and weights.

A lane gets ``group`` taps per step: four bytes, or two words of 16 bits. They come from as many rows of the
input, interleaved by unpack (zip) instructions. These work inside 128 bits, so rows are permuted first such
that the results hold channels in their natural order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from llvmlite import ir

from qimport.codegen.function import F32, KernelFunction
from qimport.codegen.isa.dot import Product, multiply_add_pairs
from qimport.codegen.isa.instruction import Instruction
from qimport.codegen.vector import element_of, lanes_of, like, shuffle
from qimport.fixedpoint import wrap32
from qimport.ir.graph import Array

CHUNK_BYTES = 16
"""What unpack instructions see at a time."""

TAP_BYTES = 4
"""Bytes of taps per channel and step."""


@dataclass(frozen=True)
class TapProduct(Instruction):
    """One way to accumulate ``group`` taps of ``lanes`` channels.

    ``unsigned``: whether bytes of activations are taken as
    0..255 or as -128..127; weights are signed. ``product(fn, acc, x, w)`` emits the step: acc has ``lanes``
    of int32, x and w are as long, in bytes or words. No step saturates.
    """

    lanes: int
    group: int
    unsigned: bool
    product: Product

    @property
    def weight_dtype(self) -> str:
        """Element type of packed weights."""
        return "int8" if self.group == TAP_BYTES else "int16"

    def meaning(self, acc: Array, x: Array, w: Array) -> Array:
        """acc int32[lanes] + the sums over the last dimension of x[lanes, group] * w[lanes, group]."""
        products = x.astype(np.int64) * w.astype(np.int64)
        return wrap32(acc.astype(np.int64) + products.sum(-1)).astype(np.int32)

    def interleave(self, fn: KernelFunction, rows: Sequence[Any]) -> list[Any]:
        """The taps of as many channels as a row has elements, in order: one vector, or several registers.

        At most ``group`` rows; missing ones are zeros, and bytes become words where the product wants words.
        """
        zero = like(rows[0], 0)
        rows = [*rows, *[zero] * (self.group - len(rows))]
        itemsize = element_of(zero.type).width // 8
        if lanes_of(zero) * itemsize < CHUNK_BYTES:
            join = _zip
        else:
            join = _unpack
            rows = [row if row is zero else _spread(fn, row, TAP_BYTES // itemsize) for row in rows]
        if self.group * itemsize < TAP_BYTES:
            rows = [part for row in rows for part in (row, zero)]
        return _interleaved(fn, rows, join)


def interleaved(fn: KernelFunction, rows: Sequence[Any]) -> Any:
    """Rows of less than a register, a power of two of them, with their elements in turns, as one vector."""
    return _interleaved(fn, rows, _zip)[0]


def _interleaved(fn: KernelFunction, rows: Sequence[Any], join: Callable[..., list[Any]]) -> list[Any]:
    """Element 0 of every row, element 1 of every row, and so on; the number of rows is a power of two."""
    if len(rows) == 1:
        return list(rows)
    halves = (_interleaved(fn, rows[start::2], join) for start in (0, 1))
    return [part for even, odd in zip(*halves, strict=True) for part in join(fn, even, odd)]


def _zip(fn: KernelFunction, a: Any, b: Any) -> list[Any]:
    """Elements of a and b in turns, as one vector."""
    count = lanes_of(a)
    return [shuffle(fn, a, b, [place for lane in range(count) for place in (lane, count + lane)])]


def _unpack(fn: KernelFunction, a: Any, b: Any) -> list[Any]:
    """The same from the low and from the high halves of each 128 bits."""
    count = lanes_of(a)
    chunk = CHUNK_BYTES * 8 // element_of(a.type).width
    order = [
        [place for start in range(0, count, chunk) for lane in range(chunk // 2)
         for place in (start + half + lane, count + start + half + lane)]
        for half in (0, chunk // 2)
    ]  # fmt: skip
    return [shuffle(fn, a, b, places) for places in order]


def _spread(fn: KernelFunction, row: Any, parts: int) -> Any:
    """A row such that, unpacked into ``parts`` vectors, each of them holds neighbouring elements in order.

    The fence keeps LLVM from merging this with what follows into shuffles of bytes from two registers, which
    take three times as long.
    """
    count = lanes_of(row)
    chunks = count * element_of(row.type).width // (8 * CHUNK_BYTES)
    piece = count // chunks // parts
    order = [
        (part * chunks + chunk) * piece + lane
        for chunk in range(chunks) for part in range(parts) for lane in range(piece)
    ]  # fmt: skip
    if chunks == 1:
        return row
    spread = shuffle(fn, row, row, order)
    lanes = ir.VectorType(F32, count * element_of(row.type).width // 32)
    name = f"llvm.arithmetic.fence.v{lanes.count}f32"
    return fn.b.bitcast(fn.intrinsic(name, lanes, [fn.b.bitcast(spread, lanes)]), row.type)


def _dot(name: str) -> Product:
    """An instruction that takes the accumulator and both operands, of which VPDPBUSD speaks as lanes."""

    def product(fn: KernelFunction, acc: Any, x: Any, w: Any) -> Any:
        operand = acc.type if "vpdpbusd" in name else w.type
        return fn.intrinsic(name, acc.type, [acc, fn.b.bitcast(x, operand), fn.b.bitcast(w, operand)])

    return product


def _multiply_add(fn: KernelFunction, acc: Any, x: Any, w: Any) -> Any:
    """``pmaddwd`` and an addition. Activations of 16 and weights of 9 bits: two products cannot saturate."""
    return multiply_add_pairs(fn, acc, fn.b.bitcast(x, w.type), w)


TAP_PRODUCTS: tuple[TapProduct, ...] = (
    TapProduct("avx512vnni", "x86-64", ("avx512vnni",), 16, 4, True,
               _dot("llvm.x86.avx512.vpdpbusd.512")),
    TapProduct("avxvnni", "x86-64", ("avxvnni",), 8, 4, True, _dot("llvm.x86.avx512.vpdpbusd.256")),
    TapProduct("dotprod", "arm64", ("dotprod",), 4, 4, False,
               _dot("llvm.aarch64.neon.sdot.v4i32.v16i8")),
    TapProduct("avx512vnni_pairs", "x86-64", ("avx512vnni",), 16, 2, True,
               _dot("llvm.x86.avx512.vpdpwssd.512")),
    TapProduct("avxvnni_pairs", "x86-64", ("avxvnni",), 8, 2, True, _dot("llvm.x86.avx512.vpdpwssd.256")),
    TapProduct("avx512_pairs", "x86-64", ("avx512",), 16, 2, True, _multiply_add),
    TapProduct("avx2_pairs", "x86-64", ("avx2",), 8, 2, True, _multiply_add),
    TapProduct("sse2_pairs", "x86-64", (), 4, 2, True, _multiply_add),
    TapProduct("wasm_pairs", "wasm32", (), 4, 2, True, _multiply_add),
)  # fmt: skip
"""Best first. Pairs of words also take 16-bit activations and weights with any zero point."""
