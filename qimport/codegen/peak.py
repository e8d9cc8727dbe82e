"""The most multiply-accumulates per second that this machine's instructions reach, measured.

Short loops over registers, or for AMX over tiles in the nearest cache: what a kernel would do if nothing but
its products cost time. Kernels are judged by the fraction they reach.
"""

from __future__ import annotations

import ctypes
import functools
import time
from typing import Any

import numpy as np
from llvmlite import ir

from qimport.codegen.backend import object_code
from qimport.codegen.function import I8, I16, I32, I64, KernelFunction
from qimport.codegen.isa import blocks
from qimport.codegen.isa.blocks import BLOCK_PRODUCTS, BlockProduct
from qimport.codegen.isa.dot import DOT_PRODUCTS, WORD_PRODUCTS, DotProduct
from qimport.codegen.jit import load_object
from qimport.codegen.target import Target
from qimport.codegen.vector import constant, shuffle, vector_type

DOT_STEPS, TILE_STEPS = 4096, 512
"""Rounds of a loop: about 20 microseconds."""

ACCUMULATORS = 12
"""Independent sums: more than the latency of a product times the products per cycle."""

BLOCK_PIXELS, BLOCK_VECTORS = 4, 3
"""The same number of sums, and registers for all operands."""

TILE_BYTES, TILE_ROWS = 1024, 16


class Loop:
    """A function that does ``macs`` products, and memory for it. A call gives the products per second.

    The best of many calls is undisturbed.
    """

    def __init__(self, function: KernelFunction, macs: int, target: Target) -> None:
        self._macs = macs
        self._code = load_object(object_code(str(function.module), target), function.function.name, target)
        self._memory = np.zeros(64 + 64 + 4 * TILE_BYTES, np.uint8)
        self._nothing = (ctypes.c_void_p * 1)()
        start = -self._memory.ctypes.data % 64
        self._memory[start : start + 64] = np.frombuffer(_configuration(), np.uint8)
        begin = self._memory.ctypes.data + start
        self._run = self._code.bound(self._nothing, self._nothing, begin, begin + 64)

    def __call__(self) -> float:
        """Run it once."""
        before = time.perf_counter()
        self._run()
        return self._macs / (time.perf_counter() - before)


@functools.cache
def peak_loop(row: str, target: Target) -> Loop | None:
    """The loop for the instruction of a kernel row; None for rows without products.

    Rows that choose no instruction by themselves are judged by the target's best products.

    Raises:
        TargetError: this machine cannot run code for ``target``.
    """
    if row.startswith("mac_amx"):
        return Loop(_tiles(target), 4 * TILE_ROWS * TILE_BYTES * TILE_STEPS, target)
    if not row.startswith("mac_"):
        return None
    available = [dot for dot in (*DOT_PRODUCTS, *WORD_PRODUCTS) if dot.available(target)]
    for block in BLOCK_PRODUCTS:
        if block.available(target) and (
            row == f"mac_block_{block.name}" or not row.startswith(("mac_tile", "mac_block"))
        ):
            macs = BLOCK_PIXELS * BLOCK_VECTORS * blocks.CHANNELS * block.unit
            return Loop(_block_products(block, target), macs * DOT_STEPS, target)
    named = [dot for dot in available if row == f"mac_tile_{dot.name}"]
    dot = (named or available)[0]
    return Loop(_products(dot, target), ACCUMULATORS * dot.lanes * dot.group * DOT_STEPS, target)


def row_peak(row: str, target: Target, samples: int = 1000) -> float | None:
    """The best of many samples of :func:`peak_loop`, some 20 ms."""
    loop = peak_loop(row, target)
    return None if loop is None else max(loop() for _ in range(samples))


def _begin(target: Target) -> KernelFunction:
    """A function called as an entry is: ``tables`` where the arena would be, ``result`` for the constants."""
    module = ir.Module("peak")
    module.triple = target.triple
    return KernelFunction(module, "peak", 2, target)


