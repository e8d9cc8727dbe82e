"""``qnn.mean``: the MEAN operator."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qimport.fixedpoint import Int, Rounding, f32, quantize_multiplier, wrap32
from qimport.ir.graph import Array, Call, operation
from qimport.ir.types import INTEGER_RANGE
from qimport.qnn.checks import QUANTIZED
from qimport.qnn.reduction import (
    DelegateSum,
    Reduction,
    SumOrder,
    delegate_real_sum,
    delegate_sum,
    merge,
    sum_in_order,
)
from qimport.qnn.requantization import Requantization, fixed_point_factors

PLAIN = ("int32", "int64", "float32")
"""Element types of numbers without scale."""

BLOCK = 16
"""Channels the optimized kernel for images rounds at a time."""


@dataclass(frozen=True)
class ClassicMean:
    """code = requantization of wrap32(sum - offset)."""

    offset: int
    requantization: Requantization


@operation
@dataclass(frozen=True)
class Mean(Reduction):
    """Mean over ``axes``; ``keep_dims`` says whether they stay with extent 1. n elements are reduced to one.

    reference, and builtin in general (``reference_ops::QuantizedMeanOrSum``):

        (m, e) = multiplier of s_x / s_out; k = min(floor(log2 n), 32, 31 + e)
        code   = clamp(rescale(sum - z_x * n, m = (m << k) // n, e = e - k) + z_out)   ``double_away``

    builtin, x of rank 4, axes (1, 2), keep_dims (``optimized_integer_ops::Mean``, ``optimized_ops::Mean``):

        b    = z_out - trunc(float32(float32(z_x * s_x) / s_out) +- 0.5), the sign that of the quotient
        code = clamp(rescale(sum, float32(s_x / float32(n * s_out))) + b)
               ``double_up`` in whole blocks of 16 channels, ``double_away`` in the channels left over

    The interpreter splits the channels between its threads before it forms blocks; this is one thread.

    xnnpack, every step rounded to float32; requires a rank up to 6:

        c    = (s_x / s_out) * (1 / n)
        code = clamp(round_even(sum * c + (z_out - (n * z_x) * c)))      on ARM both sums are fused

    int16 always as in reference. int32, int64: the sum in 64 bits (wrapping), divided by n toward zero.
    float32: :func:`qimport.qnn.reduction.delegate_real_sum` with 1 / n in xnnpack, otherwise
    :func:`qimport.qnn.reduction.sum_in_order` divided by n: ``packets`` in builtin where what is reduced are
    the last dimensions and something is kept (``optimized_ops::MeanGeneral``).

    C1 x and the result have one element type, one of these; 8 and 16 bits have one scale each. C2, C3 see
    Reduction. C4 int16 has zero points 0.
    """

    NAME = "qnn.mean"
    ARM64_FLOATS = ()
    TFLITE = ("MEAN",)

    def verify(self, call: Call) -> None:
        """Check C1-C4."""
        self.verify_types(call, (*QUANTIZED, *PLAIN))
        if call.input(0).dtype in QUANTIZED:
            self.verify_codes("C1", call)
        self.verify_shape(call)

    def classic(self, call: Call) -> ClassicMean:
        """Parameters of the kernels without delegate."""
        x = call.input(0)
        image = len(x.shape) == 4 and self.axes == (1, 2) and self.keep_dims and x.dtype != "int16"
        optimized = image and self.kernel_family(call) == "builtin"
        return self._over_image(call) if optimized else self._general(call)

    def _general(self, call: Call) -> ClassicMean:
        x, out, n = call.input(0).quant, call.output.quant, self.count(call)
        multiplier, exponent = quantize_multiplier(x.scale / out.scale)
        folded = min(n.bit_length() - 1, 32, 31 + exponent)
        factors = (
            np.array([(multiplier << folded) // n], np.int32),
            np.array([exponent - folded], np.int32),
        )
        low, high = INTEGER_RANGE[call.output.dtype]
        return ClassicMean(
            n * x.zero_point, Requantization("double_away", factors, out.zero_point, low, high)
        )

    def _over_image(self, call: Call) -> ClassicMean:
        x, out, n = call.input(0).quant, call.output.quant, self.count(call)
        quotient = np.float32(f32(x.zero_point * x.scale) / out.scale)
        zero_point = out.zero_point - int(np.trunc(quotient + np.copysign(np.float32(0.5), quotient)))
        factors = fixed_point_factors([f32(x.scale / f32(n * out.scale))])
        low, high = INTEGER_RANGE[call.output.dtype]
        channels = call.output.shape[3]
        whole = channels - channels % BLOCK
        if whole in (0, channels):
            rounding: Rounding = "double_up" if whole else "double_away"
            return ClassicMean(0, Requantization(rounding, factors, zero_point, low, high))
        form = Requantization("double_up", factors, zero_point, low, high, "double_away", whole)
        return ClassicMean(0, form)

    def delegate(self, call: Call) -> DelegateSum:
        """Parameters of XNNPACK's kernel."""
        return delegate_sum(call, self.count(call), self.count(call))

    def order(self, call: Call) -> SumOrder:
        """In which order float32 is summed without delegate."""
        if self.kernel_family(call) == "reference":
            return "reference"
        merged = merge(call.input(0).shape, self.axes, drop_ones=True)
        return "packets" if len(merged.shape) == 2 and merged.axes == (1,) else "builtin"

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """The docstring's formula."""
        x = call.array(0)
        if x.dtype == np.float32:
            return (self._real(x, call).reshape(call.output.shape),)
        total = x.astype(np.int64).sum(self.axes, keepdims=True)
        return (self._codes(np.asarray(total), call).reshape(call.output.shape),)

    def _real(self, x: Array, call: Call) -> Array:
        n = np.float32(self.count(call))
        if self.kernel_family(call) == "xnnpack":
            return delegate_real_sum(x, self.axes, float(np.float32(1) / n))
        with np.errstate(all="ignore"):
            return np.asarray(sum_in_order(x, self.axes, self.order(call)) / n)

    def _codes(self, total: Int, call: Call) -> Array:
        if call.output.dtype in PLAIN:
            n = self.count(call)
            return np.asarray(np.sign(total) * (np.abs(total) // n), call.output.numpy)
        if self.kernel_family(call) == "xnnpack":
            return self.delegate(call).codes(wrap32(total), call.output)
        form = self.classic(call)
        return form.requantization.codes(wrap32(wrap32(total) - form.offset), call.output)
