"""``qnn.sum`` and ``qnn.reduce_*``: sums, extrema, products and logical reductions over dimensions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from qimport.fixedpoint import (
    Int,
    f32,
    float_to_int32,
    multiply_by_quantized_multiplier_64,
    quantize_multiplier,
    round_away,
    wrap32,
)
from qimport.ir.check import require
from qimport.ir.graph import Array, Call, operation
from qimport.ir.types import INTEGER_RANGE
from qimport.qnn.checks import EIGHT_BIT, QUANTIZED
from qimport.qnn.reduction import (
    DelegateSum,
    Reduction,
    SumOrder,
    delegate_real_sum,
    delegate_sum,
    sum_in_order,
)
from qimport.qnn.requantization import Requantization, fixed_point_factors
from qimport.summation import fold_in_order

TYPES = (*QUANTIZED, "int32", "int64", "float32", "bool")


@dataclass(frozen=True)
class Extremum(Reduction):
    """What REDUCE_MAX and REDUCE_MIN share.

    Codes and integers: the extremum in all modes. float32, by index:

        reference         x better than best ? x : best, from the worst finite number
                          (from the first element where every dimension is reduced)
        builtin, xnnpack  best better than x ? best : x, from the infinity

    which is what a NaN does. bool: only reference has a kernel, and it is REDUCE_ANY or REDUCE_ALL.

    C1 x and the result have one element type, one of int8, uint8, int16, int32, int64, float32, bool. C2, C3
    see Reduction. C4 int16 has equal quantizations. Eight bits have too, unless the delegate takes the use.
    """

    BETTER: ClassVar[Any]
    REDUCE: ClassVar[Any]

    def verify(self, call: Call) -> None:
        """Check C1-C4."""
        x, out = call.input(0), call.output
        self.verify_types(call, TYPES)
        self.verify_shape(call)
        if x.dtype == "int16":
            require(x.quantization == out.quantization, "C4", "int16 needs equal quantizations")

    def unsupported(self, call: Call) -> str | None:
        """The delegate's limits, those of kernels that compare scales, and bool outside reference."""
        x, family = call.input(0), self.kernel_family(call)
        if x.dtype in EIGHT_BIT and family != "xnnpack" and x.quantization != call.output.quantization:
            return "operand and result are quantized unlike each other, which these kernels refuse"
        return self.refused_bool(call) or super().unsupported(call)

    def from_first(self, call: Call) -> bool:
        """Whether the first element of float32 is where the comparison starts."""
        return self.kernel_family(call) == "reference" and len(self.axes) == len(call.input(0).shape)

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """The docstring's formula."""
        x = call.array(0)
        if x.dtype != np.float32:
            return (np.asarray(type(self).REDUCE(x, axis=self.axes)).reshape(call.output.shape),)
        better = type(self).BETTER
        worst = -np.inf if better is np.greater else np.inf

        def keep_unless_better(best: Array, new: Array) -> Array:
            return np.where(better(new, best), new, best)

        def keep_if_better(best: Array, new: Array) -> Array:
            return np.where(better(best, new), best, new)

        if self.kernel_family(call) != "reference":
            found = fold_in_order(x, self.axes, worst, keep_if_better)
        else:
            start = None if self.from_first(call) else np.copysign(np.finfo(np.float32).max, worst)
            found = fold_in_order(x, self.axes, start, keep_unless_better)
        return (found.reshape(call.output.shape),)


@operation
@dataclass(frozen=True)
class ReduceMax(Extremum):
    """Largest element over ``axes``; rules and constraints of :class:`Extremum`."""

    NAME = "qnn.reduce_max"
    TFLITE = ("REDUCE_MAX",)
    BETTER = np.greater
    REDUCE = np.max


@operation
@dataclass(frozen=True)
class ReduceMin(Extremum):
    """Smallest element over ``axes``; rules and constraints of :class:`Extremum`."""

    NAME = "qnn.reduce_min"
    TFLITE = ("REDUCE_MIN",)
    BETTER = np.less
    REDUCE = np.min


