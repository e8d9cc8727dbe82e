"""``qnn.softmax``."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from qimport import fixedpoint as fp
from qimport import real
from qimport.fixedpoint import Int
from qimport.ir.check import require
from qimport.ir.graph import Array, Call, operation
from qimport.ir.types import INTEGER_RANGE, TensorType
from qimport.numerics import Family
from qimport.qnn import softmax16
from qimport.qnn.base import QnnOperation
from qimport.qnn.checks import EIGHT_BIT, require_per_tensor, require_same_shape
from qimport.summation import PACKET, sum_row

INTEGER_BITS = 5
"""Integer bits of the scaled differences in the fixed-point kernel."""

SMALLEST = 2.0**-126
"""Smaller numbers are 0 in XNNPACK's kernels, which run with denormal numbers switched off."""

SUM_LIMIT = 2**28
"""The fixed-point kernel refuses rows whose sum of exponentials, in units of 2^-19, reaches this: 512."""


RESULTS = {
    "int8": ("int8", "int16"),
    "uint8": ("uint8", "int16"),
    "int16": ("int16",),
    "float32": ("float32",),
}
"""Element types of results for each element type of operands."""


FINEST_SCALE = 2.0**-30
"""Results are rounded to int32 before they are clamped; the scales of 16-bit ones are above this."""


def result_quantization(operand: str, result: str) -> tuple[int, int] | None:
    """(number of steps to 1, zero point) that a result must have; None for any, from 8 to 16 bits."""
    if operand != result:
        return None
    return (2**15, 0) if result == "int16" else (2**8, INTEGER_RANGE[result][0])


