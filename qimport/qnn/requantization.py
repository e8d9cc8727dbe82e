"""From accumulators to output codes: the parameters that ``evaluate`` and the lowering rules share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from qimport import fixedpoint as fp
from qimport.fixedpoint import Int, Rounding
from qimport.ir.graph import Array
from qimport.ir.types import TensorType
from qimport.numerics import Family, Mode

ACTIVATIONS = ("NONE", "RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1")
"""Fused activations, named as in the schema."""


@dataclass(frozen=True, eq=False)
class Requantization:
    """code = clamp(rescale(acc) + zero_point, low, high).

    ``factors`` are the constant operands of ``prim.rescale`` that follow x: (multiplier, exponent) int32 for
    the fixed-point roundings, (scale,) float32 or float64 otherwise; each has one element or one per channel
    (last dimension). Channels from ``leftover_from`` on round as ``leftover``, if that is given. ``wraps``
    adds the zero point modulo 2^32: an out-of-range rescale then does not stay at its end of int32.
    ``late_shifts``, one per channel, shift what was rescaled left, saturating.
    """

    rounding: Rounding
    factors: tuple[Array, ...]
    zero_point: int
    low: int
    high: int
    leftover: Rounding | None = None
    leftover_from: int = 0
    wraps: bool = False
    late_shifts: npt.NDArray[np.int32] | None = None

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
        return result if self.late_shifts is None else fp.saturate32(result << self.late_shifts)

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


VECTOR_ROWS, VECTOR_DEPTH = 4, 8
"""What ruy on ARM asks for to multiply a matrix with a vector by a kernel of its own."""


def matrix_rounding(mode: Mode, columns: int, rows: int, depth: int, dtype: str = "int8") -> Rounding:
    """How ruy rounds 32-bit sums of ``depth`` products; ``columns`` results have ``rows`` channels each.

    On ARM the product of an 8-bit matrix and a vector runs a kernel of its own, which rounds twice.
    """
    one_vector = columns == 1 and rows >= VECTOR_ROWS and depth >= VECTOR_DEPTH and dtype != "int16"
    return "double_up" if one_vector or not mode.arm64 else "exact_up"


def fixed_point_form(scales: Sequence[float], narrow: bool) -> dict[str, Any]:
    """Rounding and factors of XNNPACK's fixed-point requantization on ARM."""
    if not narrow:
        return {"rounding": "exact_up_saturated", "factors": fixed_point_factors(scales)}
    pairs = np.array([fp.narrow_multiplier(scale) for scale in scales], np.int32)
    return {"rounding": "narrow_up", "factors": (pairs[:, 0], pairs[:, 1])}


def output_range(activation: str, output: TensorType, family: Family) -> tuple[int, int]:
    """Clip bounds of a fused activation in the codes of ``output``."""
    q = output.quant
    form = fp.activation_range_xnnpack if family == "xnnpack" else fp.activation_range
    return form(activation, q.scale, q.zero_point, output.dtype)


def is_plain_8bit(type_: TensorType) -> bool:
    """Whether a tensor is 8-bit with one scale and no quantized dimension, as the delegate wants them."""
    q = type_.quantization
    return type_.dtype in ("int8", "uint8") and q is not None and len(q.scales) == 1 and q.axis is None
