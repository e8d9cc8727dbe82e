"""From accumulators to output codes: the parameters that ``evaluate`` and the lowering rules share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from qimport import fixedpoint as fp
from qimport.fixedpoint import Int, Rounding
from qimport.ir.graph import Array
from qimport.ir.types import TensorType
from qimport.numerics import Family

ACTIVATIONS = ("NONE", "RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1")
"""Fused activations, named as in the schema."""


@dataclass(frozen=True, eq=False)
class Requantization:
    """code = clamp(rescale(acc) + zero_point, low, high).

    ``factors`` are the constant operands of ``prim.rescale`` that follow x: (multiplier, exponent) int32 for
    the fixed-point roundings, (scale,) float32 or float64 otherwise; each has one element or one per channel
    (last dimension). Channels from ``leftover_from`` on round as ``leftover``, if that is given. ``wraps``
    adds the zero point modulo 2^32: an out-of-range rescale then does not stay at its end of int32.
    """

    rounding: Rounding
    factors: tuple[Array, ...]
    zero_point: int
    low: int
    high: int
    leftover: Rounding | None = None
    leftover_from: int = 0
    wraps: bool = False

    def rounded_as(self, rounding: Rounding) -> Requantization:
        """The same with another rounding throughout."""
        return replace(self, rounding=rounding, leftover=None, leftover_from=0)

    def repeated(self, times: int, channels: int) -> Requantization:
        """For ``times`` the ``channels``, one after the other."""
        factors = tuple(np.tile(f, times) if f.size == channels > 1 else f for f in self.factors)
        return replace(self, factors=factors)

    def rescale(self, acc: Int) -> Int:
        """The rescaled accumulators, before the zero point."""
        result = fp.rescale(acc, self.rounding, *self.factors)
        if self.leftover is not None:
            rest = fp.rescale(acc, self.leftover, *self.factors)
            result[..., self.leftover_from :] = rest[..., self.leftover_from :]
        return result

    def codes(self, acc: Int, output: TensorType) -> Array:
        """Output codes for accumulators."""
        shifted = self.rescale(acc) + self.zero_point
        if self.wraps:
            shifted = fp.wrap32(shifted)
        return np.clip(shifted, self.low, self.high).reshape(np.shape(acc)).astype(output.numpy)


def fixed_point_factors(scales: Sequence[float]) -> tuple[Array, Array]:
    """Multipliers and exponents (TFLite ``QuantizeMultiplier``) of float64 scales."""
    pairs = [fp.quantize_multiplier(scale) for scale in scales]
    return np.array([m for m, _ in pairs], np.int32), np.array([e for _, e in pairs], np.int32)


def output_range(activation: str, output: TensorType, family: Family) -> tuple[int, int]:
    """Clip bounds of a fused activation in the codes of ``output``."""
    q = output.quant
    form = fp.activation_range_xnnpack if family == "xnnpack" else fp.activation_range
    return form(activation, q.scale, q.zero_point, output.dtype)


def is_plain_8bit(type_: TensorType) -> bool:
    """Whether a tensor is 8-bit with one scale and no quantized dimension, as the delegate wants them."""
    q = type_.quantization
    return type_.dtype in ("int8", "uint8") and q is not None and len(q.scales) == 1 and q.axis is None
