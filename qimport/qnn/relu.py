"""The RELU family and its relatives with a slope below 0."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from qimport import fixedpoint as fp
from qimport.fixedpoint import Int
from qimport.ir.check import require
from qimport.ir.graph import Array, Call, operation
from qimport.ir.types import INTEGER_RANGE, TensorType
from qimport.numerics import Mode
from qimport.qnn.checks import EIGHT_BIT, require_multiplier
from qimport.qnn.unary import UnaryOperation, everywhere, rescaled


class BoundedIdentity(UnaryOperation):
    """A member of the RELU family: clamp(MBQM(x - z_in, m, e) + z_out) to the bounds of the activation.

    (m, e) = quantize_multiplier(f32(s_in / s_out)), MBQM rounds as ``double_away``; the bounds are
    :func:`qimport.fixedpoint.activation_range`. The delegate takes no quantized ones; reference equals
    builtin (``reference_ops::ReluX``). float32: comparisons alone, so -0 and NaN stay; XNNPACK gives 0 for
    numbers below 2^-126.

    C1, C2 as in :class:`qimport.qnn.unary.UnaryOperation`. C3 s_in / s_out is under 2^31.
    """

    TYPES: ClassVar[tuple[str, ...]] = ("int8", "uint8", "float32")
    DELEGATED: ClassVar[tuple[str, ...]] = ("float32",)

    def verify(self, call: Call) -> None:
        """Check C1-C3."""
        super().verify(call)
        if call.output.dtype != "float32":
            require_multiplier("C3", call.input(0), call.output)

    def codes(self, x: Int, source: TensorType, target: TensorType, kernels: Mode) -> Int:
        """The formula of the class."""
        before, after = source.quant, target.quant
        scaled = rescaled(x - before.zero_point, fp.f32(before.scale / after.scale))
        return np.clip(scaled + after.zero_point, *self.bounds(target))

    def bounds(self, target: TensorType) -> tuple[int, int]:
        """Lowest and highest code of a result."""
        quant = target.quant
        return fp.activation_range(self.TFLITE[0], quant.scale, quant.zero_point, target.dtype)


@operation
@dataclass(frozen=True)
class Relu(BoundedIdentity):
    """max(v, 0); see :class:`BoundedIdentity`."""

    NAME = "qnn.relu"
    ARM64_FLOATS = ()
    TFLITE: ClassVar[tuple[str, ...]] = ("RELU",)
    TYPES = ("int8", "uint8", "int16", "float32")
    REAL = everywhere("relu")


@operation
@dataclass(frozen=True)
class Relu6(BoundedIdentity):
    """min(max(v, 0), 6); see :class:`BoundedIdentity`."""

    NAME = "qnn.relu6"
    ARM64_FLOATS = ()
    TFLITE: ClassVar[tuple[str, ...]] = ("RELU6",)
    TYPES = ("int8", "uint8", "int16", "float32")
    REAL = everywhere("relu6")


@operation
@dataclass(frozen=True)
class ReluN1To1(BoundedIdentity):
    """min(max(v, -1), 1); see :class:`BoundedIdentity`."""

    NAME = "qnn.relu_n1_to_1"
    ARM64_FLOATS = ()
    TFLITE: ClassVar[tuple[str, ...]] = ("RELU_N1_TO_1",)
    REAL = everywhere("relu_n1_to_1")


@operation
@dataclass(frozen=True)
class Relu0To1(BoundedIdentity):
    """min(max(v, 0), 1); see :class:`BoundedIdentity`. The delegate takes none."""

    NAME = "qnn.relu_0_to_1"
    ARM64_FLOATS = ()
    TFLITE: ClassVar[tuple[str, ...]] = ("RELU_0_TO_1",)
    DELEGATED = ()
    REAL = everywhere("relu_0_to_1")


RELU_FAMILY: tuple[type[BoundedIdentity], ...] = (Relu, Relu6, ReluN1To1, Relu0To1)


@operation
@dataclass(frozen=True)
class LeakyRelu(UnaryOperation):
    """v from 0 on, alpha * v below.

    With d = x - z_in, p = f32(s_in / s_out), n = f32(f32(s_in * alpha) / s_out):

    reference, builtin (``reference_ops::QuantizeLeakyRelu``): clamp(z_out + MBQM(d) of p from 0 on), below it
    MBQM(d) of n, for a negative n -MBQM(d) of -n; int16 in builtin MBQM(-d) of -n.
    xnnpack, 8 bits: clamp(((d * m + 128) >> 8) + z_out), m = rne(256 p) from 0 on, rne(256 f32(p * alpha))
    below; taken for p from 2^-8 to 2^7 and f32(p * alpha) from -127.99609375 to 128, not under 2^-8 in size.
    float32: f32(v * alpha) for v that are not above 0, in xnnpack for v below 0, which differs for zeros.

    C1, C2 as in :class:`qimport.qnn.unary.UnaryOperation`. C3 p and n are under 2^31 in size.
    """

    NAME = "qnn.leaky_relu"
    TFLITE: ClassVar[tuple[str, ...]] = ("LEAKY_RELU",)
    TYPES = ("int8", "uint8", "int16", "float32")

    alpha: float

    def verify(self, call: Call) -> None:
        """Check C1-C3."""
        super().verify(call)
        if call.output.dtype != "float32":
            p, n = self.factors(call.input(0), call.output)
            require(max(p, abs(n)) < 2**31, "C3", f"the factors {p:g} and {n:g} are too large")

    def factors(self, source: TensorType, target: TensorType) -> tuple[float, float]:
        """(p, n) of the classic kernels."""
        before, after = source.quant.scale, target.quant.scale
        return fp.f32(before / after), fp.f32(fp.f32(before * fp.f32(self.alpha)) / after)

    def slopes_xnnpack(self, source: TensorType, target: TensorType) -> tuple[float, float]:
        """The delegate's factors of positive and of negative numbers."""
        positive = fp.f32(source.quant.scale / target.quant.scale)
        return positive, fp.f32(positive * fp.f32(self.alpha))

    def xnnpack_takes(self, call: Call) -> bool:
        """float32 always, 8 bits by the factors."""
        x = call.input(0)
        if x.dtype not in EIGHT_BIT:
            return x.dtype == "float32" and self.alpha != 0
        positive, negative = self.slopes_xnnpack(x, call.output)
        sized = 2**-8 <= positive <= 2**7 and abs(negative) >= 2**-8
        return sized and -127.99609375 <= negative <= 128

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """The formula of the kernel family."""
        if call.input(0).dtype != "float32":
            return super().evaluate(call)
        x: Any = call.array(0)
        with np.errstate(all="ignore"):
            scaled = x * np.float32(self.alpha)
            if self.kernel_family(call) == "xnnpack":
                return (np.where(x < 0, scaled, x),)
            return (np.where(x > 0, x, scaled),)

    def codes(self, x: Int, source: TensorType, target: TensorType, kernels: Mode) -> Int:
        """The formula of the kernel family."""
        d = x - source.quant.zero_point
        if kernels.family == "xnnpack":
            positive, negative = (int(np.rint(256 * slope)) for slope in self.slopes_xnnpack(source, target))
            scaled = (d * np.where(d >= 0, positive, negative) + 128) >> 8
        else:
            p, n = self.factors(source, target)
            if n >= 0:
                small = rescaled(d, n)
            elif source.dtype == "int16" and kernels.family == "builtin":
                small = rescaled(-d, -n)
            else:
                small = -rescaled(d, -n)
            scaled = np.where(d >= 0, rescaled(d, p), small)
        return np.asarray(np.clip(scaled + target.quant.zero_point, *INTEGER_RANGE[target.dtype]), np.int64)
