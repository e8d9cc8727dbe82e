"""``qnn.add``, ``qnn.sub``, ``qnn.mul``: the ADD, SUB and MUL operators."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from qimport.fixedpoint import (
    Int,
    f32,
    multiply_by_quantized_multiplier,
    quantize_multiplier,
    saturating_rounding_doubling_high_mul,
    wrap32,
)
from qimport.ir.check import require
from qimport.ir.graph import Array, Call, operation
from qimport.ir.types import INTEGER_RANGE, TensorType
from qimport.qnn.base import QnnOperation
from qimport.qnn.broadcast import inner_run
from qimport.qnn.checks import require_eight_bit
from qimport.qnn.requantization import (
    ACTIVATIONS,
    Requantization,
    fixed_point_factors,
    is_plain_8bit,
    output_range,
)
from qimport.qnn.unary import code_range, real_values, tabulated

LEFT_SHIFT = 20
"""How far the classic sum kernels shift their operands before scaling them."""

SUM_RATIOS = (2.0**-10, 2.0**8)
"""Input scale / output scale from which, and below which, the delegate takes a sum."""

PRODUCT_RATIOS = (2.0**-16, 2.0**8)
"""Product of the input scales / output scale from which, and below which, the delegate takes a product."""

MAX_DELEGATED_RANK = 6

ADD_BLOCK = 8
"""Elements per vector of the optimized ADD kernels."""

NARROW_LIMIT = 2**15 - 1
"""Where the optimized ADD and MUL kernels overflow: their vector loops hold results in 16 bits."""


@dataclass(frozen=True)
class ClassicSum:
    """Factors of the classic sum kernels, each as given to ``prim.rescale``: operands, then the result."""

    a: float
    b: float
    out: float


@dataclass(frozen=True)
class DelegateSum:
    """code = clamp(((a * a_factor + b * b_factor + offset) >> shift) + z_out): XNNPACK's sum of raw codes."""

    a_factor: int
    b_factor: int
    offset: int
    shift: int


class BinaryOperation(QnnOperation):
    """Two 8-bit operands that broadcast as in NumPy, and a fused activation."""

    activation: str

    def verify(self, call: Call) -> None:
        """Check C1-C3."""
        a, b, out = call.input(0), call.input(1), call.output
        require_eight_bit("C1", a, b, out)
        require(a.dtype == b.dtype == out.dtype, "C1", "operands and result must be of one type")
        try:
            shape = np.broadcast_shapes(a.shape, b.shape)
        except ValueError:
            shape = None
        require(shape == out.shape, "C2", f"{a.shape} and {b.shape} do not give {out.shape}")
        require(self.activation in ACTIVATIONS, "C3", f"unknown activation {self.activation}")

    def codes_range(self, call: Call) -> tuple[int, int]:
        """Clip bounds in the call's numerics."""
        return output_range(self.activation, call.output, self.kernel_family(call))

    def largest(self, call: Call) -> float:
        """Bound of the magnitude that a result has before it is clamped, in codes."""
        raise NotImplementedError

    def unsupported(self, call: Call) -> str | None:
        """Why this use is not compiled in the call's numerics: overflow that depends on an element's place.

        Elements in whole vectors wrap to 16 bits, those left over do not. Only result scales far too small
        for the operands get there.
        """
        if self.kernel_family(call) != "builtin" or self.largest(call) < NARROW_LIMIT:
            return None
        return (
            f"results reach {self.largest(call):.3g} codes before they are clamped, which overflows 16 bits"
            " in the interpreter's vectorized kernel; the result needs a larger scale, or the mode reference"
        )

    def _delegable(self, call: Call) -> bool:
        types: tuple[TensorType, ...] = (call.input(0), call.input(1), call.output)
        return all(is_plain_8bit(type_) and len(type_.shape) <= MAX_DELEGATED_RANK for type_ in types)


