"""Code of ``prim.lut``: 256 entries looked up by 8-bit codes, in order of the code's bit pattern."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from qimport.codegen.function import ELEMENTS, I1, I8, I32, I64, KernelFunction, itemsize
from qimport.codegen.vector import by_lanes, like, retyped, shuffle, vector_type


def look_up(fn: KernelFunction, table: Any, codes: Any, lanes: int, dtype: str) -> Any:
    """table[code] for every lane; ``table`` points to 256 aligned entries of ``dtype``."""
    if ELEMENTS[dtype] == I8 and lanes > 1:
        if fn.target.has("avx512vbmi"):
            return by_lanes(fn, 64, lambda part: _vbmi(fn, table, part), codes)
        if fn.target.has("neon"):
            return by_lanes(fn, 16, lambda part: _neon(fn, table, part), codes)
        if fn.target.has("sse4.2") and lanes >= 16:
            width = min(lanes, fn.target.vector_bytes)
            return by_lanes(fn, width, lambda part: _pshufb(fn, table, part, width), codes)
    if itemsize(dtype) == 4 and lanes >= 8 and fn.target.has("avx512"):
        words = by_lanes(fn, 16, lambda part: _gathered(fn, table, part), codes)
        return fn.b.bitcast(words, retyped(words, ELEMENTS[dtype]))
    return _scalar(fn, table, codes, lanes, dtype)


def interpolate(fn: KernelFunction, table: Any, x: Any, lanes: int) -> Any:
    """``prim.lut16`` of int16 lanes; ``table`` points to 513 knots. One load brings two neighbours."""
    b = fn.b
    wide = b.sext(x, vector_type(I32, lanes))
    place = b.add(b.ashr(wide, like(wide, 7)), like(wide, 256))
    pair = place
    for lane in range(lanes):
        at = ir.Constant(I32, lane)
        index = place if lanes == 1 else b.extract_element(place, at)
        entry = fn.load(fn.element(table, b.zext(index, I64), "int16"), I32, 2)
        pair = entry if lanes == 1 else b.insert_element(pair, entry, at)
    knot = b.ashr(b.shl(pair, like(pair, 16)), like(pair, 16))
    rise = b.sub(b.ashr(pair, like(pair, 16)), knot)
    slope = b.ashr(b.shl(rise, like(rise, 16)), like(rise, 16))
    part = b.add(b.mul(slope, b.and_(wide, like(wide, 127))), like(wide, 64))
    return b.trunc(b.add(knot, b.ashr(part, like(part, 7))), x.type)


def _scalar(fn: KernelFunction, table: Any, codes: Any, lanes: int, dtype: str) -> Any:
    """One load per lane."""
    if lanes == 1:
        place = fn.element(table, fn.b.zext(codes, I64), dtype)
        return fn.load(place, ELEMENTS[dtype], itemsize(dtype))
    result = ir.Constant(vector_type(ELEMENTS[dtype], lanes), ir.Undefined)
    for lane in range(lanes):
        position = ir.Constant(I32, lane)
        entry = _scalar(fn, table, fn.b.extract_element(codes, position), 1, dtype)
        result = fn.b.insert_element(result, entry, position)
    return result


def _gathered(fn: KernelFunction, table: Any, codes: Any) -> Any:
    """Sixteen words at once."""
    places = fn.b.zext(codes, ir.VectorType(I32, 16))
    everywhere = ir.Constant(ir.VectorType(I1, 16), [I1(1)] * 16)
    arguments = [like(places, 0), table, places, everywhere, ir.Constant(I32, 4)]
    return fn.intrinsic("llvm.x86.avx512.mask.gather.dpi.512", places.type, arguments)


def _parts(fn: KernelFunction, table: Any, bytes_each: int) -> list[Any]:
    type_ = ir.VectorType(I8, bytes_each)
    return [fn.load(fn.at(table, start), type_, bytes_each) for start in range(0, 256, bytes_each)]


def _vbmi(fn: KernelFunction, table: Any, codes: Any) -> Any:
    """VPERMI2B reads 128 entries by seven bits; the eighth chooses between two results."""
    parts = _parts(fn, table, 64)

    def permute(low: Any, high: Any) -> Any:
        return fn.intrinsic("llvm.x86.avx512.vpermi2var.qi.512", codes.type, [low, codes, high])

    upper = fn.b.icmp_signed("<", codes, like(codes, 0))
    return fn.b.select(upper, permute(parts[2], parts[3]), permute(parts[0], parts[1]))


def _pshufb(fn: KernelFunction, table: Any, codes: Any, width: int) -> Any:
    """PSHUFB reads 16 entries and gives zero for bytes from 128 on: sixteen of them, the results united."""
    name = {16: "llvm.x86.ssse3.pshuf.b.128", 32: "llvm.x86.avx2.pshuf.b", 64: "llvm.x86.avx512.pshuf.b.512"}
    result = like(codes, 0)
    for number, part in enumerate(_parts(fn, table, 16)):
        repeated = shuffle(fn, part, part, [lane % 16 for lane in range(width)])
        place = fn.b.xor(codes, like(codes, 16 * number))  # below 16 where this part is meant
        place = fn.intrinsic(f"llvm.uadd.sat.v{width}i8", codes.type, [place, like(codes, 0x70)])
        result = fn.b.or_(result, fn.intrinsic(name[width], codes.type, [repeated, place]))
    return result


def _neon(fn: KernelFunction, table: Any, codes: Any) -> Any:
    """TBL reads 64 entries and gives zero beyond them; three TBX fill in the other quarters."""
    parts = _parts(fn, table, 16)
    result = fn.intrinsic("llvm.aarch64.neon.tbl4.v16i8", codes.type, [*parts[:4], codes])
    for quarter in range(1, 4):
        place = fn.b.sub(codes, like(codes, 64 * quarter))
        arguments = [result, *parts[4 * quarter : 4 * quarter + 4], place]
        result = fn.intrinsic("llvm.aarch64.neon.tbx4.v16i8", codes.type, arguments)
    return result
