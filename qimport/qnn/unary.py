"""Elementwise functions of one 8-bit tensor: each a table of 256 codes, written here as a formula over codes.

``x`` and ``z_in``, ``s_in`` are the operand's code, zero point and scale; ``z_out``, ``s_out`` the result's.
[lo, hi] is the range of the result's element type.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from qimport import fixedpoint as fp
from qimport.fixedpoint import Int
from qimport.ir.check import require
from qimport.ir.graph import Array, Call, Numerics, operation
from qimport.ir.types import INTEGER_RANGE, TensorType
from qimport.qnn.base import QnnOperation
from qimport.qnn.checks import require_eight_bit, require_multiplier, require_same_dtype, require_same_shape

Float32 = npt.NDArray[np.float32]


def code_range(dtype: str) -> Int:
    """Every code of an integer element type, ascending."""
    lowest, highest = INTEGER_RANGE[dtype]
    return np.arange(lowest, highest + 1)


class UnaryOperation(QnnOperation):
    """Base of the 8-bit functions.

    C1 operand and result are of one 8-bit element type, each with one scale and one zero point.
    C2 operand and result have one shape.
    """

    def verify(self, call: Call) -> None:
        """Check C1, C2."""
        require_eight_bit("C1", call.input(0), call.output)
        require_same_dtype("C1", call)
        require_same_shape("C2", call)

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """Look every code up in the table the formula gives."""
        x, out = call.input(0), call.output
        codes = code_range(x.dtype)
        with np.errstate(all="ignore"):
            table = self.codes(codes, x, out, self.kernel_family(call)).astype(out.numpy)
        return (table[call.array(0).astype(np.int64) - codes[0]],)

    def codes(self, x: Int, source: TensorType, target: TensorType, family: Numerics) -> Int:
        """The result's codes for operand codes ``x``, in the kernels of ``family``."""
        raise NotImplementedError


class TabulatedFunction(UnaryOperation):
    """A float function that the interpreter tabulates: y = f(f32(s_in * (x - z_in))), every step in float32.

    reference, builtin: clamp(trunc(f32(round_away(f32(y * f32(1 / s_out))) + z_out)))  (LUTPopulate)
    xnnpack:            clamp(rne(f32(f32(y * f32(1 / s_out)) + z_out)))                (elementwise LUT)

    exp and tanh are evaluated in float64 and rounded to float32, which equals the interpreter's C library on
    every table compared; NumPy's own float32 functions do not.
    """

    def xnnpack_takes(self, call: Call) -> bool:
        """Always: the delegate tabulates 8-bit functions itself."""
        return True

    @staticmethod
    def function(x: Float32, family: Numerics) -> Float32:
        """f, rounded to float32."""
        raise NotImplementedError

    def codes(self, x: Int, source: TensorType, target: TensorType, family: Numerics) -> Int:
        """The formula of the class."""
        return tabulated(self.function(real_values(x, source), family), target, family)


def real_values(x: Int, source: TensorType) -> Float32:
    """What codes stand for, as the kernels that tabulate a function compute it."""
    centred = (x - source.quant.zero_point).astype(np.float32)
    return np.asarray(np.float32(source.quant.scale) * centred, np.float32)


def tabulated(y: Float32, target: TensorType, family: Numerics) -> Int:
    """Codes for float results ``y``, by the formulas of :class:`TabulatedFunction`."""
    quant = target.quant
    scaled = y * (np.float32(1) / np.float32(quant.scale))
    zero = np.float32(quant.zero_point)
    nearest = np.rint(scaled + zero) if family == "xnnpack" else np.trunc(fp.round_away(scaled) + zero)
    codes = np.clip(nearest.astype(np.float64), *INTEGER_RANGE[target.dtype])
    return np.asarray(codes, np.int64)


