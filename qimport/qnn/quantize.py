"""Between floats and codes, and between quantizations: ``Quantize``, ``Requantize``, ``Dequantize``.

The optimized kernels of the interpreter vectorize over the flattened tensor and round the elements that fill
no whole block in a scalar loop of other arithmetic: "block b" below means the first b * (n // b) of n.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from qimport import fixedpoint as fp
from qimport.fixedpoint import Int
from qimport.ir.check import require
from qimport.ir.graph import Array, Call, operation
from qimport.ir.types import INTEGER_RANGE, Quantization, TensorType
from qimport.numerics import Family
from qimport.qnn.base import QnnOperation
from qimport.qnn.checks import EIGHT_BIT, require_multiplier, require_per_tensor, require_same_shape
from qimport.qnn.requantization import is_plain_8bit
from qimport.summation import fused_multiply_add

QUANTIZE_BLOCK = 8
DEQUANTIZE_BLOCK = 8
REQUANTIZE_BLOCK = 16
"""Elements per block of the builtin kernels."""


QUANTIZATIONS = ("int8", "uint8", "int16")
"""Element types that float32 is quantized to."""

DEQUANTIZATIONS = ("int8", "uint8", "int16", "float16")
"""Element types that become float32."""


def in_blocks(block: int, body: npt.NDArray[Any], leftover: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """``body`` in whole blocks of the flattened tensor, ``leftover`` in the rest."""
    split = body.size - body.size % block
    flat = np.concatenate([body.reshape(-1)[:split], leftover.reshape(-1)[split:]])
    return flat.reshape(body.shape)


@operation
@dataclass(frozen=True)
class Quantize(QnnOperation):
    """float32 -> int8, uint8, int16.

    reference (``AffineQuantize``): clamp(wrap32(int(round_away(f32(x / s))) + z)).
    builtin: block 8: clamp(wrap32(int(rne(f32(x * f32(1 / s)))) + z)); leftover: as reference, with the
    division in float64. ``int`` is the x86 conversion: NaN and what lies outside int32 give -2^31.
    xnnpack: clamp(rne(f32(x * f32(1 / s))) + z), saturating; NaN gives the highest code. 8-bit results only.
    Per channel (``PerChannelQuantize``): as reference in all modes, with s[c] and z[c].
    builtin-arm64 and per channel in the ARM modes: ``int`` saturates, and NaN gives 0.

    C1 the operand is float32, the result one of the listed types. C2 same shape. C3 the result has one scale
    and zero point, or as many as the dimension ``axis`` has indices.
    """

    NAME = "qnn.quantize"
    TFLITE: ClassVar[tuple[str, ...]] = ("QUANTIZE",)

    def verify(self, call: Call) -> None:
        """Check C1-C3."""
        x, out = call.input(0), call.output
        require(x.dtype == "float32", "C1", f"{x} is not float32")
        require(out.dtype in QUANTIZATIONS, "C1", f"float32 does not quantize to {out}")
        require_same_shape("C2", call)
        require_channels("C3", out)

    def xnnpack_takes(self, call: Call) -> bool:
        """8-bit results with one scale and no quantized dimension."""
        return is_plain_8bit(call.output)

    def kernel_family(self, call: Call) -> Family:
        """As there; per channel there is one kernel only."""
        return "reference" if call.output.quant.per_channel else super().kernel_family(call)

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """The formula of the kernel family."""
        x, quant, family = call.array(0).astype(np.float32), call.output.quant, self.kernel_family(call)
        zeros, scale = channel_factors(quant, x.ndim)
        with np.errstate(all="ignore"):
            nearest = np.rint(x * (np.float32(1) / scale))
            if family == "reference":
                codes = fp.float_to_int32(fp.round_away(x / scale), saturate=call.mode.arm64)
            elif family == "builtin":
                leftover = fp.round_away(x.astype(np.float64) / scale.astype(np.float64))
                codes = fp.float_to_int32(in_blocks(QUANTIZE_BLOCK, nearest, leftover), call.mode.arm64)
            else:
                wide = np.where(np.isnan(nearest), fp.INT32_MAX, nearest.astype(np.float64))
                codes = np.clip(wide, fp.INT32_MIN, fp.INT32_MAX).astype(np.int64)
        shifted = codes + zeros
        if family != "xnnpack":
            shifted = fp.wrap32(shifted)
        return (np.clip(shifted, *INTEGER_RANGE[call.output.dtype]).astype(call.output.numpy),)


REQUANTIZATIONS: dict[str, tuple[str, ...]] = {
    "int8": ("int8", "uint8", "int16"),
    "uint8": ("int8", "uint8", "int16"),
    "int16": ("int8", "int16", "int32"),
    "int32": ("int8", "int16"),
}
"""Operand type -> result types between which the QUANTIZE kernel converts."""


@operation
@dataclass(frozen=True)
class Requantize(QnnOperation):
    """Codes of one quantization -> codes of another: clamp(wrap32(MBQM(x - z_in, m, e) + z_out)).

    (m, e) = quantize_multiplier(s_in / s_out) in float64; MBQM rounds as ``double_away``.
    reference: so everywhere (``reference_ops::Requantize``). builtin: from 8 to 8 bit in block 16 MBQM rounds
    as ``double_up``. xnnpack: between equal 8-bit types with 2^-8 <= f32(s_in / s_out) <= 2^7
    clamp((((x - z_in) * k + 128) >> 8) + z_out), k = rne(256 * f32(s_in / s_out)).

    C1 the pair of types is in :data:`REQUANTIZATIONS`; one scale and zero point each. C2 same shape.
    C3 between two int16 tensors both zero points are 0. C4 s_in / s_out is under 2^31.
    """

    NAME = "qnn.requantize"
    TFLITE: ClassVar[tuple[str, ...]] = ("QUANTIZE",)

    def verify(self, call: Call) -> None:
        """Check C1-C4."""
        x, out = call.input(0), call.output
        allowed = REQUANTIZATIONS.get(x.dtype, ())
        require(out.dtype in allowed, "C1", f"{x} does not requantize to {out}")
        require_per_tensor("C1", x, out)
        require_same_shape("C2", call)
        symmetric = x.quant.zero_point == out.quant.zero_point == 0
        require(symmetric or (x.dtype, out.dtype) != ("int16", "int16"), "C3", "int16 has zero point 0")
        require_multiplier("C4", x, out)

    def xnnpack_takes(self, call: Call) -> bool:
        """Equal 8-bit types and a ratio in the delegate's range."""
        x, out = call.input(0), call.output
        ratio = fp.f32(x.quant.scale / out.quant.scale)
        return x.dtype == out.dtype and x.dtype in EIGHT_BIT and 2**-8 <= ratio <= 2**7

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """The formula of the kernel family."""
        x, out, family = call.input(0), call.output, self.kernel_family(call)
        centred = fp.wrap32(call.array(0).astype(np.int64) - x.quant.zero_point)
        if family == "xnnpack":
            factor = int(np.rint(256 * fp.f32(x.quant.scale / out.quant.scale)))
            scaled = (centred * factor + 128) >> 8
        else:
            factors = fp.quantize_multiplier(x.quant.scale / out.quant.scale)
            scaled = fp.multiply_by_quantized_multiplier(centred, *factors)
            if family == "builtin" and self.has_blocks(call):
                up = fp.multiply_by_quantized_multiplier(centred, *factors, "double_up")
                scaled = in_blocks(REQUANTIZE_BLOCK, up, scaled)
        shifted = fp.wrap32(scaled + out.quant.zero_point)
        return (np.clip(shifted, *INTEGER_RANGE[out.dtype]).astype(out.numpy),)

    @staticmethod
    def has_blocks(call: Call) -> bool:
        """Whether the builtin kernel for these types works in blocks."""
        return call.input(0).dtype in EIGHT_BIT and call.output.dtype in EIGHT_BIT