@dataclass(frozen=True)
class Logical(Reduction):
    """What REDUCE_ANY and REDUCE_ALL share.

    C1 x and the result are bool. C2, C3 see Reduction.
    """

    REDUCE: ClassVar[Any]

    def verify(self, call: Call) -> None:
        """Check C1-C3."""
        self.verify_types(call, ("bool",))
        self.verify_shape(call)

    def xnnpack_takes(self, call: Call) -> bool:
        """Never."""
        return False

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """NumPy's any or all."""
        found = type(self).REDUCE(call.array(0), axis=self.axes)
        return (np.asarray(found).reshape(call.output.shape),)


@operation
@dataclass(frozen=True)
class ReduceAny(Logical):
    """Whether any element over ``axes`` is true; constraints of :class:`Logical`."""

    NAME = "qnn.reduce_any"
    TFLITE = ("REDUCE_ANY",)
    REDUCE = np.any


@operation
@dataclass(frozen=True)
class ReduceAll(Logical):
    """Whether all elements over ``axes`` are true; constraints of :class:`Logical`."""

    NAME = "qnn.reduce_all"
    TFLITE = ("REDUCE_ALL",)
    REDUCE = np.all


@dataclass(frozen=True)
class RealSum:
    """code = clamp(int32(round_away(float32(float32(sum) * factor) + offset)) + zero_point)."""

    factor: float
    offset: float
    zero_point: int

    def codes(self, total: Int, output: Any) -> Array:
        """Codes for sums of codes."""
        with np.errstate(all="ignore"):
            scaled = total.astype(np.float32) * np.float32(self.factor) + np.float32(self.offset)
            nearest = float_to_int32(round_away(scaled).astype(np.float64))
        return np.clip(wrap32(nearest + self.zero_point), *INTEGER_RANGE[output.dtype]).astype(output.numpy)


@operation
@dataclass(frozen=True)
class Sum(Reduction):
    """Sum over ``axes``; n elements are reduced to one.

    uint8, reference (``QuantizedMeanOrSum``):

        code = clamp(rescale(sum - z_x * n, s_x / s_out) + z_out)   ``double_away``

    int8, reference: the same formula on the bytes read as uint8, zero points as they are, and the code 0..255
    written as a byte: the interpreter's kernel runs with the wrong element type. int16, reference: it reads
    int16 as bytes, half of them past its operand; there is nothing to equal.

    builtin, 8 and 16 bits, every step rounded to float32:

        c    = s_x / s_out
        code = clamp(int32(round_away(sum * c + -z_x * c * n)) + z_out)

    xnnpack, 8 bits: as MEAN with c = s_x / s_out. int32, int64: wrapping. float32:
    :func:`qimport.qnn.reduction.delegate_real_sum` in xnnpack, otherwise
    :func:`qimport.qnn.reduction.sum_in_order`; a sum over all dimensions begins with the first element in
    reference too. bool: REDUCE_ANY, in reference, or a copy.

    C1 x and the result have one element type, one of these; 8 and 16 bits have one scale each. C2, C3 see
    Reduction. C4 int16 has zero points 0.
    """

    NAME = "qnn.sum"
    ARM64_FLOATS = ()
    TFLITE = ("SUM",)

    def verify(self, call: Call) -> None:
        """Check C1-C4."""
        self.verify_types(call, TYPES)
        if call.input(0).dtype in QUANTIZED:
            self.verify_codes("C1", call)
        self.verify_shape(call)

    def unsupported(self, call: Call) -> str | None:
        """The delegate's limits, and the kernels that do not exist or read past their operand."""
        if call.input(0).dtype == "int16" and self.kernel_family(call) == "reference":
            return "the reference kernel reads int16 elements as bytes; its results mean nothing"
        return self.refused_bool(call) or super().unsupported(call)

    def order(self, call: Call) -> SumOrder:
        """In which order float32 is summed without delegate."""
        everything = len(self.axes) == len(call.input(0).shape)
        return "reference" if self.kernel_family(call) == "reference" and not everything else "builtin"

    def fixed_point(self, call: Call) -> Requantization:
        """The reference kernel's parameters; codes of int8 are those of uint8."""
        x, out = call.input(0).quant, call.output.quant
        return Requantization(
            "double_away", fixed_point_factors([x.scale / out.scale]), out.zero_point, 0, 255
        )

    def real(self, call: Call) -> RealSum:
        """The optimized kernel's parameters."""
        x, out = call.input(0).quant, call.output.quant
        factor = f32(x.scale / out.scale)
        return RealSum(factor, f32(f32(-x.zero_point * factor) * self.count(call)), out.zero_point)

    def delegate(self, call: Call) -> DelegateSum:
        """XNNPACK's parameters."""
        return delegate_sum(call, self.count(call), 1)

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """The docstring's formulas."""
        return (self._sum(call.array(0), call).reshape(call.output.shape),)

    def _sum(self, x: Array, call: Call) -> Array:
        family = self.kernel_family(call)
        if x.dtype == np.float32:
            if family == "xnnpack":
                return delegate_real_sum(x, self.axes, 1.0)
            return sum_in_order(x, self.axes, self.order(call))
        if x.dtype == np.bool_:
            return np.asarray(x.any(self.axes))
        misread = x.dtype == np.int8 and family == "reference"
        total = np.asarray((x.view(np.uint8) if misread else x).astype(np.int64).sum(self.axes))
        if x.dtype.name not in QUANTIZED:
            return total.astype(x.dtype)
        if family == "xnnpack":
            return self.delegate(call).codes(wrap32(total), call.output)
        if family == "builtin":
            return self.real(call).codes(wrap32(total), call.output)
        offset = self.count(call) * call.input(0).quant.zero_point
        codes = self.fixed_point(call).rescale(wrap32(wrap32(total) - offset)) + call.output.quant.zero_point
        return np.clip(codes, 0, 255).astype(np.uint8).view(x.dtype)