@operation
@dataclass(frozen=True)
class Logistic(TabulatedFunction):
    """1 / (1 + exp(-v)).

    reference, builtin: f32(1 / f32(1 + f32(exp(-v)))). xnnpack: exp(v) / (1 + exp(v)) in float64, then f32.

    C1, C2 as in :class:`UnaryOperation`. C3 the result's scale is 1/256.
    """

    NAME = "qnn.logistic"
    TFLITE: ClassVar[tuple[str, ...]] = ("LOGISTIC",)

    def verify(self, call: Call) -> None:
        """Check C1-C3."""
        super().verify(call)
        scale = call.output.quant.scale
        require(scale == 1 / 256, "C3", f"the output scale of LOGISTIC must be 1/256, not {scale!r}")

    @staticmethod
    def function(x: Float32, family: Numerics) -> Float32:
        """The formula of the class."""
        if family == "xnnpack":
            power = np.exp(np.clip(x.astype(np.float64), -100, 100))
            return np.asarray(power / (1 + power), np.float32)
        power = np.exp(-x.astype(np.float64)).astype(np.float32)
        return np.asarray(np.float32(1) / (np.float32(1) + power), np.float32)


@operation
@dataclass(frozen=True)
class Tanh(TabulatedFunction):
    """tanh(v), any result scale and zero point. C1, C2 as in :class:`UnaryOperation`."""

    NAME = "qnn.tanh"
    TFLITE: ClassVar[tuple[str, ...]] = ("TANH",)

    @staticmethod
    def function(x: Float32, family: Numerics) -> Float32:
        """The formula of the class."""
        return np.tanh(x.astype(np.float64)).astype(np.float32)


class BoundedIdentity(UnaryOperation):
    """A member of the RELU family: clamp(MBQM(x - z_in, m, e) + z_out) to the bounds of the activation.

    (m, e) = quantize_multiplier(f32(s_in / s_out)), MBQM rounds as ``double_away``; the bounds are
    :func:`qimport.fixedpoint.activation_range`. The delegate takes none of these; reference equals builtin
    (``reference_ops::ReluX``). C1, C2 as in :class:`UnaryOperation`. C3 s_in / s_out is under 2^31.
    """

    ACTIVATION: ClassVar[str]

    def verify(self, call: Call) -> None:
        """Check C1-C3."""
        super().verify(call)
        require_multiplier("C3", call.input(0), call.output)

    def codes(self, x: Int, source: TensorType, target: TensorType, family: Numerics) -> Int:
        """The formula of the class."""
        before, after = source.quant, target.quant
        multiplier, exponent = fp.quantize_multiplier(fp.f32(before.scale / after.scale))
        scaled = fp.multiply_by_quantized_multiplier(x - before.zero_point, multiplier, exponent)
        bounds = fp.activation_range(self.ACTIVATION, after.scale, after.zero_point, target.dtype)
        return np.clip(scaled + after.zero_point, *bounds)


@operation
@dataclass(frozen=True)
class Relu(BoundedIdentity):
    """max(v, 0); see :class:`BoundedIdentity`."""

    NAME = "qnn.relu"
    TFLITE: ClassVar[tuple[str, ...]] = ("RELU",)
    ACTIVATION: ClassVar[str] = "RELU"


@operation
@dataclass(frozen=True)
class Relu6(BoundedIdentity):
    """min(max(v, 0), 6); see :class:`BoundedIdentity`."""

    NAME = "qnn.relu6"
    TFLITE: ClassVar[tuple[str, ...]] = ("RELU6",)
    ACTIVATION: ClassVar[str] = "RELU6"


@operation
@dataclass(frozen=True)
class ReluN1To1(BoundedIdentity):
    """min(max(v, -1), 1); see :class:`BoundedIdentity`."""

    NAME = "qnn.relu_n1_to_1"
    TFLITE: ClassVar[tuple[str, ...]] = ("RELU_N1_TO_1",)
    ACTIVATION: ClassVar[str] = "RELU_N1_TO_1"


