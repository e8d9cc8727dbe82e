"""Registers of numbers as vectors of bytes: plus a zero point, and bounded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from qimport import prim
from qimport.codegen.function import I32, KernelFunction
from qimport.codegen.isa import neon, packs
from qimport.codegen.target import Target
from qimport.codegen.vector import (
    clamp_bytes,
    concatenated,
    lanes_of,
    like,
    narrow,
    pairwise,
    shuffle,
    vector_type,
    widen,
)


def packs_bytes(target: Target) -> bool:
    """Whether the target has instructions for :func:`packed`."""
    return packs.available(target) or neon.available(target)


def packed(fn: KernelFunction, numbers: Sequence[Any], clamp: prim.Clamp, dtype: str) -> Any:
    """One, two or four registers of int32, plus the zero point, bounded, as one vector of bytes.

    Packing saturates, which is the bound where it is the whole range of ``dtype``.
    """
    if neon.available(fn.target):
        return _narrowed(fn, numbers, clamp, dtype)
    four = [*numbers, *[numbers[-1]] * (4 - len(numbers))]
    halves = [
        _plus_zero_point(fn, packs.packed_words(fn, a, b), clamp)
        for a, b in ((four[0], four[1]), (four[2], four[3]))
    ]
    result = _in_order(fn, packs.packed_bytes(fn, dtype, *halves))
    if len(numbers) < 4:
        result = shuffle(fn, result, result, range(len(numbers) * lanes_of(numbers[0])))
    return clamp_bytes(fn, result, clamp.low, clamp.high, dtype)


def _narrowed(fn: KernelFunction, numbers: Sequence[Any], clamp: prim.Clamp, dtype: str) -> Any:
    """The same by instructions that narrow one register to half of one; of three registers, too."""
    quads = [neon.narrowed(fn, number) for number in numbers]
    words = [
        concatenated(fn, quads[i : i + 2]) if quads[i + 1 :] else widen(fn, quads[i], 2 * neon.QUAD)
        for i in range(0, len(quads), 2)
    ]
    result = bytes_of_words(fn, words, clamp, dtype)
    if len(quads) == 1:
        return neon.part(fn, result, 0, neon.QUAD)
    return result if len(quads) % 2 == 0 else narrow(fn, result, len(quads) * neon.QUAD)


def bytes_of_words(fn: KernelFunction, words: Sequence[Any], clamp: prim.Clamp, dtype: str) -> Any:
    """One or two NEON registers of int16, plus the zero point, bounded, as one vector of bytes."""
    halves = [neon.narrowed_bytes(fn, _plus_zero_point(fn, word, clamp), dtype) for word in words]
    return clamp_bytes(fn, concatenated(fn, halves), clamp.low, clamp.high, dtype)


def _plus_zero_point(fn: KernelFunction, words: Any, clamp: prim.Clamp) -> Any:
    """Words that saturate."""
    return pairwise(fn, "sadd.sat", words, like(words, clamp.zero_point)) if clamp.zero_point else words


def _in_order(fn: KernelFunction, mixed: Any) -> Any:
    """Packs work within 16 bytes: part l of register j is dword 4 l + j and belongs to j * groups + l."""
    groups = lanes_of(mixed) // 16
    if groups == 1:
        return mixed
    dwords = fn.b.bitcast(mixed, vector_type(I32, lanes_of(mixed) // 4))
    order = [4 * group + register for register in range(4) for group in range(groups)]
    return fn.b.bitcast(shuffle(fn, dwords, dwords, order), mixed.type)