@operation
@dataclass(frozen=True)
class Dequantize(QnnOperation):
    """Codes -> float32: f32((x - z) * s).

    Per tensor: so in reference and xnnpack; builtin in block 8 of 8-bit tensors
    f32(f32(x * s) + f32(-z * s)), on ARM fma(x, s, f32(-z * s)). Per channel: f32((x - z[c]) * s[c]) in all
    modes. float16 (no quantization): widened exactly.

    ``stored`` says that the operand is a constant of the file: of int8 ones the delegate asks the builtin
    kernel for the floats when it loads the file.

    C1 the operand is int8, uint8 or int16 with quantization, or float16; the result is float32. C2 same
    shape. C3 per channel, the operand has 8 bits and as many scales as the dimension ``axis`` has indices.
    """

    NAME = "qnn.dequantize"
    TFLITE: ClassVar[tuple[str, ...]] = ("DEQUANTIZE",)

    stored: bool = False

    def verify(self, call: Call) -> None:
        """Check C1-C3."""
        x, out = call.input(0), call.output
        quantized = x.dtype in QUANTIZATIONS and x.quantization is not None
        require(quantized or x.dtype == "float16", "C1", f"{x} does not dequantize")
        require(out.dtype == "float32", "C1", f"{out} is not float32")
        require_same_shape("C2", call)
        if x.quantization is not None:
            eight = x.dtype in EIGHT_BIT or not x.quant.per_channel
            require(eight, "C3", f"{x} has a scale per channel, but not 8 bits")
            require_channels("C3", x)

    def xnnpack_takes(self, call: Call) -> bool:
        """8-bit operands with one scale; not stored int8."""
        return self.has_blocks(call) and not (self.stored and call.input(0).dtype == "int8")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """The formula of the kernel family."""
        x, quant = call.array(0), call.input(0).quantization
        if quant is None:
            return (x.astype(np.float32),)
        zeros, scales = channel_factors(quant, x.ndim)
        with np.errstate(all="ignore"):
            real = (x.astype(np.int64) - zeros).astype(np.float32) * scales
            if self.kernel_family(call) == "builtin" and self.has_blocks(call):
                offset = (-zeros).astype(np.float32) * scales
                body = x.astype(np.float32) * scales + offset
                if call.mode.arm64:
                    body = fused_multiply_add(x, scales, offset)
                real = in_blocks(DEQUANTIZE_BLOCK, body, real)
        return (np.asarray(real, np.float32),)

    @staticmethod
    def has_blocks(call: Call) -> bool:
        """Whether the builtin kernel for these types works in blocks: 8 bits, one scale."""
        x = call.input(0)
        return x.dtype in EIGHT_BIT and not x.quant.per_channel


def require_channels(label: str, type_: TensorType) -> None:
    """The type has one scale, or as many as its quantized dimension has indices."""
    if type_.quantization is None or not type_.quantization.per_channel:
        require_per_tensor(label, type_)
        return
    axis, count = type_.quantization.axis or 0, len(type_.quantization.scales)
    fits = axis < len(type_.shape) and type_.shape[axis] == count
    require(fits, label, f"{count} scales along dimension {axis} of {type_}")


def channel_factors(quant: Quantization, rank: int) -> tuple[Int, npt.NDArray[np.float32]]:
    """Zero points and scales, shaped to broadcast against a tensor of ``rank`` dimensions."""
    along = (quant.axis or 0) if quant.per_channel else None
    shape = tuple(-1 if axis == along else 1 for axis in range(rank))
    return np.array(quant.zero_points).reshape(shape), np.array(quant.scales, np.float32).reshape(shape)
