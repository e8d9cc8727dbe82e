"""``qnn.abs``, ``qnn.neg``, ``qnn.sign``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from qimport import fixedpoint as fp
from qimport import real
from qimport.fixedpoint import Int
from qimport.ir.graph import Array, Call, operation
from qimport.ir.types import INTEGER_RANGE, TensorType
from qimport.numerics import Family, Mode
from qimport.qnn.checks import QUANTIZED, require_multiplier
from qimport.qnn.unary import UnaryOperation, everywhere, rescaled


@operation
@dataclass(frozen=True)
class Abs(UnaryOperation):
    """|v|.

    8 bits, int16: clamp(|x - z_in| + z_out) where the scales are equal, else with MBQM of f32(s_in / s_out)
    in front of the addition. int32 wraps, float32 clears the sign.

    C1, C2 as in :class:`qimport.qnn.unary.UnaryOperation`. C3 s_in / s_out is under 2^31.
    """

    NAME = "qnn.abs"
    TFLITE: ClassVar[tuple[str, ...]] = ("ABS",)
    TYPES = ("int8", "int16", "int32", "float32")
    DELEGATED = ("float32",)
    REAL = everywhere("abs")

    def verify(self, call: Call) -> None:
        """Check C1-C3."""
        super().verify(call)
        if call.output.dtype in QUANTIZED:
            require_multiplier("C3", call.input(0), call.output)

    def codes(self, x: Int, source: TensorType, target: TensorType, kernels: Mode) -> Int:
        """The formula of the class."""
        if source.dtype == "int32":
            return np.asarray(fp.wrap32(np.abs(x)), np.int64)
        before, after = source.quant, target.quant
        size = np.abs(x - before.zero_point)
        if before.scale != after.scale:
            size = rescaled(size, fp.f32(before.scale / after.scale))
        return np.asarray(np.clip(size + after.zero_point, *INTEGER_RANGE[target.dtype]), np.int64)


@operation
@dataclass(frozen=True)
class Neg(UnaryOperation):
    """-x of the codes themselves, wrapping in their type, whatever the scales and zero points.

    float32: the other sign; xnnpack computes 0 - v, which is +0 for zeros.

    C1, C2 as in :class:`qimport.qnn.unary.UnaryOperation`, quantized or not.
    """

    NAME = "qnn.neg"
    ARM64_FLOATS = ("reference", "builtin")
    TFLITE: ClassVar[tuple[str, ...]] = ("NEG",)
    TYPES = ("int8", "int16", "int32", "int64", "float32")
    DELEGATED = ("float32",)
    REAL: ClassVar[Mapping[Family, real.Kind]] = {**everywhere("neg"), "xnnpack": "neg_by_sub"}
    ANY_QUANTIZATION = True

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """NumPy's negation for integers."""
        if call.output.dtype == "float32":
            return super().evaluate(call)
        with np.errstate(all="ignore"):
            return (np.asarray(np.negative(call.array(0)), call.output.numpy),)


@operation
@dataclass(frozen=True)
class Sign(UnaryOperation):
    """1, 0 or -1; NaN gives NaN, -0 gives 0.

    C1, C2 as in :class:`qimport.qnn.unary.UnaryOperation`.
    """

    NAME = "qnn.sign"
    TFLITE: ClassVar[tuple[str, ...]] = ("SIGN",)
    TYPES = ("int32", "float32", "float64")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """Comparisons with 0."""
        x: Any = call.array(0)
        one, zero = x.dtype.type(1), x.dtype.type(0)
        return (np.where(x > 0, one, np.where(x < 0, -one, np.where(x == x, zero, x))),)
