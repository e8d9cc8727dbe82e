"""What operators of two quantized operands share; ``qnn.mul``: the MUL operator on codes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qimport.elements import broadcast
from qimport.fixedpoint import Int, f32, quantize_multiplier, rounding_divide_by_pot, wrap16
from qimport.ir.check import require
from qimport.ir.graph import Array, Call, operation
from qimport.ir.types import INTEGER_RANGE, TensorType
from qimport.qnn.base import QnnOperation
from qimport.qnn.broadcast import inner_run
from qimport.qnn.checks import EIGHT_BIT, require_per_tensor
from qimport.qnn.requantization import (
    ACTIVATIONS,
    Requantization,
    fixed_point_form,
    is_plain_8bit,
    output_range,
)
from qimport.qnn.unary import code_range, real_values, tabulated

CODES = (*EIGHT_BIT, "int16")
"""Element types of quantized operands."""

PRODUCT_RATIOS = (2.0**-16, 2.0**8)
"""Product of the input scales / output scale from which, and below which, the delegate takes a product."""

MAX_DELEGATED_RANK = 6

FRACTION_BITS = 15
NARROWING = 8
"""Fraction bits of int16 operands, and how many of them an 8-bit product drops."""

MAX_LEFT_SHIFT = 31
"""Bits that a product can be shifted up."""

MUL_BLOCK = {"int8": 16, "uint8": 8}
"""Elements per vector of the optimized MUL kernels."""

NARROW_LIMIT = 2**15 - 1
"""The largest result that the vectors of the optimized 8-bit ADD and MUL kernels hold."""


def require_codes(label: str, *types: TensorType) -> None:
    """Every type is int8, uint8 or int16 with one scale and one zero point, which is 0 for int16."""
    for type_ in types:
        require(type_.dtype in CODES, label, f"{type_} is none of {', '.join(CODES)}")
        require_per_tensor(label, type_)
        centred = type_.dtype != "int16" or type_.quant.zero_point == 0
        require(centred, label, f"the zero point of {type_} is not 0")


class BinaryOperation(QnnOperation):
    """Two quantized operands that broadcast as in NumPy, and a fused activation."""

    activation: str

    def verify(self, call: Call) -> None:
        """Check C1-C3."""
        a, b, out = call.input(0), call.input(1), call.output
        require_codes("C1", a, b, out)
        require(a.dtype == b.dtype, "C1", "operands must be of one type")
        require(out.dtype in self.results(a.dtype), "C1", f"{a} and {b} do not give {out}")
        shape = broadcast(a.shape, b.shape)
        require(shape == out.shape, "C2", f"{a.shape} and {b.shape} do not give {out.shape}")
        require(self.activation in ACTIVATIONS, "C3", f"unknown activation {self.activation}")

    def results(self, dtype: str) -> tuple[str, ...]:
        """Element types that results for operands of ``dtype`` may have."""
        return (dtype,)

    def codes_range(self, call: Call) -> tuple[int, int]:
        """Clip bounds in the call's numerics."""
        return output_range(self.activation, call.output, self.kernel_family(call))

    def largest(self, call: Call) -> float:
        """Bound of the magnitude that a result has before it is clamped, in codes."""
        raise NotImplementedError

    def overflows(self, call: Call) -> bool:
        """Whether results leave the 16 bits of the vectors of the builtin kernel before they are clamped.

        Only result scales far too small for the operands get there.
        """
        narrow = self.kernel_family(call) == "builtin" and call.output.dtype in EIGHT_BIT
        return narrow and self.largest(call) > NARROW_LIMIT

    def _delegable(self, call: Call) -> bool:
        types: tuple[TensorType, ...] = (call.input(0), call.input(1), call.output)
        return all(is_plain_8bit(type_) and len(type_.shape) <= MAX_DELEGATED_RANK for type_ in types)


def reach(type_: TensorType) -> int:
    """Largest distance of a code from the zero point."""
    lowest, highest = INTEGER_RANGE[type_.dtype]
    return max(type_.quant.zero_point - lowest, highest - type_.quant.zero_point)


