"""Packs of x86: two registers become one, its elements half as wide. Values that do not fit saturate.

Packs work within 16 bytes: of every 16 bytes of the result, 8 come from each register.
"""

from __future__ import annotations

from typing import Any

from qimport.codegen.function import I8, I16, KernelFunction
from qimport.codegen.target import Target
from qimport.codegen.vector import lanes_of, vector_type

_WORDS = {
    4: "llvm.x86.sse2.packssdw.128",
    8: "llvm.x86.avx2.packssdw",
    16: "llvm.x86.avx512.packssdw.512",
}
_BYTES = {
    ("int8", 8): "llvm.x86.sse2.packsswb.128",
    ("int8", 16): "llvm.x86.avx2.packsswb",
    ("int8", 32): "llvm.x86.avx512.packsswb.512",
    ("uint8", 8): "llvm.x86.sse2.packuswb.128",
    ("uint8", 16): "llvm.x86.avx2.packuswb",
    ("uint8", 32): "llvm.x86.avx512.packuswb.512",
}
"""By lanes of an operand."""


def available(target: Target) -> bool:
    """Whether the target has these instructions."""
    return target.has("sse2")


def packed_words(fn: KernelFunction, a: Any, b: Any) -> Any:
    """Two registers of int32 as one of int16."""
    lanes = lanes_of(a)
    return fn.intrinsic(_WORDS[lanes], vector_type(I16, 2 * lanes), [a, b])


def packed_bytes(fn: KernelFunction, dtype: str, a: Any, b: Any) -> Any:
    """Two registers of int16 as one of ``dtype``: int8 or uint8."""
    lanes = lanes_of(a)
    return fn.intrinsic(_BYTES[dtype, lanes], vector_type(I8, 2 * lanes), [a, b])
