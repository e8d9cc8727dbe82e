"""Sums over the taps of a window in lanes that are channels, for windows that are kept in registers.

A step multiplies ``group`` pixels of the input by their weights, for ``CHANNELS`` neighbouring channels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np

from qimport.codegen.function import I16, I32, KernelFunction
from qimport.codegen.isa.instruction import Instruction
from qimport.codegen.isa.taps import interleaved
from qimport.codegen.vector import concatenated, lanes_of, like, retyped, shuffle
from qimport.fixedpoint import wrap32
from qimport.ir.graph import Array

CHANNELS = 8
"""Channels of a step: half a register of bytes, a register of words."""

Steps = Sequence[tuple[Any, Any]]


@dataclass(frozen=True)
class ChannelProduct(Instruction):
    """One way to accumulate taps of ``CHANNELS`` channels.

    ``group``: pixels of the input per step, below each other or (``across``) side by side. ``dtype``: int8
    or int16, what activations and weights are when they are multiplied. ``in_pairs``: two steps are added in
    16 bits, so that no channel may have two weights of -128. ``total(fn, acc, steps)`` emits acc (int32) plus
    the products of all steps, pairs of activations and weights ``group`` times as long; nothing saturates.
    """

    group: int
    dtype: str
    in_pairs: bool
    total: Callable[[KernelFunction, Any, Steps], Any]
    across: bool = False

    def meaning(self, acc: Array, x: Array, w: Array) -> Array:
        """acc int32[channels] + the sums of x[steps, channels, group] * w[steps, channels, group]."""
        products = x.astype(np.int64) * w.astype(np.int64)
        return wrap32(acc.astype(np.int64) + products.sum((0, 2))).astype(np.int32)

    @property
    def registers(self) -> int:
        """Registers of 16 bytes that the activations or the weights of a step take."""
        return -(-CHANNELS * self.group * np.dtype(self.dtype).itemsize // 16)

    def step(self, fn: KernelFunction, pixels: Sequence[Any], unsigned: bool) -> Any:
        """The activations of a step from up to ``group`` pixels; zeros stand for those that are missing."""
        pixels = [*pixels, *[like(pixels[0], 0)] * (self.group - len(pixels))]
        taken = interleaved(fn, pixels)
        if self.dtype == "int8" or taken.type.element == I16:
            return taken
        return (fn.b.zext if unsigned else fn.b.sext)(taken, retyped(taken, I16))


def _added(fn: KernelFunction, acc: Any, steps: Steps) -> Any:
    """Products of words, each added to a sum of 32 bits (SMLAL)."""
    for step in steps:
        acc = fn.b.add(acc, _product(fn, step, I32))
    return acc


def _added_in_pairs(fn: KernelFunction, acc: Any, steps: Steps) -> Any:
    """Products of bytes, two of them added in 16 bits before they are added to the sum (SMULL, SMLAL, SADDW).

    127 * 127 + 128 * 128, the most that two of them give without two weights of -128, is less than 2^15.
    """
    for first, second in zip_longest(steps[::2], steps[1::2]):
        pair = _product(fn, first, I16)
        if second is not None:
            pair = fn.b.add(pair, _product(fn, second, I16))
        acc = fn.b.add(acc, fn.b.sext(pair, acc.type))
    return acc


def _product(fn: KernelFunction, step: tuple[Any, Any], element: Any) -> Any:
    x, w = step
    wide = retyped(x, element)
    return fn.b.mul(fn.b.sext(x, wide), fn.b.sext(w, wide))


def _dotted(fn: KernelFunction, acc: Any, steps: Steps) -> Any:
    """Dot products of four bytes, in registers of four channels (SDOT)."""
    halves = []
    for start in range(0, lanes_of(acc), 4):
        total = shuffle(fn, acc, acc, range(start, start + 4))
        for operands in steps:
            parts = [shuffle(fn, v, v, range(4 * start, 4 * start + 16)) for v in operands]
            total = fn.intrinsic("llvm.aarch64.neon.sdot.v4i32.v16i8", total.type, [total, *parts])
        halves.append(total)
    return concatenated(fn, halves)


CHANNEL_PRODUCTS: tuple[ChannelProduct, ...] = (
    ChannelProduct("dotprod", "arm64", ("dotprod",), 4, "int8", False, _dotted),
    ChannelProduct("dotprod_across", "arm64", ("dotprod",), 4, "int8", False, _dotted, True),
    ChannelProduct("neon_bytes", "arm64", ("neon",), 1, "int8", True, _added_in_pairs),
    ChannelProduct("neon", "arm64", ("neon",), 1, "int16", False, _added),
)
"""Best first. Words take 16-bit activations and weights with any zero point."""