@operation
@dataclass(frozen=True)
class Mul(BinaryOperation):
    """Product of two operands that broadcast.

        code = clamp(rescale((a - z_a) * (b - z_b), s) + z_out, low, high)
        s    = float32(float32(s_a * s_b) / s_out)

    reference, builtin: ``double_away`` (``reference_ops::Mul`` and its optimized form give the same bytes).
    xnnpack: ``float32_even``, on ARM ``exact_up_saturated``, bounds as XNNPACK rounds them; only for s in
    [2^-16, 2^8), other uses stay with ``builtin``. A ``square`` it tabulates instead, with
    y = f32(f32(s_a * (a - z_a))^2):

        code = clamp(rne(f32(f32(y * f32(1 / s_out)) + z_out)), low, high)

    A left shift of 32 bits or more, for a result scale absurdly small, is that of x86: by its low five bits,
    but in whole vectors of a run (see :func:`inner_run`; 16 elements of int8, 8 of uint8) of the builtin
    kernel products become 0. Rescaled products that leave 16 bits are in these vectors

        code = clamp(wrap16(min(max(product, -2^15), 2^15 - 1) + z_out), low, high)

    or, in uint8 where one operand is a single element throughout the run, clamp(wrap16(product + z_out)).

    ``square`` says that both operands are one tensor of the file; equal content is not enough.

    int16 operands with an 8-bit result are multiplied as 16-bit fractions, whatever their scales
    (``reference_ops::Mul`` for int16 and uint8):

        code = clamp(rounding_divide_by_pot(min((a * b + 2^14) >> 15, 2^15 - 1), 8) + z_out, low, high)

    C1 operands and result are int8, uint8 or int16 with one scale each, int16 with zero point 0; all of one
    type, or int16 operands with an 8-bit result. C2 the operands broadcast to the
    result's shape. C3 the activation is one of the schema's. C4 the operands of a square have one type.
    C5 16-bit fractions have one number of elements.
    """

    NAME = "qnn.mul"
    TFLITE = ("MUL",)

    activation: str = "NONE"
    square: bool = False

    def verify(self, call: Call) -> None:
        """Check C1-C5."""
        super().verify(call)
        alike = call.input(0) == call.input(1)
        require(alike or not self.square, "C4", "the operands of a square must have one type")
        repeats = call.input(0).size != call.input(1).size
        require(not (repeats and self.narrows(call)), "C5", "16-bit fractions do not broadcast")

    def results(self, dtype: str) -> tuple[str, ...]:
        """As there; any for int16."""
        return CODES if dtype == "int16" else (dtype,)

    @staticmethod
    def narrows(call: Call) -> bool:
        """Whether 16-bit fractions give 8-bit codes."""
        return call.input(0).dtype == "int16" and call.output.dtype != "int16"

    @staticmethod
    def scale(call: Call) -> float:
        """s of the docstring."""
        return f32(f32(call.input(0).quant.scale * call.input(1).quant.scale) / call.output.quant.scale)

    def xnnpack_takes(self, call: Call) -> bool:
        """One scale each without quantized dimension, rank up to 6, s in [2^-16, 2^8)."""
        low, high = PRODUCT_RATIOS
        return self._delegable(call) and low <= self.scale(call) < high

    def vanishes(self, call: Call) -> bool:
        """Whether products are shifted by 32 bits or more, so that they vanish in vectors."""
        return quantize_multiplier(self.scale(call))[1] > MAX_LEFT_SHIFT

    def vectors(self, call: Call) -> tuple[int, int]:
        """Length of the runs of the builtin kernel, and how many elements of each lie in its vectors.

        Of the latter there are none where they are computed like the others.
        """
        block = MUL_BLOCK.get(call.output.dtype)
        differs = self.vanishes(call) or self.overflows(call)
        if block is None or self.kernel_family(call) != "builtin" or not differs:
            return call.output.size, 0
        run, _ = inner_run(call.input(0).shape, call.input(1).shape)
        return run, run - run % block

    def saturates(self, call: Call) -> bool:
        """Whether products that overflow the vectors do not wrap."""
        _, single = inner_run(call.input(0).shape, call.input(1).shape)
        return not (single and call.output.dtype == "uint8")

    def largest(self, call: Call) -> float:
        """As there; the product of both magnitudes."""
        if self.narrows(call) or self.vanishes(call):
            return 0
        reached = reach(call.input(0)) * reach(call.input(1)) * self.scale(call)
        return reached + abs(call.output.quant.zero_point) + 1

    def requantization(self, call: Call, vanish: bool = False) -> Requantization:
        """How products become codes in the call's numerics, also those that ``vanish``."""
        zero, (low, high) = call.output.quant.zero_point, self.codes_range(call)
        scale = 0.0 if vanish else self.scale(call)
        if self.kernel_family(call) == "xnnpack":
            if call.mode.arm64:
                return Requantization(**fixed_point_form([scale], False), zero_point=zero, low=low, high=high)
            return Requantization("float32_even", (np.array([scale], np.float32),), zero, low, high)
        multiplier, exponent = quantize_multiplier(scale)
        shift = exponent & MAX_LEFT_SHIFT if exponent > MAX_LEFT_SHIFT else exponent
        factors = (np.array([multiplier], np.int32), np.array([shift], np.int32))
        return Requantization("double_away", factors, zero, low, high)

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
        if self.narrows(call):
            return (self._narrow(call),)
        a = call.array(0).astype(np.int64) - call.input(0).quant.zero_point
        b = call.array(1).astype(np.int64) - call.input(1).quant.zero_point
        codes = self.requantization(call).codes(a * b, call.output)
        run, whole = self.vectors(call)
        if whole:
            in_vector = np.arange(codes.size).reshape(codes.shape) % run < whole
            codes = np.where(in_vector, self._in_vectors(a * b, call), codes)
        return (codes,)

    def _in_vectors(self, products: Int, call: Call) -> Array:
        form = self.requantization(call, vanish=self.vanishes(call))
        scaled = form.rescale(products)
        if self.saturates(call):
            scaled = np.clip(scaled, -NARROW_LIMIT - 1, NARROW_LIMIT)
        codes = np.clip(wrap16(scaled + form.zero_point), form.low, form.high)
        return codes.astype(call.output.numpy)

    def _narrow(self, call: Call) -> Array:
        product = call.array(0).astype(np.int64) * call.array(1).astype(np.int64)
        fraction = np.minimum((product + 2**14) >> FRACTION_BITS, 2**FRACTION_BITS - 1)
        codes = rounding_divide_by_pot(fraction, NARROWING) + call.output.quant.zero_point
        return np.clip(codes, *self.codes_range(call)).astype(call.output.numpy)