@operation
@dataclass(frozen=True)
class Relu0To1(BoundedIdentity):
    """min(max(v, 0), 1); see :class:`BoundedIdentity`."""

    NAME = "qnn.relu_0_to_1"
    TFLITE: ClassVar[tuple[str, ...]] = ("RELU_0_TO_1",)
    ACTIVATION: ClassVar[str] = "RELU_0_TO_1"


@operation
@dataclass(frozen=True)
class HardSwish(UnaryOperation):
    """v * min(max(v + 3, 0), 6) / 6 in 16-bit fixed point (``reference_ops::HardSwish``); equal in all modes.

    v = (x - z_in) << 7, in units of f32(s_in / 128). Two multipliers, each cut to 16 bits as
    min((m + 2^15) >> 16, 32767): (m1, e1) of f32(f32(s_in / 128) / s_out), (m2, e2) of
    f32(f32(s_in / 128) / f32(3 / 32768)). high16(a, b) = min((a * b + 2^14) >> 15, 32767).

    value = high16(v, m1). gate: r = sat16(v << (e2 - 1)) if e2 > 0 else v; r = high16(r, m2);
    r = sat16(r << 1) if e2 > 0, rdbpot(r, -e2) if e2 < 0; gate = (r + 32768) >> 1.
    Result: clamp(rdbpot(trunc(gate * value / 2^15), -e1) + z_out).

    C1, C2 as in :class:`UnaryOperation`. C3 f32(f32(s_in / 128) / s_out) < 1, so that e1 <= 0; s_in < 2^20.
    """

    NAME = "qnn.hard_swish"
    TFLITE: ClassVar[tuple[str, ...]] = ("HARD_SWISH",)

    def verify(self, call: Call) -> None:
        """Check C1-C3."""
        super().verify(call)
        before, after = call.input(0).quant.scale, call.output.quant.scale
        ratio = fp.f32(min(before / 128 / after, 2.0))
        limit = f"under 128 times that of the output, {after!r}"
        sentence = f"the input scale {before!r} of HARD_SWISH must be {limit}"
        require(ratio < 1 and before < 2**20, "C3", sentence)

    def codes(self, x: Int, source: TensorType, target: TensorType, family: Numerics) -> Int:
        """The formula of the class."""
        (m1, e1), (m2, e2) = _hard_swish_multipliers(source, target)
        v = (x - source.quant.zero_point) << 7
        gate = _high16(_saturate16(v << (e2 - 1)) if e2 > 0 else v, m2)
        gate = _saturate16(gate << 1) if e2 > 0 else fp.rounding_divide_by_pot(gate, -e2)
        gate = (gate + 32768) >> 1
        product = np.trunc(gate * _high16(v, m1) / 2**15).astype(np.int64)
        return np.clip(
            fp.wrap16(fp.rounding_divide_by_pot(product, -e1) + target.quant.zero_point),
            *INTEGER_RANGE[target.dtype],
        )


Multiplier = tuple[int, int]


def _hard_swish_multipliers(source: TensorType, target: TensorType) -> tuple[Multiplier, Multiplier]:
    unit = fp.f32(source.quant.scale / 128)

    def cut(factor: float) -> Multiplier:
        multiplier, exponent = fp.quantize_multiplier(factor)
        return min((multiplier + 2**15) >> 16, 32767), exponent

    return cut(fp.f32(unit / target.quant.scale)), cut(fp.f32(unit / fp.f32(3 / 32768)))


def _high16(a: Int, b: int) -> Int:
    """gemmlowp ``SaturatingRoundingDoublingHighMul`` on 16 bits."""
    return np.asarray(np.minimum((a * b + 2**14) >> 15, 32767), np.int64)


def _saturate16(value: Int) -> Int:
    return np.clip(value, -32768, 32767)


RELU_FAMILY: tuple[type[BoundedIdentity], ...] = (Relu, Relu6, ReluN1To1, Relu0To1)
UNARY: tuple[type[UnaryOperation], ...] = (Logistic, Tanh, HardSwish, *RELU_FAMILY)
"""Every operation of this file."""
