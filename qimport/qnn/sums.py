"""``qnn.add``, ``qnn.sub``: the ADD and SUB operators on codes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from qimport.fixedpoint import (
    Int,
    f32,
    multiply_by_quantized_multiplier,
    quantize_multiplier,
    rounding_divide_by_pot,
    saturating_rounding_doubling_high_mul,
    wrap16,
    wrap32,
)
from qimport.ir.check import require
from qimport.ir.graph import Array, Call, operation
from qimport.qnn.binary import BinaryOperation, reach
from qimport.qnn.broadcast import inner_run

LEFT_SHIFT = {"int8": 20, "uint8": 20, "int16": 15}
"""How far the classic sum kernels shift their operands before scaling them."""

POWER_TOLERANCE = 1e-3
"""How far the logarithm of a scale may be from a whole number for the scale to count as a power of two."""

SUM_RATIOS = (2.0**-10, 2.0**8)
"""Input scale / output scale from which, and below which, the delegate takes a sum."""

MAX_SHIFT = 31
"""Bits of the shift of a sum of int16 codes."""

VectorRounding = Literal["away", "once", "down"]
"""Of a rescale: as everywhere else; with one rounding, half up; with the second step downward."""

ADD_BLOCK, NARROW_ADD_BLOCK = 16, 8
"""Elements per vector of the optimized ADD kernels: the latter for uint8 and where one operand stays."""


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


class SumOperation(BinaryOperation):
    """ADD and SUB: the sign of the second operand is the only difference."""

    SIGN: ClassVar[int]

    pot_scale_int16: bool

    def verify(self, call: Call) -> None:
        """Check C1-C4."""
        super().verify(call)
        shifts = self.shifts(call)
        fits = shifts is None or (min(shifts) == 0 and max(shifts) <= MAX_SHIFT)
        require(fits, "C4", f"operands are to be shifted by {shifts} bits")

    def shifts(self, call: Call) -> tuple[int, int] | None:
        """How far both operands are shifted down where all scales are powers of two and the file says so."""
        types = (call.input(0), call.input(1), call.output)
        if not self.pot_scale_int16 or call.output.dtype != "int16":
            return None
        logarithms = [
            np.log(np.float32(t.quant.scale)) * np.float32(1 / np.log(np.float32(2))) for t in types
        ]
        whole = [round(float(logarithm)) for logarithm in logarithms]
        if any(abs(found - near) >= POWER_TOLERANCE for found, near in zip(logarithms, whole, strict=True)):
            return None
        return whole[2] - whole[0], whole[2] - whole[1]

    def largest(self, call: Call) -> float:
        """As there; the sum of both magnitudes."""
        reached = sum(reach(type_) * type_.quant.scale for type_ in (call.input(0), call.input(1)))
        return reached / call.output.quant.scale + abs(call.output.quant.zero_point) + 1

    def vectors(self, call: Call) -> tuple[int, int]:
        """Length of the runs of the builtin kernel, and how many elements of each lie in whole vectors.

        Of the latter there are none where they are computed like the others.
        """
        return call.output.size, 0

    def vector_rounding(self, call: Call) -> VectorRounding:
        """How the operands are rescaled in whole vectors of the builtin kernel."""
        return "away"

    def classic(self, call: Call) -> ClassicSum:
        """Factors of the kernels without delegate."""
        s_a, s_b = call.input(0).quant.scale, call.input(1).quant.scale
        twice = f32(2 * max(s_a, s_b))
        raised = f32(2.0 ** LEFT_SHIFT[call.output.dtype] * call.output.quant.scale)
        return ClassicSum(s_a / twice, s_b / twice, twice / raised)

    def delegate(self, call: Call) -> DelegateSum:
        """Integers of XNNPACK's kernel; products and sums of codes with them fit int32."""
        a, b, s_out = call.input(0).quant, call.input(1).quant, call.output.quant.scale
        ratios = f32(a.scale / s_out), f32(b.scale / s_out)
        shift = LEFT_SHIFT[call.output.dtype] - (math.frexp(max(ratios))[1] - 1)
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
        shifts = self.shifts(call)
        if shifts is not None:
            sums = rounding_divide_by_pot(a, shifts[0]) + self.SIGN * rounding_divide_by_pot(b, shifts[1])
        elif self.kernel_family(call) == "xnnpack":
            sums = self._delegate_sum(a, b, call)
        else:
            sums = self._sum(a, b, call)
        return (np.clip(sums + call.output.quant.zero_point, low, high).astype(call.output.numpy),)

    def _sum(self, a: Int, b: Int, call: Call) -> Int:
        away = self._classic_sum(a, b, call, _scaled)
        run, whole = self.vectors(call)
        if whole == 0:
            return away
        in_vector = np.arange(away.size).reshape(away.shape) % run < whole
        scaled = _VECTOR_ROUNDING[self.vector_rounding(call)]
        sums, zero = self._classic_sum(a, b, call, scaled), call.output.quant.zero_point
        if self.overflows(call):
            sums = wrap16(sums + zero) - zero
        return np.where(in_vector, sums, away)

    def _classic_sum(self, a: Int, b: Int, call: Call, scaled: Callable[[Int, float], Int]) -> Int:
        factors, left = self.classic(call), LEFT_SHIFT[call.output.dtype]
        u = scaled((a - call.input(0).quant.zero_point) << left, factors.a)
        v = scaled((b - call.input(1).quant.zero_point) << left, factors.b)
        return _scaled(wrap32(u + self.SIGN * v), factors.out)

    def _delegate_sum(self, a: Int, b: Int, call: Call) -> Int:
        k = self.delegate(call)
        return np.asarray((a * k.a_factor + b * k.b_factor + k.offset) >> k.shift, np.int64)


