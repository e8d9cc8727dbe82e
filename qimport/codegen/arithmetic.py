"""Code of the primitives in ``prim/arithmetic.py``, on vectors of any width. A bool is a byte, 0 or 1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from qimport.codegen.function import F64, I8, I32, KernelFunction
from qimport.codegen.vector import element_of, like, magnitude, pairwise, retyped
from qimport.ir.types import INTEGER_RANGE

BinaryCode = Callable[[KernelFunction, Any, Any], Any]


def binary(fn: KernelFunction, kind: str, dtype: str, a: Any, b: Any) -> Any:
    """``prim.binary`` of operands of the element type ``dtype``."""
    if dtype.startswith("float"):
        return _FLOAT[kind](fn, a, b)
    return (_UNSIGNED if _is_unsigned(dtype) else _SIGNED)[kind](fn, a, b)


def compare(fn: KernelFunction, kind: str, dtype: str, a: Any, b: Any) -> Any:
    """``prim.compare`` of operands of the element type ``dtype``."""
    relation = _RELATIONS[kind]
    if dtype.startswith("float"):
        form = fn.b.fcmp_unordered if kind == "not_equal" else fn.b.fcmp_ordered
    else:
        form = fn.b.icmp_unsigned if _is_unsigned(dtype) else fn.b.icmp_signed
    return fn.b.zext(form(relation, a, b), retyped(a, I8))


def select(fn: KernelFunction, condition: Any, a: Any, b: Any) -> Any:
    """``prim.select``."""
    return fn.b.select(fn.b.icmp_unsigned("!=", condition, like(condition, 0)), a, b)


def _is_unsigned(dtype: str) -> bool:
    return dtype == "bool" or dtype.startswith("u")


_RELATIONS = {
    "equal": "==",
    "not_equal": "!=",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
}


def _divider(divide: str, signed: bool) -> BinaryCode:
    """A division or remainder by a divisor that cannot trap; where the true one is 0 the result is 0."""

    def code(fn: KernelFunction, a: Any, b: Any) -> Any:
        one = like(b, 1)
        by_zero = fn.b.icmp_unsigned("==", b, like(b, 0))
        unsafe = by_zero
        if signed:
            lowest, _ = INTEGER_RANGE[f"int{element_of(a.type).width}"]
            at_end = fn.b.icmp_signed("==", a, like(a, lowest))
            unsafe = fn.b.or_(by_zero, fn.b.and_(at_end, fn.b.icmp_signed("==", b, like(b, -1))))
        result = getattr(fn.b, divide)(a, fn.b.select(unsafe, one, b))
        return fn.b.select(by_zero, like(a, 0), result)

    return code


def _float_choice(better: str) -> BinaryCode:
    """maximum or minimum; a NaN operand is the result."""

    def choose(fn: KernelFunction, a: Any, b: Any) -> Any:
        first = fn.b.or_(fn.b.fcmp_ordered(better, a, b), fn.b.fcmp_unordered("uno", a, a))
        return fn.b.select(first, a, b)

    return choose


REMAINDER_STEP = 28
"""Bits of a quotient that one step of :func:`_float_remainder` settles: 24 of the divisor and 28 fit 53."""

REMAINDER_SPAN = 280
"""Bits that the largest quotient of float32 numbers may have, in whole steps."""


def _float_remainder(fn: KernelFunction, a: Any, b: Any) -> Any:
    """fmodf: long division in float64, every step of which is exact; the result has the sign of ``a``."""
    infinity, size, by = like(a, float("inf")), magnitude(fn, a), magnitude(fn, b)
    finite = fn.b.fcmp_ordered("<", size, infinity)
    divisible = fn.b.and_(fn.b.fcmp_ordered(">", by, like(a, 0.0)), fn.b.fcmp_ordered("<", by, infinity))
    usual = fn.b.and_(finite, divisible)
    rest = _wide(fn, fn.b.select(usual, size, like(a, 0.0)))
    divisor = _wide(fn, fn.b.select(usual, by, like(a, 1.0)))
    for bits in range(REMAINDER_SPAN - REMAINDER_STEP, -1, -REMAINDER_STEP):
        part = fn.b.fmul(divisor, like(divisor, 2.0**bits))
        count = fn.b.fptosi(fn.b.fdiv(rest, part), retyped(rest, I32))
        left = fn.b.fsub(rest, fn.b.fmul(fn.b.sitofp(count, rest.type), part))
        # The quotient may have been rounded up to the next integer.
        rest = fn.b.select(fn.b.fcmp_ordered("<", left, like(left, 0.0)), fn.b.fadd(left, part), left)
    endless = fn.b.and_(finite, fn.b.fcmp_ordered("==", by, infinity))
    special = fn.b.select(endless, size, like(a, float("nan")))
    result = fn.b.select(usual, fn.b.fptrunc(rest, a.type), special)
    return pairwise(fn, "copysign", result, a)


def _wide(fn: KernelFunction, value: Any) -> Any:
    return fn.b.fpext(value, retyped(value, F64))


_BITWISE: dict[str, BinaryCode] = {
    "and": lambda fn, a, b: fn.b.and_(a, b),
    "or": lambda fn, a, b: fn.b.or_(a, b),
    "xor": lambda fn, a, b: fn.b.xor(a, b),
}
_INTEGER: dict[str, BinaryCode] = {
    **_BITWISE,
    "add": lambda fn, a, b: fn.b.add(a, b),
    "sub": lambda fn, a, b: fn.b.sub(a, b),
    "mul": lambda fn, a, b: fn.b.mul(a, b),
    "shift_left": lambda fn, a, b: fn.b.shl(a, b),
}


def _integers(signed: bool) -> dict[str, BinaryCode]:
    """LLVM names what depends on the sign by a letter."""
    letter = "s" if signed else "u"
    return {
        **_INTEGER,
        "max": lambda fn, a, b: pairwise(fn, f"{letter}max", a, b),
        "min": lambda fn, a, b: pairwise(fn, f"{letter}min", a, b),
        "div": _divider(f"{letter}div", signed),
        "rem": _divider(f"{letter}rem", signed),
        "shift_right": lambda fn, a, b: fn.b.ashr(a, b) if signed else fn.b.lshr(a, b),
    }


_SIGNED, _UNSIGNED = _integers(signed=True), _integers(signed=False)
_FLOAT: dict[str, BinaryCode] = {
    "add": lambda fn, a, b: fn.b.fadd(a, b),
    "sub": lambda fn, a, b: fn.b.fsub(a, b),
    "mul": lambda fn, a, b: fn.b.fmul(a, b),
    "div": lambda fn, a, b: fn.b.fdiv(a, b),
    "rem": _float_remainder,
    "max": _float_choice(">="),
    "min": _float_choice("<="),
}
