"""``qnn.log_softmax``."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from qimport import fixedpoint as fp
from qimport import real
from qimport.fixedpoint import Int
from qimport.ir.graph import Array, Call, operation
from qimport.ir.types import INTEGER_RANGE
from qimport.qnn.base import QnnOperation
from qimport.qnn.checks import require_normalization
from qimport.qnn.logarithm import log_of_at_least_one
from qimport.qnn.softmax import INTEGER_BITS
from qimport.qnn.unary import rescaled
from qimport.summation import fused_multiply_add

RESULT = {"int8": (16 / 256, 127), "uint8": (16 / 256, 255)}
"""Scale and zero point of quantized results."""


@dataclass(frozen=True)
class Scaling:
    """Between codes and raw Q5.26 numbers: ``forward`` is (multiplier, exponent), ``back`` its inverse.

    ``limit`` is the largest difference of codes that the fixed-point kernel takes in.
    """

    forward: tuple[int, int]
    back: float
    limit: int

    @classmethod
    def of(cls, scale: float) -> Scaling:
        """For a scale of the operand."""
        factor = min(scale * 2.0 ** (31 - INTEGER_BITS), 2.0**31 - 1)
        multiplier, exponent = fp.quantize_multiplier(factor)
        limit = math.floor((2**INTEGER_BITS - 1) * 2.0 ** (31 - INTEGER_BITS - exponent))
        back = 2.0 ** (31 - exponent) / multiplier if multiplier else 0.0
        return cls((multiplier, exponent), back, limit)

    def raw(self, k: Int) -> Int:
        """Differences of codes, k >= 0, as numbers <= 0."""
        multiplier, exponent = self.forward
        return fp.multiply_by_quantized_multiplier(-k, multiplier, max(exponent, 0))


@operation
@dataclass(frozen=True)
class LogSoftmax(QnnOperation):
    """v - log(sum of e^v) along the last axis.

    With k = max(row) - x, reference (``reference_ops::LogSoftmax``), fixed point: D(k) and e as in
    :class:`qimport.qnn.softmax.Softmax` with beta 1, k beyond the range counts nothing; L = logarithm of the
    sum of rdbpot(e, 12) in Q5.26 (:mod:`qimport.qnn.logarithm`); a k of which -k <= max(-limit - 1, MBQM(L -
    2^31) of 1 / m) gives the lowest code, else clamp(rdbpot(D(k) - L, 22) + hi).
    builtin, xnnpack (``optimized_ops::LogSoftmax``), float: L = f32(log(sum of f32(exp(f32(-s_in * k))))),
    the sum in index order; c = f32(s_in / s_out); p = f32(f32(f32(s_in * max(row)) + L) / s_out);
    clamp(rne(f32(f32(c * x) - p)) + z_out); on ARM the sum and the difference are fused with their products.
    float32: f32(f32(v - max(row)) - f32(log(sum of f32(exp(f32(v - max(row))))))), the sum in index order;
    within 1 unit in the last place of the logarithm, as builtin sums in another order: 64 of results that are
    not close to 0.

    C1 operand and result are of one type, int8, uint8 or float32, and of one shape, rank at least 1.
    C2 the result has scale 1/16 and the highest code as zero point.
    """

    NAME = "qnn.log_softmax"
    TFLITE: ClassVar[tuple[str, ...]] = ("LOG_SOFTMAX",)

    def verify(self, call: Call) -> None:
        """Check C1, C2."""
        require_normalization(call, RESULT)

    def ulp_bound(self, call: Call) -> int:
        """Small results are differences of larger numbers."""
        return 64 if call.input(0).dtype == "float32" else 0

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """The formula of the kernel family."""
        x, out = call.array(0), call.output
        if out.dtype == "float32":
            return (self._real(x),)
        codes = x.astype(np.int64)
        kernel = self._fixed if self.kernel_family(call) == "reference" else self._float
        return (np.clip(kernel(codes, call), *INTEGER_RANGE[out.dtype]).astype(out.numpy),)

    def _real(self, x: Array) -> Array:
        with np.errstate(all="ignore"):
            distance = x - x.max(-1, keepdims=True)
            total = np.cumsum(real.apply("exp", distance), axis=-1, dtype=np.float32)[..., -1:]
            return np.asarray(distance - real.apply("log", total), np.float32)

    def terms(self, scale: float) -> tuple[Int, Int]:
        """rdbpot(e, 12) and D(k) of the fixed-point kernel by k; 0 beyond its range."""
        scaling, k = Scaling.of(scale), np.arange(256, dtype=np.int64)
        counted = k <= scaling.limit
        raw = scaling.raw(np.where(counted, k, 0))
        e = fp.rounding_divide_by_pot(fp.exp_on_negative_values(raw, INTEGER_BITS), 12)
        return np.where(counted, e, 0), scaling.raw(k)

    def _fixed(self, x: Int, call: Call) -> Int:
        lowest, highest = INTEGER_RANGE[call.output.dtype]
        scale = call.input(0).quant.scale
        scaling, (terms, raw) = Scaling.of(scale), self.terms(scale)
        k = x.max(-1, keepdims=True) - x
        logarithm = log_of_at_least_one(fp.wrap32(terms[k].sum(-1, keepdims=True)))
        back = rescaled(fp.wrap32(logarithm - 2**31), scaling.back)
        least = np.maximum(-scaling.limit - 1, back)
        codes = fp.rounding_divide_by_pot(fp.wrap32(raw[k] - logarithm), 22) + highest
        return np.where(-k > least, np.maximum(codes, lowest), lowest)

    def exponentials(self, scale: float) -> Array:
        """f32(exp(f32(-s_in * k))) by k."""
        return real.apply("exp", np.float32(-scale) * np.arange(256, dtype=np.float32))

    def _float(self, x: Int, call: Call) -> Int:
        before, after = np.float32(call.input(0).quant.scale), np.float32(call.output.quant.scale)
        top = x.max(-1, keepdims=True)
        e = self.exponentials(call.input(0).quant.scale)[top - x]
        logarithm = real.apply("log", np.cumsum(e, axis=-1, dtype=np.float32)[..., -1:])
        if call.mode.arm64:
            offset = fused_multiply_add(before, top, logarithm) / after
            scaled = np.rint(fused_multiply_add(before / after, x, -offset))
        else:
            offset = (before * top.astype(np.float32) + logarithm) / after
            scaled = np.rint((before / after) * x.astype(np.float32) - offset)
        return np.asarray(scaled.astype(np.float64) + call.output.quant.zero_point, np.int64)
