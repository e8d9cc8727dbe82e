"""Code of ``prim.cast``: between any two element types, without library calls."""

from __future__ import annotations

from typing import Any

from qimport.codegen.function import ELEMENTS, F32, F64, I8, I16, I32, I64, KernelFunction
from qimport.codegen.rounding import truncated
from qimport.codegen.vector import element_of, like, magnitude, retyped
from qimport.ir.types import INTEGER_RANGE


def convert(fn: KernelFunction, x: Any, source: str, target: str) -> Any:
    """Lanes of the element type ``source`` as ``target``."""
    if source == target:
        return x
    if "float16" in (source, target):
        return _from_half(fn, x) if source == "float16" else _to_half(fn, x)
    if target == "bool":
        return _is_not_zero(fn, x, source.startswith("float"))
    if source.startswith("float"):
        return _from_float(fn, x, target)
    unsigned = source == "bool" or source.startswith("u")
    type_ = retyped(x, ELEMENTS[target])
    if target.startswith("float"):
        return fn.b.uitofp(x, type_) if unsigned else fn.b.sitofp(x, type_)
    return resized(fn, x, ELEMENTS[target], unsigned)


def resized(fn: KernelFunction, x: Any, element: Any, unsigned: bool = False) -> Any:
    """Integers of another width: the low bits, or extended."""
    width, type_ = element_of(x.type).width, retyped(x, element)
    if element.width == width:
        return x
    if element.width < width:
        return fn.b.trunc(x, type_)
    return fn.b.zext(x, type_) if unsigned else fn.b.sext(x, type_)


def _is_not_zero(fn: KernelFunction, x: Any, floating: bool) -> Any:
    zero = like(x, 0.0 if floating else 0)
    found = fn.b.fcmp_unordered("!=", x, zero) if floating else fn.b.icmp_signed("!=", x, zero)
    return fn.b.zext(found, retyped(x, I8))


def _from_float(fn: KernelFunction, x: Any, target: str) -> Any:
    if target == "float64":
        return fn.b.fpext(x, retyped(x, F64))
    if target == "float32":
        return fn.b.fptrunc(x, retyped(x, F32))
    low, high = INTEGER_RANGE[target]
    whole = truncated(fn, x, I32 if high < 2**31 else I64, low, high)
    return resized(fn, whole, ELEMENTS[target])


HALF_BIAS = (127 - 15) << 23
"""What the exponents of float32 and float16 differ by, in a float32's bits."""


def _from_half(fn: KernelFunction, x: Any) -> Any:
    """float16 to float32 in integer arithmetic: not every processor converts, and code may call nothing."""
    bits = fn.b.zext(fn.b.bitcast(x, retyped(x, I16)), retyped(x, I32))
    sign = fn.b.shl(fn.b.and_(bits, like(bits, 0x8000)), like(bits, 16))
    size = fn.b.and_(bits, like(bits, 0x7FFF))
    normal = fn.b.add(fn.b.shl(size, like(size, 13)), like(size, HALF_BIAS))
    endless = fn.b.icmp_signed(">=", size, like(size, 0x7C00))
    normal = fn.b.select(endless, fn.b.add(normal, like(size, HALF_BIAS)), normal)
    small = fn.b.sitofp(size, retyped(x, F32))
    small = fn.b.bitcast(fn.b.fmul(small, like(small, 2.0**-24)), size.type)
    tiny = fn.b.icmp_signed("<", size, like(size, 0x400))
    return fn.b.bitcast(fn.b.or_(sign, fn.b.select(tiny, small, normal)), retyped(x, F32))


def _to_half(fn: KernelFunction, x: Any) -> Any:
    """float32 to float16, ties to even, in integer arithmetic; every NaN becomes the quiet one."""
    bits = fn.b.bitcast(x, retyped(x, I32))
    sign = fn.b.lshr(fn.b.and_(bits, like(bits, -(2**31))), like(bits, 16))
    size = fn.b.and_(bits, like(bits, 2**31 - 1))
    odd = fn.b.and_(fn.b.lshr(size, like(size, 13)), like(size, 1))
    rounded = fn.b.add(fn.b.add(size, odd), like(size, 0xFFF - HALF_BIAS))
    normal = fn.b.lshr(rounded, like(size, 13))
    # Adding one half moves the bits that remain of a small number to the lowest place, rounded.
    magic = like(x, 0.5)
    small = fn.b.bitcast(fn.b.fadd(magnitude(fn, x), magic), size.type)
    small = fn.b.sub(small, fn.b.bitcast(magic, size.type))
    result = fn.b.select(fn.b.icmp_signed("<", size, like(size, (127 - 14) << 23)), small, normal)
    result = fn.b.select(
        fn.b.icmp_signed(">=", size, like(size, (127 + 16) << 23)), like(size, 0x7C00), result
    )
    result = fn.b.select(fn.b.icmp_signed(">", size, like(size, 255 << 23)), like(size, 0x7E00), result)
    half = fn.b.trunc(fn.b.or_(result, sign), retyped(x, I16))
    return fn.b.bitcast(half, retyped(x, ELEMENTS["float16"]))
