"""Code of ``prim.lut``: 256 entries looked up by 8-bit codes, in order of the code's bit pattern."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from qimport.codegen.function import I8, I32, I64, KernelFunction
from qimport.codegen.vector import by_lanes, like, vector_type


def look_up(fn: KernelFunction, table: Any, codes: Any, lanes: int, element: Any) -> Any:
    """table[code] for every lane; ``table`` points to 256 aligned entries of LLVM type ``element``."""
    if element == I8 and lanes > 1:
        if fn.target.has("avx512vbmi"):
            return by_lanes(fn, 64, lambda part: _vbmi(fn, table, part), codes)
        if fn.target.has("neon"):
            return by_lanes(fn, 16, lambda part: _neon(fn, table, part), codes)
    return _scalar(fn, table, codes, lanes, element)


def _scalar(fn: KernelFunction, table: Any, codes: Any, lanes: int, element: Any) -> Any:
    """One load per lane."""
    if lanes == 1:
        place = fn.b.gep(table, [fn.b.zext(codes, I64)], inbounds=True, source_etype=element)
        return fn.load(place, element, element.width // 8 if element == I8 else 4)
    result = ir.Constant(vector_type(element, lanes), ir.Undefined)
    for lane in range(lanes):
        position = ir.Constant(I32, lane)
        entry = _scalar(fn, table, fn.b.extract_element(codes, position), 1, element)
        result = fn.b.insert_element(result, entry, position)
    return result


def _quarters(fn: KernelFunction, table: Any, bytes_each: int) -> list[Any]:
    type_ = ir.VectorType(I8, bytes_each)
    return [fn.load(fn.at(table, start), type_, bytes_each) for start in range(0, 256, bytes_each)]


def _vbmi(fn: KernelFunction, table: Any, codes: Any) -> Any:
    """VPERMI2B reads 128 entries by seven bits; the eighth chooses between two results."""
    parts = _quarters(fn, table, 64)

    def permute(low: Any, high: Any) -> Any:
        return fn.intrinsic("llvm.x86.avx512.vpermi2var.qi.512", codes.type, [low, codes, high])

    upper = fn.b.icmp_signed("<", codes, like(codes, 0))
    return fn.b.select(upper, permute(parts[2], parts[3]), permute(parts[0], parts[1]))


def _neon(fn: KernelFunction, table: Any, codes: Any) -> Any:
    """TBL reads 64 entries and gives zero beyond them; three TBX fill in the other quarters."""
    parts = _quarters(fn, table, 16)
    result = fn.intrinsic("llvm.aarch64.neon.tbl4.v16i8", codes.type, [*parts[:4], codes])
    for quarter in range(1, 4):
        place = fn.b.sub(codes, like(codes, 64 * quarter))
        arguments = [result, *parts[4 * quarter : 4 * quarter + 4], place]
        result = fn.intrinsic("llvm.aarch64.neon.tbx4.v16i8", codes.type, arguments)
    return result
