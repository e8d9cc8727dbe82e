"""``qnn.sqrt``, ``qnn.rsqrt``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from qimport import fixedpoint as fp
from qimport import real
from qimport.fixedpoint import Int
from qimport.ir.graph import operation
from qimport.ir.types import INTEGER_RANGE, TensorType
from qimport.numerics import Family, Mode
from qimport.qnn.interpolation import interpolated, knots
from qimport.qnn.unary import Float32, UnaryOperation, everywhere, real_values


@operation
@dataclass(frozen=True)
class Sqrt(UnaryOperation):
    """The square root.

    8 bits, int16: clamp(trunc(f32(sqrt(f32(s_in * (x - z_in))) / s_out)) + z_out). The interpreter fails for
    codes under z_in; here they count as z_in.
    float32: correctly rounded; xnnpack :func:`qimport.real.estimate.square_root`.

    C1, C2 as in :class:`qimport.qnn.unary.UnaryOperation`.
    """

    NAME = "qnn.sqrt"
    ARM64_FLOATS = ("reference", "builtin")
    TFLITE: ClassVar[tuple[str, ...]] = ("SQRT",)
    TYPES = ("int8", "int16", "float32")
    DELEGATED = ("float32",)
    REAL: ClassVar[Mapping[Family, real.Kind]] = {**everywhere("sqrt"), "xnnpack": "sqrt_of_estimate"}

    def codes(self, x: Int, source: TensorType, target: TensorType, kernels: Mode) -> Int:
        """The formula of the class."""
        root = np.sqrt(np.maximum(real_values(x, source), np.float32(0)))
        whole = np.trunc(root / np.float32(target.quant.scale)).astype(np.float64)
        return np.asarray(np.clip(whole + target.quant.zero_point, *INTEGER_RANGE[target.dtype]), np.int64)


@operation
@dataclass(frozen=True)
class Rsqrt(UnaryOperation):
    """The reciprocal of the square root.

    8 bits: 127 for x = z_in, else with (a, b) = inverse_sqrt_multiplier(x - z_in) and
    t = MBQM(1, a, b + 20): clamp(MBQM(t, m, e - 20) + z_out), (m, e) of 1 / f64(f32(sqrt(s_in) * s_out)).
    The interpreter fails for codes under z_in; here they count as z_in.
    int16: :mod:`qimport.qnn.interpolation` of f32(1 / sqrt(v)), of the result's highest number for v = 0.
    float32: f32(1 / sqrt(v)); xnnpack :func:`qimport.real.estimate.reciprocal_square_root`.

    C1, C2 as in :class:`qimport.qnn.unary.UnaryOperation`.
    """

    NAME = "qnn.rsqrt"
    ARM64_FLOATS = ("reference", "builtin")
    TFLITE: ClassVar[tuple[str, ...]] = ("RSQRT",)
    TYPES = ("int8", "int16", "float32")
    DELEGATED = ("float32",)
    REAL: ClassVar[Mapping[Family, real.Kind]] = {**everywhere("rsqrt"), "xnnpack": "rsqrt_of_estimate"}

    def codes(self, x: Int, source: TensorType, target: TensorType, kernels: Mode) -> Int:
        """The formula of the element type."""
        if source.dtype == "int16":
            return interpolated(x, self.knots(source, target, kernels))
        product = fp.f32(fp.f32(np.sqrt(np.float32(source.quant.scale))) * target.quant.scale)
        multiplier, exponent = fp.quantize_multiplier(1 / product)
        value = x - source.quant.zero_point
        a, b = fp.inverse_sqrt_multiplier(np.maximum(value, 1))
        t = fp.multiply_by_quantized_multiplier(1, a, b + 20)
        codes = fp.multiply_by_quantized_multiplier(t, multiplier, exponent - 20) + target.quant.zero_point
        return np.where(value <= 0, 127, np.clip(codes, *INTEGER_RANGE[target.dtype]))

    def knots(self, source: TensorType, target: TensorType, kernels: Mode) -> Int:
        """The table of the int16 kernel."""
        highest = np.float32(INTEGER_RANGE["int16"][1]) * np.float32(target.quant.scale)

        def function(v: Float32) -> Float32:
            return np.where(v > 0, real.apply("rsqrt", v), highest)

        with np.errstate(all="ignore"):
            return knots(function, source, target, kernels.arm64)