def _has_scale(call: Call) -> bool:
    x = call.input(0)
    return x.dtype in ("int8", "int16") and x.quantization is not None


@operation
@dataclass(frozen=True)
class ReduceProd(Reduction):
    """Product over ``axes``; n elements are reduced to one, the same way in all modes.

    Where every axis has a single element, or there is none, reference computes, and the others copy.

    int8, int16 with a scale (``QuantizedReduceProd``; M is the 64-bit single-rounding multiplication by
    s_x / s_out^(1/n)):

        p = x0 - z_x; then for every further element p = M(p * (x - z_x)) ; code = clamp(M(p) + z_out)

    float32 by index from 1. Everything else wraps in its own type. bool: REDUCE_ALL, in reference only.

    C1 x and the result have one element type: int8, int16, int32, int64, float32, bool, or uint8 without
    scale. C2, C3 see Reduction. C4 int16 has zero points 0; int8 and int16 have one scale each, or none.
    """

    NAME = "qnn.reduce_prod"
    TFLITE = ("REDUCE_PROD",)

    def verify(self, call: Call) -> None:
        """Check C1-C4."""
        x = call.input(0)
        self.verify_types(call, TYPES)
        require(x.dtype != "uint8" or x.quantization is None, "C1", "uint8 must have no scale")
        if _has_scale(call):
            self.verify_codes("C4", call)
        self.verify_shape(call)

    def quantized(self, call: Call) -> bool:
        """Whether products are rescaled."""
        copied = self.kernel_family(call) != "reference" and self.copies(call)
        return _has_scale(call) and not copied

    def xnnpack_takes(self, call: Call) -> bool:
        """Never."""
        return False

    def unsupported(self, call: Call) -> str | None:
        """Only the reference kernel knows bool."""
        return self.refused_bool(call)

    def factor(self, call: Call) -> tuple[int, int]:
        """Multiplier and exponent of M."""
        x, out = call.input(0).quant, call.output.quant
        return quantize_multiplier(x.scale / out.scale ** (1.0 / self.count(call)))

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """The docstring's formula."""
        x, out = call.array(0), call.output
        if x.dtype == np.bool_:
            return (np.asarray(x.all(self.axes)).reshape(out.shape),)
        if not self.quantized(call):
            with np.errstate(all="ignore"):
                return (fold_in_order(x, self.axes, 1, np.multiply).reshape(out.shape),)
        multiplier, exponent = self.factor(call)

        def scaled(value: Int) -> Int:
            return wrap32(multiply_by_quantized_multiplier_64(value, multiplier, exponent))

        centred = x.astype(np.int64) - call.input(0).quant.zero_point
        product = scaled(fold_in_order(centred, self.axes, None, lambda p, v: scaled(p * v)))
        codes = np.clip(product + out.quant.zero_point, *INTEGER_RANGE[out.dtype])
        return (codes.reshape(out.shape).astype(out.numpy),)
