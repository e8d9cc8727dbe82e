"""``qnn.mean``: the MEAN operator."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from qimport.fixedpoint import Int, Rounding, f32, quantize_multiplier, wrap32
from qimport.ir.check import require
from qimport.ir.graph import Array, Call, operation
from qimport.ir.types import INTEGER_RANGE
from qimport.qnn.base import QnnOperation
from qimport.qnn.checks import require_eight_bit
from qimport.qnn.requantization import Requantization, fixed_point_factors, is_plain_8bit

BLOCK = 16
"""Channels the optimized kernel for images rounds at a time."""

MAX_DELEGATED_RANK = 6


@dataclass(frozen=True)
class ClassicMean:
    """code = requantization of wrap32(sum - offset)."""

    offset: int
    requantization: Requantization


@dataclass(frozen=True)
class DelegateMean:
    """code = clamp(round_even(float32(float32(sum) * factor) + offset), low, high), each step in float32."""

    factor: float
    offset: float


@operation
@dataclass(frozen=True)
class Mean(QnnOperation):
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
        code = clamp(round_even(sum * c + (z_out - (n * z_x) * c)))

    C1 x and the result are int8 or both uint8 with one scale each. C2 ``axes`` are sorted, distinct, in
    range, at least one. C3 the result shape follows; nothing is empty.
    """

    NAME = "qnn.mean"
    TFLITE = ("MEAN",)

    axes: tuple[int, ...]
    keep_dims: bool = False

    def verify(self, call: Call) -> None:
        """Check C1-C3."""
        x, out = call.input(0), call.output
        require_eight_bit("C1", x, out)
        require(x.dtype == out.dtype, "C1", "operand and result must be of one type")
        rank = len(x.shape)
        ascending = self.axes == tuple(sorted(set(self.axes))) and len(self.axes) > 0
        valid = ascending and all(0 <= axis < rank for axis in self.axes)
        require(valid, "C2", f"axes {self.axes} are not distinct, ascending dimensions of {x}")
        kept = self.kept_shape(call)
        wanted = kept if self.keep_dims else tuple(kept[i] for i in range(rank) if i not in self.axes)
        require(out.shape == wanted and x.size > 0, "C3", f"the result must have shape {wanted}")

    def kept_shape(self, call: Call) -> tuple[int, ...]:
        """The result's shape with reduced dimensions of extent 1."""
        return tuple(1 if i in self.axes else size for i, size in enumerate(call.input(0).shape))

    def count(self, call: Call) -> int:
        """n of the docstring."""
        return math.prod(call.input(0).shape[axis] for axis in self.axes)

    def xnnpack_takes(self, call: Call) -> bool:
        """One scale each without quantized dimension."""
        return is_plain_8bit(call.input(0)) and is_plain_8bit(call.output)

    def unsupported(self, call: Call) -> str | None:
        """Why there are no bytes to equal: the delegate takes the use, then fails to load the file."""
        rank = len(call.input(0).shape)
        if self.kernel_family(call) != "xnnpack" or rank <= MAX_DELEGATED_RANK:
            return None
        return f"the operand has rank {rank}; the XNNPACK delegate loads ranks up to {MAX_DELEGATED_RANK}"

    def classic(self, call: Call) -> ClassicMean:
        """Parameters of the kernels without delegate."""
        image = len(call.input(0).shape) == 4 and self.axes == (1, 2) and self.keep_dims
        return (
            self._over_image(call) if image and self.kernel_family(call) == "builtin" else self._general(call)
        )

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

    def delegate(self, call: Call) -> DelegateMean:
        """Parameters of XNNPACK's kernel."""
        x, out, n = call.input(0).quant, call.output.quant, self.count(call)
        factor = f32(f32(x.scale / out.scale) * f32(1 / n))
        return DelegateMean(factor, f32(out.zero_point - f32(f32(n * x.zero_point) * factor)))

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """The docstring's formula."""
        total = wrap32(call.array(0).astype(np.int64).sum(self.axes, keepdims=True))
        codes = (
            self._delegated(total, call)
            if self.kernel_family(call) == "xnnpack"
            else self._classic(total, call)
        )
        return (codes.reshape(call.output.shape),)

    def _classic(self, total: Int, call: Call) -> Array:
        form = self.classic(call)
        return form.requantization.codes(wrap32(total - form.offset), call.output)

    def _delegated(self, total: Int, call: Call) -> Array:
        form = self.delegate(call)
        scaled = total.astype(np.float32) * np.float32(form.factor) + np.float32(form.offset)
        low, high = INTEGER_RANGE[call.output.dtype]
        return np.asarray(np.clip(np.rint(scaled), low, high), call.output.numpy)
