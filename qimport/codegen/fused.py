"""The fused multiply-add of float32: an instruction where there is one, exact arithmetic elsewhere."""

from __future__ import annotations

from typing import Any

from qimport.codegen.function import F32, F64, I64, KernelFunction
from qimport.codegen.vector import like, mangled, retyped


def fused_multiply_add(fn: KernelFunction, a: Any, b: Any, c: Any) -> Any:
    """a * b + c, rounded once, as :func:`qimport.summation.fused_multiply_add`; never a library call."""
    if fn.target.fuses:
        return fn.intrinsic(f"llvm.fma.{mangled(a.type)}", a.type, [a, b, c])
    return _rounded_to_odd(fn, a, b, c)


def _rounded_to_odd(fn: KernelFunction, a: Any, b: Any, c: Any) -> Any:
    """The exact product, a sum in float64 whose last bit is set if it is not exact, then float32."""
    build, wide = fn.b, retyped(a, F64)
    product = build.fmul(build.fpext(a, wide), build.fpext(b, wide))
    addend = build.fpext(c, wide)
    total = build.fadd(product, addend)
    back = build.fsub(total, product)
    error = build.fadd(build.fsub(product, build.fsub(total, back)), build.fsub(addend, back))
    zero = like(error, 0.0)
    above = build.fcmp_ordered(">", error, zero)
    inexact = build.or_(above, build.fcmp_ordered("<", error, zero))
    bits = build.bitcast(total, retyped(total, I64))
    even = build.icmp_unsigned("==", build.and_(bits, like(bits, 1)), like(bits, 0))
    toward_zero = build.xor(above, build.fcmp_ordered(">", total, zero))
    nudge = build.select(toward_zero, like(bits, -1), like(bits, 1))
    odd = build.add(bits, build.select(build.and_(inexact, even), nudge, like(bits, 0)))
    return build.fptrunc(build.bitcast(odd, wide), retyped(a, F32))