def _products(dot: DotProduct, target: Target) -> KernelFunction:
    """A loop that adds products to :data:`ACCUMULATORS` sums, everything in registers.

    Weights pass through an empty piece of assembly before each product, so that no product can be taken for
    an earlier one; they fill one register or several.
    """
    fn = _begin(target)
    element = I8 if dot.weight_dtype == "int8" else I16
    count = dot.lanes * 4 // (element.width // 8)
    pieces = dot.lanes * dot.group // count
    register = vector_type(element, count)
    opaque = _opaque(register, dot.architecture, target)
    x = fn.load(fn.tables, I32)
    weights = [fn.load(fn.at(fn.tables, 64 * (1 + piece)), register) for piece in range(pieces)]
    sums = [constant(vector_type(I32, dot.lanes), number) for number in range(ACCUMULATORS)]

    def step(_: Any, *carried: Any) -> list[Any]:
        accumulators, registers = list(carried[:ACCUMULATORS]), list(carried[ACCUMULATORS:])
        for number in range(ACCUMULATORS):
            registers = [fn.b.call(opaque, [piece]) for piece in registers]
            accumulators[number] = dot.product(fn, accumulators[number], x, _joined(fn, registers))
        return [*accumulators, *registers]

    for number, value in enumerate(list(fn.loop(0, DOT_STEPS, 1, step, [*sums, *weights]))[:ACCUMULATORS]):
        fn.store(value, fn.at(fn.result, 64 * number))
    fn.finish()
    return fn


def _opaque(register: Any, architecture: str, target: Target) -> Any:
    """An empty piece of assembly that might change a register."""
    letter = "w" if architecture == "arm64" else "v" if target.has("avx512") else "x"
    return ir.InlineAsm(ir.FunctionType(register, [register]), "", f"={letter},0", side_effect=True)


def _block_products(block: BlockProduct, target: Target) -> KernelFunction:
    """A loop that adds products of :data:`BLOCK_PIXELS` pixels; weights come from the nearest cache."""
    fn = _begin(target)
    opaque = _opaque(blocks.BYTES, block.architecture, target)
    count = block.sum_registers(BLOCK_PIXELS, BLOCK_VECTORS)
    x = [fn.load(fn.tables, blocks.BYTES)] * block.input_registers(BLOCK_PIXELS)
    sums = [constant(blocks.SUMS, number) for number in range(count)]

    def step(_: Any, *carried: Any) -> list[Any]:
        activations = [fn.b.call(opaque, [register]) for register in x]
        return block.emit(fn, list(carried), activations, fn.result, BLOCK_VECTORS, block.unit)

    for number, value in enumerate(fn.loop(0, DOT_STEPS, 1, step, sums)):
        fn.store(value, fn.at(fn.result, 64 * number))
    fn.finish()
    return fn


def _joined(fn: KernelFunction, registers: list[Any]) -> Any:
    """One vector of all lanes of one or two registers."""
    if len(registers) == 1:
        return registers[0]
    first, second = registers
    return shuffle(fn, first, second, range(2 * first.type.count))


def _tiles(target: Target) -> KernelFunction:
    """A loop over 2 x 2 tiles of sums: four loads, then four products."""
    fn = _begin(target)

    def tile(name: str, *arguments: Any) -> None:
        values = [I8(argument) if isinstance(argument, int) else argument for argument in arguments]
        fn.intrinsic(f"llvm.x86.{name}", ir.VoidType(), values)

    def step(_: Any) -> None:
        for number in range(4):
            tile("tileloadd64", 4 + number, fn.at(fn.result, number * TILE_BYTES), I64(64))
        for number in range(4):
            tile("tdpbssd", number, 4 + number // 2, 6 + number % 2)

    tile("ldtilecfg", fn.tables)
    for number in range(4):
        tile("tilezero", number)
    fn.loop(0, TILE_STEPS, 1, step)
    tile("tilerelease")
    fn.finish()
    return fn


def _configuration() -> bytes:
    """Palette 1: eight tiles of sixteen rows of 64 bytes."""
    palette, row_bytes, rows = bytes([1]), (64).to_bytes(2, "little") * 8, bytes([TILE_ROWS]) * 8
    return palette.ljust(16, b"\0") + row_bytes.ljust(32, b"\0") + rows.ljust(16, b"\0")
