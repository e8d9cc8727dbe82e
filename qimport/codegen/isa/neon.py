"""NEON instructions that LLVM has no operation of its own for, on vectors of whole registers or of any lanes.

Those of 32-bit elements take registers of 128 bits; narrowing ones give half a register, and LLVM joins two
of them into one where both halves are wanted (SQXTN2 and its like).
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from qimport.codegen.function import I8, I16, I32, KernelFunction
from qimport.codegen.target import Target
from qimport.codegen.vector import by_lanes, lanes_of, retyped, vector_type

QUAD = 4
"""Lanes of 32 bits in a register."""


def available(target: Target) -> bool:
    """Whether the target has these instructions."""
    return target.has("neon")


def rounded_high_product(fn: KernelFunction, a: Any, b: Any) -> Any:
    """SQRDMULH of int32: (a * b + 2^30) >> 31, saturated."""
    return _quads(fn, "sqrdmulh", a, b)


def high_product(fn: KernelFunction, a: Any, b: Any) -> Any:
    """SQDMULH of int32: (a * b) >> 31, saturated."""
    return _quads(fn, "sqdmulh", a, b)


def rounding_shift(fn: KernelFunction, a: Any, by: Any) -> Any:
    """SRSHL of int32: for ``by`` = -s the nearest integer to a / 2^s, ties up; for others a << by."""
    return _quads(fn, "srshl", a, by)


def widening_product(fn: KernelFunction, a: Any, b: Any) -> Any:
    """SMULL: four int16 times four, as int32."""
    return fn.intrinsic("llvm.aarch64.neon.smull.v4i32", retyped(a, I32), [a, b])


def nearest(fn: KernelFunction, value: Any) -> Any:
    """FCVTNS: float32 to int32, ties to even; saturates, and NaN is 0."""
    return fn.intrinsic("llvm.aarch64.neon.fcvtns.v4i32.v4f32", retyped(value, I32), [value])


def narrowed(fn: KernelFunction, value: Any, shift: int = 0) -> Any:
    """SQXTN or SQSHRN: a register of int32, shifted right by up to 16, as int16 that saturate."""
    type_ = vector_type(I16, QUAD)
    if shift:
        return fn.intrinsic("llvm.aarch64.neon.sqshrn.v4i16", type_, [value, I32(shift)])
    return fn.intrinsic("llvm.aarch64.neon.sqxtn.v4i16", type_, [value])


def narrowed_bytes(fn: KernelFunction, value: Any, dtype: str) -> Any:
    """SQXTN or SQXTUN: a register of int16 as int8 or uint8 that saturate."""
    name = {"int8": "sqxtn", "uint8": "sqxtun"}[dtype]
    return fn.intrinsic(f"llvm.aarch64.neon.{name}.v8i8", vector_type(I8, 2 * QUAD), [value])


def part(fn: KernelFunction, value: Any, number: int, lanes: int) -> Any:
    """Part ``number`` of a register of bytes, ``lanes`` of them.

    LLVM keeps fewer than 8 bytes as wider elements, and moves operations in front of a shuffle that makes so
    few: therefore they leave as one integer, which is also how they are stored.
    """
    type_ = ir.IntType(8 * lanes)
    parts = fn.b.bitcast(value, vector_type(type_, lanes_of(value) // lanes))
    return fn.b.bitcast(fn.b.extract_element(parts, I32(number)), vector_type(value.type.element, lanes))


def _quads(fn: KernelFunction, name: str, a: Any, b: Any) -> Any:
    def quad(x: Any, y: Any) -> Any:
        return fn.intrinsic(f"llvm.aarch64.neon.{name}.v4i32", x.type, [x, y])

    return by_lanes(fn, QUAD, quad, a, b)