@operation
@dataclass(frozen=True)
class Softmax(QnnOperation):
    """exp(beta * v) over its sum along the last axis.

    With k = max(row) - x, e = exponential of k:

    8 bits, reference (``reference_ops::Softmax``), fixed point:
    (m, p) = quantize_multiplier(min(beta * s_in * 2^26, 2^31 - 1)); a k over floor(31 * 2^26 / 2^p) gives the
    lowest code and counts nothing; else e = exp_on_negative_values(high_mul(-k << p, m)) in Q0.31; h =
    leading zeros of the sum of rdbpot(e, 12); r = one_over_one_plus_x of the normalized sum;
    clamp(rdbpot(high_mul(r, e), 12 - h + 31 - bits) + lo), bits the result's width and lo its lowest code,
    even where its zero point is another.
    The sum is kept modulo 2^32, that is 8192. Rows where it then is 512 or more end the process of the
    interpreter; here they give the lowest code throughout, which is what the last shift, 32 bits or more,
    leaves.

    8 bits, builtin, and xnnpack as the delegate takes none (``optimized_ops::Softmax``), float:
    e = f32(exp(f32(f32(-s_in * beta) * k))); sum in float32 in index order;
    inverse = f32(1 / f32(sum * s_out)); int8, int16 results: clamp(round_away(f32(e * inverse)) + z_out);
    uint8: clamp(trunc(f32(f32(e * inverse) + 0.5))).

    builtin-arm64, results of the operand's type, integers: t = f32(exp(f32(f32(s_in * beta) * -k)));
    E = min(65535, trunc(f32(t * 65535) + 0.5)), the sum in float64; S = sum of E modulo 2^32;
    (m, e) = quantize_multiplier(f32(1 / f32(S * s_out))); clamp(MBQM(E, m, e) + z_out), ``double_away``.

    int16: :func:`qimport.qnn.softmax16.softmax`.
    float32: e = exp(f32(f32(v - max(row)) * beta)). reference: glibc's ``expf``, over the sum in index order.
    builtin: :func:`qimport.real.eigen.exp_in_packets` in packets of four elements of the flat tensor, and
    ``expf`` for the rest; times the reciprocal of the sum in the order ``packets``. xnnpack, which takes a
    beta of 1: :func:`qimport.real.xnnpack.exp_of_difference`, times the reciprocal of the sum in the order
    ``fours``; results below 2^-126 are 0.

    C1 operand and result are of one 8-bit type, int16 or float32 and of one shape, rank at least 1; 8-bit
    operands may have int16 results. C2 8-bit results have scale 1/256 within 0.1 % and the lowest code as
    zero point, int16 ones of int16 operands 1/32768 and 0, those of 8-bit operands any scale above 2^-30,
    which the reference kernel ignores. C3 beta is positive and finite.
    """

    NAME = "qnn.softmax"
    ARM64_FLOATS = ()
    TFLITE: ClassVar[tuple[str, ...]] = ("SOFTMAX",)

    beta: float

    def verify(self, call: Call) -> None:
        """Check C1-C3."""
        x, out = call.input(0), call.output
        require(out.dtype in RESULTS.get(x.dtype, ()), "C1", f"there is no softmax from {x} to {out}")
        require_same_shape("C1", call)
        require(len(x.shape) >= 1, "C1", "the operand needs a dimension")
        if out.dtype != "float32":
            require_per_tensor("C1", x, out)
            self._verify_result(x.dtype, out)
        require(0 < self.beta < math.inf, "C3", f"beta {self.beta} is not positive")

    @staticmethod
    def _verify_result(operand: str, out: TensorType) -> None:
        scale, wanted = out.quant.scale, result_quantization(operand, out.dtype)
        if wanted is None:
            require(scale > FINEST_SCALE, "C2", f"the output scale {scale!r} is not above 2^-30")
            return
        count, zero = wanted
        expected = zero == out.quant.zero_point and abs(scale * count - 1) <= 1e-3
        sentence = f"the output of SOFTMAX must be 1/{count}:{zero}, not {scale!r}:{out.quant.zero_point}"
        require(expected, "C2", sentence)

    def unsupported(self, call: Call) -> str | None:
        """Why there are no bytes to equal: the float kernel multiplies 0 by an infinite factor."""
        if call.input(0).dtype not in EIGHT_BIT:
            return None
        factor = call.input(0).quant.scale * self.beta
        if self.kernel_family(call) == "reference" or math.isfinite(fp.f32(factor)):
            return None
        return f"input scale * beta is {factor:g}; expected a float32 number, or the kernel computes with NaN"

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """The formula of the kernel family."""
        if call.output.dtype == "float32":
            return (self._real(call.array(0), self.kernel_family(call)),)
        if call.input(0).dtype == "int16":
            codes = softmax16.softmax(call.array(0).astype(np.int64), call.input(0).quant.scale, self.beta)
            return (codes.astype(np.int16),)
        if self.sums_integers(call):
            codes = self._integer(call)
        else:
            codes = self._fixed(call) if self.kernel_family(call) == "reference" else self._float(call)
        return (np.clip(codes, *INTEGER_RANGE[call.output.dtype]).astype(call.output.numpy),)

    def sums_integers(self, call: Call) -> bool:
        """Whether the kernel of the ARM build for equal 8-bit types runs."""
        x, out = call.input(0), call.output
        return call.mode.arm64 and x.dtype in EIGHT_BIT and x.dtype == out.dtype

    def xnnpack_takes(self, call: Call) -> bool:
        """float32 with a beta of 1."""
        return call.input(0).dtype == "float32" and self.beta == 1

    def _real(self, x: Array, family: Family) -> Array:
        with np.errstate(all="ignore"):
            d = (x - x.max(-1, keepdims=True)) * np.float32(self.beta)
            if family == "reference":
                e = real.apply("exp", d)
                return np.asarray(e / np.cumsum(e, axis=-1, dtype=np.float32)[..., -1:], np.float32)
            if family == "xnnpack":
                e = real.apply("exp_of_difference", d)
                result = e * (np.float32(1) / sum_row(e, "fours"))
                return np.asarray(np.where(result < SMALLEST, np.float32(0), result), np.float32)
            flat, whole = d.reshape(-1), d.size - d.size % PACKET
            parts = real.apply("exp_in_packets", flat[:whole]), real.apply("exp", flat[whole:])
            e = np.concatenate(parts).reshape(x.shape)
            return np.asarray(e * (np.float32(1) / sum_row(e, "packets")), np.float32)

    def fixed_table(self, scale: float) -> Array:
        """Exponentials in Q0.31 by k; 0, which gives the lowest code, beyond the kernel's range."""
        factor = min(fp.f32(self.beta) * scale * 2.0 ** (31 - INTEGER_BITS), 2.0**31 - 1)
        multiplier, exponent = fp.quantize_multiplier(factor)
        limit = math.floor((2**INTEGER_BITS - 1) * 2.0 ** (31 - INTEGER_BITS - exponent))
        k = np.arange(256, dtype=np.int64)
        counted = k <= limit
        scaled = fp.multiply_by_quantized_multiplier(np.where(counted, -k, 0), multiplier, max(exponent, 0))
        return np.where(counted, fp.exp_on_negative_values(scaled, INTEGER_BITS), 0).astype(np.int32)

    def float_table(self, scale: float) -> Array:
        """Exponentials in float32 by k."""
        with np.errstate(over="ignore"):  # products beyond float32 give exponentials of 0
            factor = -np.float32(scale) * np.float32(self.beta)
            powers = (factor * np.arange(256, dtype=np.float32)).astype(np.float64)
        return np.asarray(np.exp(powers), np.float32)

    def integer_table(self, scale: float) -> Array:
        """Exponentials in units of 1 / 65535 by k."""
        with np.errstate(over="ignore"):
            factor = np.float32(scale) * np.float32(self.beta)
            powers = (factor * -np.arange(256, dtype=np.float32)).astype(np.float64)
        exponentials = np.exp(powers).astype(np.float32) * np.float32(65535)
        steps = np.trunc(exponentials.astype(np.float64) + 0.5)
        return np.asarray(np.minimum(steps, 65535), np.int32)

    def _integer(self, call: Call) -> Int:
        x, out = call.array(0).astype(np.int64), call.output
        e = self.integer_table(call.input(0).quant.scale).astype(np.int64)[x.max(-1, keepdims=True) - x]
        total = fp.wrap32(e.sum(-1, keepdims=True)).astype(np.float32)
        inverse = np.float32(1) / (total * np.float32(out.quant.scale))
        fraction, exponent = np.frexp(inverse)
        multiplier = np.ldexp(fraction.astype(np.float64), 31).astype(np.int64)
        scaled = fp.multiply_by_quantized_multiplier(e, multiplier, exponent)
        return np.asarray(scaled + out.quant.zero_point)

    def _fixed(self, call: Call) -> Int:
        x, lowest = call.array(0).astype(np.int64), INTEGER_RANGE[call.output.dtype][0]
        e = self.fixed_table(call.input(0).quant.scale).astype(np.int64)[x.max(-1, keepdims=True) - x]
        total = fp.rounding_divide_by_pot(e, 12).sum(-1, keepdims=True) % 2**32
        refused = total >= SUM_LIMIT if call.output.itemsize == 1 else np.False_
        headroom = fp.count_leading_zeros32(np.where(refused, 1, total))
        inverse = fp.one_over_one_plus_x(fp.wrap32((total << headroom) - 2**31))
        high = fp.saturating_rounding_doubling_high_mul(inverse, e)
        bits = 8 * call.output.itemsize
        codes = fp.rounding_divide_by_pot(high, np.minimum(12 - headroom + 31 - bits, 31)) + lowest
        return np.asarray(np.where(refused, lowest, codes), np.int64)

    def _float(self, call: Call) -> Int:
        x, out = call.array(0).astype(np.int64), call.output
        e = self.float_table(call.input(0).quant.scale)[x.max(-1, keepdims=True) - x]
        total = np.cumsum(e, axis=-1, dtype=np.float32)[..., -1:]
        scaled = e * (np.float32(1) / (total * np.float32(out.quant.scale)))
        if out.dtype == "uint8":
            return np.asarray(np.trunc(scaled + np.float32(0.5)), np.int64)
        return np.asarray(fp.round_away(scaled), np.int64) + out.quant.zero_point
