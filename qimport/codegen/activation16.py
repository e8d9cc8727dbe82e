"""Code of ``prim.activation16``: the functions of :mod:`qimport.fixedpoint` on int32 lanes holding int16."""

from __future__ import annotations

from typing import Any

from qimport.codegen.function import I16, I32, KernelFunction
from qimport.codegen.vector import clamp_signed, like, pairwise, retyped
from qimport.fixedpoint import EXP_OF_MINUS_POWERS_OF_TWO, INT16_MAX, INT16_MIN


def emit_activation16(fn: KernelFunction, kind: str, integer_bits: int, x: Any) -> Any:
    """int16 lanes to int16 lanes."""
    code = _Code(fn)
    wide = fn.b.sext(x, retyped(x, I32))
    result = code.logistic(wide) if kind == "logistic" else code.tanh(wide, integer_bits)
    return fn.b.trunc(result, x.type)


class _Code:
    """Arithmetic on int32 lanes whose values fit in 16 bits; names as in :mod:`qimport.fixedpoint`."""

    def __init__(self, fn: KernelFunction) -> None:
        self.fn = fn
        self.b = fn.b

    def logistic(self, x: Any) -> Any:
        b = self.b
        tail = self._shift(self._half_over_one_plus(self._exp_on_negative(self._minus_size(x), 3)), 1)
        positive = b.icmp_signed(">", x, like(x, 0))
        result = b.select(positive, tail, b.sub(like(x, INT16_MAX), tail))
        return b.select(b.icmp_signed("==", x, like(x, 0)), like(x, 1 << 14), result)

    def tanh(self, x: Any, integer_bits: int) -> Any:
        b = self.b
        exponential = self._exp_on_negative(self._minus_size(x), integer_bits + 1)
        tail = self._shift(b.sub(self._half_over_one_plus(exponential), like(x, 1 << 13)), 2)
        result = b.select(b.icmp_signed("<", x, like(x, 0)), b.neg(tail), tail)
        return b.select(b.icmp_signed("==", x, like(x, 0)), like(x, 0), result)

    def _minus_size(self, x: Any) -> Any:
        """-|x|, exact for every int16."""
        return pairwise(self.fn, "smin", x, self.b.neg(x))

    def _wrap(self, x: Any) -> Any:
        return self.b.sext(self.b.trunc(x, retyped(x, I16)), x.type)

    def _high_mul(self, a: Any, b: Any) -> Any:
        """Rounded to the nearest; the operands are never both -2^15."""
        product = self.b.add(self.b.mul(a, b), like(a, 1 << 14))
        return self.b.ashr(product, like(a, 15))

    def _shift(self, x: Any, bits: int) -> Any:
        """Left shift, saturated."""
        return clamp_signed(self.fn, self.b.shl(x, like(x, bits)), INT16_MIN, INT16_MAX)

    def _divide_by_pot(self, x: Any, exponent: int) -> Any:
        """Ties away from zero."""
        half = self.b.add(x, like(x, 1 << (exponent - 1)))
        return self.b.ashr(self.b.add(half, self.b.ashr(x, like(x, 31))), like(x, exponent))

    def _exp_on_negative(self, a: Any, integer_bits: int) -> Any:
        b, fractional = self.b, 15 - integer_bits
        quarter = 1 << (fractional - 2)
        remainder_mod = b.sub(b.and_(a, like(a, quarter - 1)), like(a, quarter))
        result = self._exp_on_interval(self._shift(remainder_mod, integer_bits))
        remainder = b.sub(remainder_mod, a)
        for exponent, factor in zip(range(-2, 5), EXP_OF_MINUS_POWERS_OF_TWO, strict=True):
            if integer_bits > exponent:
                bit = b.and_(remainder, like(a, 1 << (fractional + exponent)))
                scaled = self._high_mul(result, like(a, (factor + 2**15) >> 16))
                result = b.select(b.icmp_signed("!=", bit, like(a, 0)), scaled, result)
        if integer_bits > 5:
            tiny = b.icmp_signed("<", a, like(a, -(1 << (20 - integer_bits))))
            result = b.select(tiny, like(a, 0), result)
        return b.select(b.icmp_signed("==", a, like(a, 0)), like(a, INT16_MAX), result)

    def _exp_on_interval(self, a: Any) -> Any:
        b, constant, one_third = self.b, like(a, 28918), like(a, 10923)
        x = self._wrap(b.add(a, like(a, 1 << 12)))
        x2 = self._high_mul(x, x)
        x3, x4 = self._high_mul(x2, x), self._high_mul(x2, x2)
        sum34 = self._wrap(b.add(self._divide_by_pot(x4, 2), x3))
        tail = self._divide_by_pot(self._wrap(b.add(self._high_mul(sum34, one_third), x2)), 1)
        product = self._high_mul(constant, self._wrap(b.add(x, tail)))
        return clamp_signed(self.fn, b.add(constant, product), INT16_MIN, INT16_MAX)

    def _half_over_one_plus(self, a: Any) -> Any:
        b = self.b
        half_denominator = b.ashr(b.add(a, like(a, INT16_MAX + 1)), like(a, 1))
        x = self._wrap(b.add(like(a, 23130), self._high_mul(half_denominator, like(a, -15420))))
        for _ in range(3):
            error = self._wrap(b.sub(like(a, 1 << 13), self._high_mul(half_denominator, x)))
            x = self._wrap(b.add(x, self._shift(self._high_mul(x, error), 2)))
        return x