class SumOperation(BinaryOperation):
    """ADD and SUB: the sign of the second operand is the only difference."""

    SIGN: ClassVar[int]

    def largest(self, call: Call) -> float:
        """As there; the sum of both magnitudes."""
        reach = sum(_reach(type_) * type_.quant.scale for type_ in (call.input(0), call.input(1)))
        return reach / call.output.quant.scale + abs(call.output.quant.zero_point) + 1

    def vectors(self, call: Call) -> tuple[int, int]:
        """Length of the runs of the builtin kernel, and how many elements of each lie in whole vectors."""
        return call.output.size, 0

    def classic(self, call: Call) -> ClassicSum:
        """Factors of the kernels without delegate."""
        s_a, s_b = call.input(0).quant.scale, call.input(1).quant.scale
        twice = f32(2 * max(s_a, s_b))
        return ClassicSum(s_a / twice, s_b / twice, twice / f32(2.0**LEFT_SHIFT * call.output.quant.scale))

    def delegate(self, call: Call) -> DelegateSum:
        """Integers of XNNPACK's kernel; products and sums of codes with them fit int32."""
        a, b, s_out = call.input(0).quant, call.input(1).quant, call.output.quant.scale
        ratios = f32(a.scale / s_out), f32(b.scale / s_out)
        shift = LEFT_SHIFT - (math.frexp(max(ratios))[1] - 1)
        # Python's round is half to even, like the kernel's.
        a_factor, b_factor = (round(math.ldexp(ratio, shift)) for ratio in ratios)
        b_factor *= self.SIGN
        offset = (1 << (shift - 1)) - a_factor * a.zero_point - b_factor * b.zero_point
        return DelegateSum(a_factor, b_factor, offset, shift)

    def xnnpack_takes(self, call: Call) -> bool:
        """One scale each without quantized dimension, rank up to 6, input / output scales in [2^-10, 2^8)."""
        low, high = SUM_RATIOS
        s_out = call.output.quant.scale
        scales = (call.input(0).quant.scale, call.input(1).quant.scale)
        return self._delegable(call) and all(low <= f32(scale / s_out) < high for scale in scales)

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """The docstring's formula."""
        a, b = call.array(0).astype(np.int64), call.array(1).astype(np.int64)
        low, high = self.codes_range(call)
        sums = (
            self._delegate_sum(a, b, call) if self.kernel_family(call) == "xnnpack" else self._sum(a, b, call)
        )
        return (np.clip(sums + call.output.quant.zero_point, low, high).astype(call.output.numpy),)

    def _sum(self, a: Int, b: Int, call: Call) -> Int:
        away = self._classic_sum(a, b, call, _scaled)
        run, whole = self.vectors(call)
        if whole == 0:
            return away
        in_vector = np.arange(away.size).reshape(away.shape) % run < whole
        return np.where(in_vector, self._classic_sum(a, b, call, _scaled_down), away)

    def _classic_sum(self, a: Int, b: Int, call: Call, scaled: Callable[[Int, float], Int]) -> Int:
        factors = self.classic(call)
        u = scaled((a - call.input(0).quant.zero_point) << LEFT_SHIFT, factors.a)
        v = scaled((b - call.input(1).quant.zero_point) << LEFT_SHIFT, factors.b)
        return _scaled(wrap32(u + self.SIGN * v), factors.out)

    def _delegate_sum(self, a: Int, b: Int, call: Call) -> Int:
        k = self.delegate(call)
        return np.asarray((a * k.a_factor + b * k.b_factor + k.offset) >> k.shift, np.int64)


def _reach(type_: TensorType) -> int:
    """Largest distance of a code from the zero point."""
    lowest, highest = INTEGER_RANGE[type_.dtype]
    return max(type_.quant.zero_point - lowest, highest - type_.quant.zero_point)


def _scaled(value: Int, scale: float) -> Int:
    return multiply_by_quantized_multiplier(value, *quantize_multiplier(scale))


def _scaled_down(value: Int, scale: float) -> Int:
    """As :func:`_scaled`, for scales up to 1/2, with the second rounding downward."""
    multiplier, exponent = quantize_multiplier(scale)
    return saturating_rounding_doubling_high_mul(value, multiplier) >> -exponent


@operation
@dataclass(frozen=True)
class Add(SumOperation):
    """Sum of two operands that broadcast.

    reference, builtin (``reference_ops::Add`` and its optimized form), all rescales ``double_away``,
    t = float32(2 * max(s_a, s_b)):

        u    = rescale((a - z_a) << 20, s_a / t)
        v    = rescale((b - z_b) << 20, s_b / t)
        code = clamp(rescale(wrap32(u + v), t / float32(2^20 * s_out)) + z_out, low, high)

    builtin, in whole vectors of 8 elements of a run (see :func:`inner_run`): the second step of the rescales
    of u and v rounds downward. So in uint8; in int8 only where one operand is a single element throughout the
    run.

    xnnpack, with r_i = float32(s_i / s_out), shift = 20 - floor(log2(max(r_a, r_b))),
    m_i = round_even(r_i * 2^shift):

        code = clamp(((2^(shift-1) + m_a * (a - z_a) + m_b * (b - z_b)) >> shift) + z_out, low, high)

    with bounds as XNNPACK rounds them; only for r_i in [2^-10, 2^8), other uses stay with ``builtin``.

    C1 operands and result are int8 or all uint8, with one scale each. C2 the operands broadcast to the
    result's shape. C3 the activation is one of the schema's.
    """

    NAME = "qnn.add"
    TFLITE = ("ADD",)
    SIGN = 1

    activation: str = "NONE"

    def vectors(self, call: Call) -> tuple[int, int]:
        """As there."""
        run, single = inner_run(call.input(0).shape, call.input(1).shape)
        vectorized = self.kernel_family(call) == "builtin" and (single or call.output.dtype == "uint8")
        return run, run - run % ADD_BLOCK if vectorized else 0


