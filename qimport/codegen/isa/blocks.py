"""Products of bytes in blocks: a few pixels by a few vectors of four channels, one unit of bytes at a time.

Activations lie in a panel, [unit][pixel][``unit`` bytes]; weights in the order in which a block wants them.
All numbers are int8; sums are int32 and wrap, and no step saturates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from llvmlite import ir

from qimport.codegen.function import I8, I16, I32, I64, PTR, KernelFunction
from qimport.codegen.isa.instruction import Instruction
from qimport.codegen.vector import lanes_of, shuffle, vector_type
from qimport.ir.graph import Array

CHANNELS = 4
"""Channels of a vector of sums."""

REGISTER_BYTES, REGISTERS = 16, 32
"""What all processors with these instructions have."""

BYTES, WORDS, SUMS = vector_type(I8, 16), vector_type(I16, 8), vector_type(I32, CHANNELS)

Sums = list[Any]
"""Vectors of sums in the order of an instruction."""


@dataclass(frozen=True)
class BlockProduct(Instruction):
    """One way to add the products of blocks.

    ``unit``: bytes of a pixel that lie side by side. ``depth``: a rest of a unit is a multiple of it.
    ``instructions``: for a pixel, a vector of channels and a unit. ``turns``: instructions that move the
    activations of a pixel and a unit. ``spare``: registers for weights and products in flight.
    ``tile_pixels``: pixels that share a register of sums.
    ``fits(weights)``: whether int8[outputs, bytes] are exact; ``pack(weights)``: a block of whole vectors
    of channels, as bytes. ``emit(fn, sums, x, w, vectors, depth)``: the new sums, with the activations ``x``
    of the pixels in registers, the address ``w`` of the weights, and ``depth`` bytes of a unit.
    """

    unit: int
    depth: int
    instructions: float
    turns: int
    spare: int
    flight: int
    tile_pixels: int
    fits: Callable[[Array], bool]
    pack: Callable[[Array], bytes]
    emit: Callable[[KernelFunction, Sums, Sequence[Any], Any, int, int], Sums]

    def padded(self, length: int) -> int:
        """Bytes of weights for ``length`` activations of a pixel."""
        return -(-length // self.depth) * self.depth

    def input_registers(self, pixels: int) -> int:
        """Registers that hold a unit of some pixels."""
        return -(-pixels * self.unit // REGISTER_BYTES)

    def registers(self, pixels: int, vectors: int) -> int:
        """Registers that a tile occupies."""
        moving = self.input_registers(pixels) + pixels * self.flight + self.spare
        return self.sum_registers(pixels, vectors) + moving

    def vector_registers(self, vectors: int) -> int:
        """Registers that hold sums of ``vectors`` vectors of channels."""
        return self.tile_pixels * vectors

    def sum_registers(self, pixels: int, vectors: int) -> int:
        """Registers that hold the sums of a tile."""
        return -(-pixels // self.tile_pixels) * self.vector_registers(vectors)


def _always(weights: Array) -> bool:
    return True


def _pack_groups(size: int, weights: Array) -> bytes:
    """[group of ``size`` bytes][channel][byte]."""
    outputs, length = weights.shape
    return bytes(weights.reshape(outputs, length // size, size).transpose(1, 0, 2).tobytes())


def _multiply_fours(
    fn: KernelFunction, sums: Sums, x: Sequence[Any], w: Any, vectors: int, depth: int
) -> Sums:
    """SDOT by lane: four activations of a pixel with the weights of four channels."""
    results, done = list(sums), sums[:1]
    for group in range(depth // 4):
        for vector in range(vectors):
            weights = fn.load(fn.at(w, (group * vectors + vector) * REGISTER_BYTES), BYTES, 16)
            weights = after(fn, weights, done)
            for pixel, register in enumerate(x):
                words = fn.b.bitcast(register, SUMS)
                repeated = fn.b.bitcast(shuffle(fn, words, words, [group] * CHANNELS), BYTES)
                place = pixel * vectors + vector
                arguments = [results[place], weights, repeated]
                results[place] = fn.intrinsic("llvm.aarch64.neon.sdot.v4i32.v16i8", SUMS, arguments)
            done = results[vector::vectors]
    return results


def _multiply_eights(
    fn: KernelFunction, sums: Sums, x: Sequence[Any], w: Any, vectors: int, depth: int
) -> Sums:
    """SMMLA: eight activations of two pixels with the weights of two channels, four sums."""
    results, done, columns = list(sums), sums[:1], 2 * vectors
    for column in range(columns):
        weights = after(fn, fn.load(fn.at(w, column * REGISTER_BYTES), BYTES, 16), done)
        for pair, register in enumerate(x):
            place = pair * columns + column
            arguments = [results[place], register, weights]
            results[place] = fn.intrinsic("llvm.aarch64.neon.smmla.v4i32.v16i8", SUMS, arguments)
        done = results[column::columns]
    return results


_PAIRS = 8
"""Pairs of bytes in a register."""


def _turned(pairs: Array) -> list[Array]:
    """Pairs [vector, channel, pair, 2] as [vector, lane, 2] of each turn: lane i has pair i + turn.

    Channel i of four is multiplied in the lanes i and i + 4 with whichever pairs of activations are there.
    """
    count = pairs.shape[2]
    lanes = np.arange(count)
    return [pairs[:, lanes % CHANNELS, (lanes + turn) % count] for turn in range(CHANNELS)]


def _pack_turned(weights: Array) -> bytes:
    """[unit][turn][vector][lane][pair], for activations that are turned by a pair between the steps."""
    outputs, length = weights.shape
    whole = length - length % REGISTER_BYTES
    starts = [*range(0, whole, REGISTER_BYTES), *([whole] if whole < length else [])]
    units = [weights[:, start : start + REGISTER_BYTES] for start in starts]
    turns = [t for unit in units for t in _turned(unit.reshape(outputs // CHANNELS, CHANNELS, -1, 2))]
    return b"".join(turn.tobytes() for turn in turns)


def _fits_words(weights: Array) -> bool:
    """Whether two products of one lane fit into 16 bits: only -128 * -128 twice does not."""
    whole = weights.shape[1] // REGISTER_BYTES * REGISTER_BYTES
    lowest = weights[:, :whole].reshape(-1, 2, _PAIRS) == -128
    return not bool(lowest.all(1).any())


def _multiply_turned(together: bool) -> Callable[..., Sums]:
    """SMULL and SMLAL2 into words, which SADALP adds to sums; each product alone if not ``together``."""

    def emit(fn: KernelFunction, sums: Sums, x: Sequence[Any], w: Any, vectors: int, depth: int) -> Sums:
        results, registers, lanes = list(sums), list(x), depth
        if lanes < REGISTER_BYTES:
            registers = [shuffle(fn, register, register, range(lanes)) for register in registers]
        done = results[:1]
        for turn in range(CHANNELS):
            for vector in range(vectors):
                place = fn.at(w, (turn * vectors + vector) * lanes)
                weights = after(fn, fn.load(place, vector_type(I8, lanes), 8), done)
                for pixel, register in enumerate(registers):
                    slot = pixel * vectors + vector
                    for words in _words(fn, register, weights, together):
                        part = fn.intrinsic("llvm.aarch64.neon.saddlp.v4i32.v8i16", SUMS, [words])
                        results[slot] = fn.b.add(results[slot], part)
                done = results[vector::vectors]
            if turn + 1 < CHANNELS:
                following = [*range(2, lanes), 0, 1]
                registers = [shuffle(fn, register, register, following) for register in registers]
        return results

    return emit


def _words(fn: KernelFunction, x: Any, w: Any, together: bool) -> list[Any]:
    """Products of bytes as eight words, those of the upper halves added or on their own."""
    products = []
    for start in range(0, lanes_of(x), 8):
        halves = [shuffle(fn, value, value, range(start, start + 8)) for value in (x, w)]
        products.append(fn.intrinsic("llvm.aarch64.neon.smull.v8i16", WORDS, halves))
    return [fn.b.add(*products)] if together and len(products) == 2 else products


def after(fn: KernelFunction, value: Any, done: Sequence[Any]) -> Any:
    """``value`` once all of ``done`` are computed.

    Without this order LLVM begins products of the next weights before it has registers for them.
    """
    types = [value.type, *(other.type for other in done)]
    constraints = ",".join(["=w", "0", *["w"] * len(done)])
    empty = ir.InlineAsm(ir.FunctionType(value.type, types), "", constraints)
    return fn.b.call(empty, [value, *done])


def reloaded(fn: KernelFunction, pointer: Any) -> Any:
    """``pointer``, from which everything is to be loaded here.

    LLVM moves loads out of loops without regard to the registers that are left, and would fill the stack.
    """
    empty = ir.InlineAsm(ir.FunctionType(PTR, [PTR]), "", "=r,0", side_effect=True)
    return fn.b.call(empty, [pointer])


def unzipped(fn: KernelFunction, block: BlockProduct, sums: Sums, pixels: int, vectors: int) -> Sums:
    """The sums as vectors of four channels, [pixel][vector]."""
    if block.tile_pixels == 1:
        return sums
    pairs = [fn.b.bitcast(after(fn, total, sums[-1:]), vector_type(I64, 2)) for total in sums]
    results: dict[tuple[int, int], Any] = {}
    for number, (a, b) in enumerate(zip(pairs[::2], pairs[1::2], strict=True)):
        pair, vector = divmod(number, vectors)
        second = shuffle(fn, a, b, [1, 3])
        first = shuffle(fn, after(fn, a, [second]), b, [0, 2])  # in place of a, which is needed no more
        results[2 * pair, vector], results[2 * pair + 1, vector] = (
            fn.b.bitcast(value, SUMS) for value in (first, second)
        )
    return [results[pixel, vector] for pixel in range(pixels) for vector in range(vectors)]


def packed_bias(block: BlockProduct, bias: Array) -> bytes:
    """int32[channels], a whole number of vectors, as registers of sums begin."""
    pairs = bias.reshape(-1, CHANNELS // block.tile_pixels)
    return np.repeat(pairs[:, None], block.tile_pixels, axis=1).tobytes()


BLOCK_PRODUCTS: tuple[BlockProduct, ...] = (
    BlockProduct("i8mm", "arm64", ("i8mm",), 8, 8, 1, 0, 3, 0, 2,
                 _always, partial(_pack_groups, 8), _multiply_eights),
    BlockProduct("dotprod", "arm64", ("dotprod",), 16, 4, 4, 0, 2, 0, 1,
                 _always, partial(_pack_groups, 4), _multiply_fours),
    BlockProduct("neon", "arm64", ("neon",), 16, 8, 12, 3, 4, 1, 1,
                 _fits_words, _pack_turned, _multiply_turned(True)),
    BlockProduct("neon_wide", "arm64", ("neon",), 16, 8, 16, 3, 4, 1, 1,
                 _always, _pack_turned, _multiply_turned(False)),
)  # fmt: skip
"""Best first; the first that the target has and that fits is used."""
