"""``qnn.div``: the DIV operator on codes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qimport import fixedpoint as fp
from qimport.fixedpoint import Int, f32
from qimport.ir.check import require
from qimport.ir.graph import Array, Call, operation
from qimport.qnn.binary import BinaryOperation

LARGEST_EXPONENT = {"int8": 22, "uint8": 22, "int16": 15}
"""Exponents of the factor beyond this would shift quotients up, which ends the interpreter's process."""


@operation
@dataclass(frozen=True)
class Div(BinaryOperation):
    """Quotient of two operands that broadcast, in all modes (``reference_ops::Div``).

    With the numerator a and divisor b of centred codes, both negated where b is negative, and
    (m, e) = quantize_multiplier(float32(s_a / float32(s_b * s_out))):

        b'    = b << n, n the leading zeros of b;  inverse = one_over_one_plus_x(b' - 2^31), Q0.31
        a'    = a << h, h the leading bits of a that repeat its sign, the first one not counted
        code  = clamp(rounding_divide_by_pot(srdhm(srdhm(a', inverse), m), 31 - n + h - e) + z_out, low, high)

    where shifts from 32 on are those of x86: the result is x >> (shift - 32), and 1 more for x >= 0.
    The interpreter ends its process at a divisor of 0.

    C1 operands and result are int8, uint8, or int16 with zero point 0; one scale each. C2 the operands
    broadcast to the result's shape. C3 the activation is one of the schema's. C4 e is at most 22, or 15
    for int16.
    """

    NAME = "qnn.div"
    TFLITE = ("DIV",)

    activation: str = "NONE"

    def verify(self, call: Call) -> None:
        """Check C1-C4."""
        super().verify(call)
        largest = LARGEST_EXPONENT[call.output.dtype]
        _, exponent = self.factor(call)
        require(exponent <= largest, "C4", f"the scale of quotients is 2^{exponent}; at most 2^{largest}")

    @staticmethod
    def factor(call: Call) -> tuple[int, int]:
        """(m, e) of the docstring."""
        a, b, out = call.input(0).quant, call.input(1).quant, call.output.quant
        with np.errstate(all="ignore"):
            return fp.quantize_multiplier(f32(a.scale / f32(b.scale * out.scale)))

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """The docstring's formula."""
        a = call.array(0).astype(np.int64) - call.input(0).quant.zero_point
        b = call.array(1).astype(np.int64) - call.input(1).quant.zero_point
        a, b = np.broadcast_arrays(np.where(b < 0, -a, a), np.abs(b))
        multiplier, exponent = self.factor(call)
        zeros = fp.count_leading_zeros32(b)
        inverse = fp.one_over_one_plus_x(fp.wrap32((b << zeros) - 2**31))
        signs = fp.count_leading_zeros32(np.where(a < 0, ~a, a)) - 1
        high = fp.saturating_rounding_doubling_high_mul(fp.wrap32(a << signs), inverse)
        scaled = fp.saturating_rounding_doubling_high_mul(high, multiplier)
        codes = _shifted(scaled, 31 - zeros + signs - exponent) + call.output.quant.zero_point
        return (np.clip(codes, *self.codes_range(call)).astype(call.output.numpy),)


def _shifted(x: Int, shift: Int) -> Int:
    small = shift & 31
    mask = np.where(shift < 32, (np.int64(1) << small) - 1, -1)
    return np.asarray((x >> small) + ((x & mask) > (mask >> 1) + (x < 0)), np.int64)