@operation
@dataclass(frozen=True)
class Sub(SumOperation):
    """Difference of two operands that broadcast: :class:`Add` with v, or m_b, negated; C1-C3 as there.

    (``reference_ops::Sub`` and its optimized form, which has no vectors, give the same bytes.)
    """

    NAME = "qnn.sub"
    TFLITE = ("SUB",)
    SIGN = -1

    activation: str = "NONE"

    def unsupported(self, call: Call) -> str | None:
        """Nothing: the optimized kernel has no vector loop."""
        return None


@operation
@dataclass(frozen=True)
class Mul(BinaryOperation):
    """Product of two operands that broadcast.

        code = clamp(rescale((a - z_a) * (b - z_b), s) + z_out, low, high)
        s    = float32(float32(s_a * s_b) / s_out)

    reference, builtin: ``double_away`` (``reference_ops::Mul`` and its optimized form give the same bytes).
    xnnpack: ``float32_even``, bounds as XNNPACK rounds them; only for s in [2^-16, 2^8), other uses stay with
    ``builtin``. A ``square`` it tabulates instead, with y = f32(f32(s_a * (a - z_a))^2):

        code = clamp(rne(f32(f32(y * f32(1 / s_out)) + z_out)), low, high)

    ``square`` says that both operands are one tensor of the file; equal content is not enough.

    C1 operands and result are int8 or all uint8, with one scale each. C2 the operands broadcast to the
    result's shape. C3 the activation is one of the schema's. C4 the operands of a square have one type.
    """

    NAME = "qnn.mul"
    TFLITE = ("MUL",)

    activation: str = "NONE"
    square: bool = False

    def verify(self, call: Call) -> None:
        """Check C1-C4."""
        super().verify(call)
        alike = call.input(0) == call.input(1)
        require(alike or not self.square, "C4", "the operands of a square must have one type")

    @staticmethod
    def scale(call: Call) -> float:
        """s of the docstring."""
        return f32(f32(call.input(0).quant.scale * call.input(1).quant.scale) / call.output.quant.scale)

    def xnnpack_takes(self, call: Call) -> bool:
        """One scale each without quantized dimension, rank up to 6, s in [2^-16, 2^8)."""
        low, high = PRODUCT_RATIOS
        return self._delegable(call) and low <= self.scale(call) < high

    def largest(self, call: Call) -> float:
        """As there; the product of both magnitudes."""
        reach = _reach(call.input(0)) * _reach(call.input(1)) * self.scale(call)
        return reach + abs(call.output.quant.zero_point) + 1

    def requantization(self, call: Call) -> Requantization:
        """How products become codes in the call's numerics."""
        zero, (low, high) = call.output.quant.zero_point, self.codes_range(call)
        scale = self.scale(call)
        if self.kernel_family(call) == "xnnpack":
            return Requantization("float32_even", (np.array([scale], np.float32),), zero, low, high)
        return Requantization("double_away", fixed_point_factors([scale]), zero, low, high)

    def tabulates(self, call: Call) -> bool:
        """Whether the result is a table of squares."""
        return self.square and self.kernel_family(call) == "xnnpack"

    def square_table(self, call: Call) -> Array:
        """Results of a tabulated square, in order of the operand's code."""
        x, out = call.input(0), call.output
        with np.errstate(over="ignore"):
            real = real_values(code_range(x.dtype), x)
            codes = tabulated(real * real, out, "xnnpack")
        return np.clip(codes, *self.codes_range(call)).astype(out.numpy)

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """The docstring's formulas."""
        if self.tabulates(call):
            lowest, _ = INTEGER_RANGE[call.input(0).dtype]
            return (self.square_table(call)[call.array(0).astype(np.int64) - lowest],)
        a = call.array(0).astype(np.int64) - call.input(0).quant.zero_point
        b = call.array(1).astype(np.int64) - call.input(1).quant.zero_point
        return (self.requantization(call).codes(a * b, call.output),)