def _scaled(value: Int, scale: float) -> Int:
    return multiply_by_quantized_multiplier(value, *quantize_multiplier(scale))


def _scaled_once(value: Int, scale: float) -> Int:
    """As :func:`_scaled`, for scales up to 1/2, with one rounding, half up."""
    multiplier, exponent = quantize_multiplier(scale)
    return (value * multiplier + (1 << (30 - exponent))) >> (31 - exponent)


def _scaled_down(value: Int, scale: float) -> Int:
    """As :func:`_scaled`, for scales up to 1/2, with the second rounding downward."""
    multiplier, exponent = quantize_multiplier(scale)
    return saturating_rounding_doubling_high_mul(value, multiplier) >> -exponent


_VECTOR_ROUNDING: dict[VectorRounding, Callable[[Int, float], Int]] = {
    "away": _scaled,
    "once": _scaled_once,
    "down": _scaled_down,
}


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
    run, but on ARM also in vectors of 16 elements where both go on. Sums that leave 16 bits, for a result
    scale absurdly small, are wrapped in all vectors: clamp(wrap16(sum + z_out), low, high).

    xnnpack, with r_i = float32(s_i / s_out), shift = 20 - floor(log2(max(r_a, r_b))),
    m_i = round_even(r_i * 2^shift):

        code = clamp(((2^(shift-1) + m_a * (a - z_a) + m_b * (b - z_b)) >> shift) + z_out, low, high)

    with bounds as XNNPACK rounds them; only for r_i in [2^-10, 2^8), other uses stay with ``builtin``.

    int16 shifts by 15 bits instead of 20. In builtin, operands of one shape are rescaled with one rounding,
    half up, in whole vectors of 16 elements of the flat tensor. With ``pot_scale_int16``, where all scales
    are powers of two (within 10^-3 of the logarithm), every mode shifts one operand and adds:

        code = clamp(rounding_divide_by_pot(a, log2(s_out / s_a)) + b, low, high), or b shifted and a not

    C1 operands and result are int8, all uint8, or all int16 with zero point 0; one scale each. C2 the
    operands broadcast to the result's shape. C3 the activation is one of the schema's. C4 where operands are
    shifted, one of the shifts is 0 and the other 0 to 31, and the operands have one shape (so for ADD only).
    """

    NAME = "qnn.add"
    TFLITE = ("ADD",)
    SIGN = 1

    activation: str = "NONE"
    pot_scale_int16: bool = False

    def verify(self, call: Call) -> None:
        """Check C1-C4."""
        super().verify(call)
        alike = self.shifts(call) is None or call.input(0).shape == call.input(1).shape
        require(alike, "C4", "shifted int16 operands do not broadcast")

    def vectors(self, call: Call) -> tuple[int, int]:
        """As there."""
        a, b, size = call.input(0).shape, call.input(1).shape, call.output.size
        differs = self.vector_rounding(call) != "away" or self.overflows(call)
        if self.kernel_family(call) != "builtin" or not differs:
            return size, 0
        run = size if call.output.dtype == "int16" else inner_run(a, b)[0]
        return run, run - run % (NARROW_ADD_BLOCK if self._is_narrow(call) else ADD_BLOCK)

    def vector_rounding(self, call: Call) -> VectorRounding:
        """As the class says."""
        if call.output.dtype == "int16":
            return "once" if call.input(0).shape == call.input(1).shape else "away"
        return "down" if self._is_narrow(call) or call.mode.arm64 else "away"

    @staticmethod
    def _is_narrow(call: Call) -> bool:
        """Whether the kernel is one of those with vectors of 8 elements."""
        _, single = inner_run(call.input(0).shape, call.input(1).shape)
        return call.output.dtype == "uint8" or (call.output.dtype == "int8" and single)


@operation
@dataclass(frozen=True)
class Sub(SumOperation):
    """Difference of two operands that broadcast: :class:`Add` with v, m_b, or b negated; C1-C4 as there.

    (``reference_ops::Sub`` and its optimized form, which has no vectors, give the same bytes.)
    """

    NAME = "qnn.sub"
    TFLITE = ("SUB",)
    SIGN = -1

    activation: str = "NONE"
    pot_scale_int16: bool = False
