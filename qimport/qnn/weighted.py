"""What weighted operators on integers share: weights and bias, checks, scales, delegation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from qimport.fixedpoint import Int, Rounding, f32, quantize_multiplier, wrap32
from qimport.ir.check import require
from qimport.ir.graph import Array, Call
from qimport.ir.types import Quantization, TensorType
from qimport.qnn.checks import require_per_tensor
from qimport.qnn.geometry import Geometry, SlidingWindow, has_bias
from qimport.qnn.lost_pairs import LOST, loses_pairs, lost_pairs
from qimport.qnn.requantization import (
    ACTIVATIONS,
    Requantization,
    fixed_point_factors,
    fixed_point_form,
    is_plain_8bit,
    output_range,
)

SMALLEST_NORMAL = 2.0**-126
"""The delegate leaves weights with smaller scales alone."""

XNNPACK_SCALE_LIMIT = 256.0
"""Effective scales from here on make the delegate, and with it the whole file, fail to load."""


class WeightedOperation(Geometry):
    """Operands x, w, bias or None: exact accumulators (modulo 2^32 or 2^64), then a requantization.

    A subclass names the element types of weights beside those of x, and the rounding of its classic kernels.
    Accumulators are int64 where int16 activations have an int64 bias or none; otherwise int32.

    xnnpack, int8: a product with the effective scale that falls below int32 wraps when a negative z_out is
    added, and gives the high bound (GEMM kernels on CPUs with AVX-512; elsewhere they saturate). Depthwise
    kernels saturate: those for groups of one input and one output channel and at most 25 taps.

    xnnpack-arm64, int8: depthwise kernels lose :mod:`qimport.qnn.lost_pairs`. uint8:
    ``exact_up_saturated``, on little cores ``narrow_up``, but in depthwise kernels.
    """

    WEIGHT_TYPES: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "int8": ("int8", "int4"),
        "uint8": ("uint8",),
        "int16": ("int8", "int4"),
    }
    DELEGATED_WEIGHTS: ClassVar[Mapping[str, tuple[str, ...]]] = {"int8": ("int8",), "uint8": ("uint8",)}
    NEEDS_BIAS_TO_DELEGATE: ClassVar[bool] = True
    RESULT_TYPES: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """Element types of the result where it may differ from the input's."""
    OFFSET_WEIGHTS: ClassVar[tuple[str, ...]] = ("uint8",)
    """Element types of weights that may have a zero point."""

    activation: str
    constant_weights: bool

    def accumulator(self, call: Call) -> str:
        """Element type of the accumulators."""
        if call.input(0).dtype != "int16":
            return "int32"
        return call.input(2).dtype if has_bias(call) else "int64"

    def classic_rounding(self, call: Call) -> tuple[Rounding, Rounding | None, int]:
        """Rounding, leftover rounding and first leftover channel of the kernels without delegate."""
        raise NotImplementedError

    def late_shifts(self, call: Call) -> npt.NDArray[np.int32] | None:
        """Left shifts per scale of kernels that multiply first; None where there are none."""
        return None

    def wants_matching_bias(self, call: Call) -> bool:
        """Whether the delegate fails on several scales for only one of weights and bias."""
        return True

    def result_zero_point(self, call: Call) -> int:
        """The zero point that the kernels add."""
        return call.output.quant.zero_point

    def classic_scales(self, call: Call) -> tuple[float, ...]:
        """Effective scales of the kernels without delegate: int8 multiplies in float64, uint8 in float32."""
        return effective_scales(call, narrow_product=call.input(0).dtype == "uint8")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """The docstring's formula."""
        x = call.array(0).astype(np.int64) - call.input(0).quant.zero_point
        w = call.array(1).astype(np.int64) - call.input(1).quant.zero_point
        acc = self.accumulate(x, w, call).astype(np.int64).reshape(call.output.shape)
        if has_bias(call):
            acc = acc + call.array(2).astype(np.int64)
        if self.accumulator(call) == "int32":
            acc = wrap32(acc - self.lost(call))
        return (self.requantization(call).codes(acc, call.output),)

    def lost(self, call: Call) -> Int | int:
        """What the kernel's sums are smaller by than the exact ones: see :mod:`qimport.qnn.lost_pairs`."""
        if not isinstance(self, SlidingWindow) or not loses_pairs(self, call):
            return 0
        return LOST * lost_pairs(self, call)

    def requantization(self, call: Call) -> Requantization:
        """How accumulators become codes in the call's numerics."""
        family = self.kernel_family(call)
        low, high = output_range(self.activation, call.output, family)
        zero = self.result_zero_point(call)
        if family == "xnnpack":
            return self._delegated(call, Requantization("float32_even", (), zero, low, high))
        rounding, leftover, first = self.classic_rounding(call)
        scales = self.classic_scales(call)
        if rounding.startswith("float64"):
            # Under one half no int32 accumulator can reach the ends of int32, so nothing can wrap.
            wraps = max(scales) > 0.5 and zero != 0
            return Requantization(rounding, (np.array(scales),), zero, low, high, wraps=wraps)
        multiplier, exponent = fixed_point_factors(scales)
        late = self.late_shifts(call)
        factors = (multiplier, exponent if late is None else np.minimum(exponent, 0))
        return Requantization(rounding, factors, zero, low, high, leftover, first, late_shifts=late)

    def _delegated(self, call: Call, form: Requantization) -> Requantization:
        """``form`` as the delegate computes it."""
        scales = xnnpack_scales(call)
        if call.mode.arm64 and call.input(0).dtype == "uint8":
            narrow = call.mode.little and not self.is_depthwise(call)
            return replace(form, **fixed_point_form(scales, narrow))
        # Under 1 no accumulator leaves int32; too large ones are cut off before the zero point is added.
        reaches = form.zero_point < 0 and max(scales) >= 1 and not self.is_depthwise(call)
        wraps = reaches and not call.mode.arm64
        return replace(form, factors=(np.array(scales, np.float32),), wraps=wraps)

    def xnnpack_takes(self, call: Call) -> bool:
        """Whether types and storage are what the delegate asks for.

        x and the result have one scale without quantized dimension; weights and bias are stored in the file;
        the bias has a quantization record; int8 weights have zero points 0; the record of uint8 weights names
        dimension 0 (no axis here).
        """
        x, w, out = call.input(0), call.input(1), call.output
        if not (self.constant_weights and is_plain_8bit(x) and is_plain_8bit(out)):
            return False
        if x.dtype != out.dtype or w.dtype not in self.DELEGATED_WEIGHTS[x.dtype]:
            return False
        if has_bias(call):
            if call.input(2).quantization is None:
                return False
        elif self.NEEDS_BIAS_TO_DELEGATE:
            return False
        q = w.quant
        if min(q.scales) < SMALLEST_NORMAL or (len(q.scales) > 1 and q.axis != self.WEIGHT_AXIS):
            return False
        return q.axis is None if w.dtype == "uint8" else not any(q.zero_points)

    def unsupported(self, call: Call) -> str | None:
        """Why there are no bytes to equal: the delegate takes the use, then fails to load the file."""
        if self.kernel_family(call) != "xnnpack":
            return self._out_of_reach(call)
        largest = max(xnnpack_scales(call))
        if largest >= XNNPACK_SCALE_LIMIT:
            product = f"input scale * weight scale / output scale is {largest:g}"
            return f"{product}; the XNNPACK delegate requires less than 256, or the file does not load"
        if has_bias(call) and self.wants_matching_bias(call):
            counts = [len(call.input(index).quant.scales) for index in (1, 2)]
            if (counts[0] > 1) != (counts[1] > 1):
                found = "the weights have {} and the bias {} scales".format(*counts)
                return f"{found}; the XNNPACK delegate requires as many, or the file does not load"
        return None

    def _out_of_reach(self, call: Call) -> str | None:
        """Why the classic kernels shift by counts that mean nothing, or wrap where it is not known how."""
        rounding, _, _ = self.classic_rounding(call)
        largest = max(self.classic_scales(call))
        if rounding == "single_up":
            return _too_large_for_single_rounding(largest)
        if rounding == "exact_up" and call.input(0).dtype == "int16" and largest >= 1:
            # Under 1 no product leaves int32, where the 64-bit kernels would wrap and ``exact_up`` does not.
            return f"input scale * weight scale / output scale is {largest:g}; expected less than 1 on ARM"
        return None

    def verify(self, call: Call) -> None:
        """Check C1-C5."""
        x, w, out = call.input(0), call.input(1), call.output
        channels = self.verify_geometry(call)
        require_per_tensor("C1", x, out)
        require(x.dtype in self.WEIGHT_TYPES, "C1", f"the input must be 8-bit or int16, not {x}")
        require(w.dtype in self.WEIGHT_TYPES[x.dtype], "C1", f"no products of {x.dtype} and {w.dtype}")
        require(out.dtype in self.RESULT_TYPES.get(x.dtype, (x.dtype,)), "C1", f"no {out.dtype} result")
        for type_ in (x, out):
            centred = type_.dtype != "int16" or x.dtype != "int16" or type_.quant.zero_point == 0
            require(centred, "C3", "int16 input and result must have zero point 0")
        require(self.activation in ACTIVATIONS, "C5", f"unknown activation {self.activation}")
        require(w.quantization is not None, "C3", "the weights need a quantization")
        self._verify_weight_quantization(w, w.quant, channels)
        if has_bias(call):
            bias = call.input(2)
            wanted = ("int32", "int64") if x.dtype == "int16" else ("int32",)
            fits = bias.dtype in wanted and bias.size == channels
            require(fits, "C4", f"bias must be {' or '.join(wanted)}[{channels}]")
            zeros = () if bias.quantization is None else bias.quantization.zero_points
            require(not any(zeros), "C4", "the bias zero point must be 0")

    def _verify_weight_quantization(self, w: TensorType, q: Quantization, channels: int) -> None:
        zero_free = w.dtype in self.OFFSET_WEIGHTS or not any(q.zero_points)
        require(zero_free, "C3", f"{w.dtype} weights must have zero points 0")
        if len(q.scales) == 1:
            return
        require(w.dtype != "uint8", "C3", "uint8 weights cannot have several scales")
        require(len(q.scales) == channels, "C3", "weights need one scale or one per output channel")
        require(not any(q.zero_points), "C3", "weights with several scales must have zero points 0")


def _too_large_for_single_rounding(scale: float) -> str | None:
    if quantize_multiplier(scale)[1] < 15:
        return None
    return (
        f"input scale * weight scale / output scale is {scale:g}; the interpreter's 16x8 kernels require less"
        " than 2^14, beyond which they shift by negative counts"
    )


def effective_scales(call: Call, narrow_product: bool) -> tuple[float, ...]:
    """s_x * s_w / s_out in float64, one per weight scale; ``narrow_product`` rounds s_x * s_w to float32."""
    s_x, s_out = call.input(0).quant.scale, call.output.quant.scale
    products = [s_x * s_w for s_w in call.input(1).quant.scales]
    return tuple((f32(product) if narrow_product else product) / s_out for product in products)


def xnnpack_scales(call: Call) -> tuple[float, ...]:
    """s_x * s_w / s_out with every step rounded to float32."""
    return tuple(f32(scale) for scale in effective_scales(call, narrow_product=True))
