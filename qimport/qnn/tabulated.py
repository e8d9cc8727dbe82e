"""Functions that the interpreter tabulates: 256 entries for 8 bits, 513 knots to interpolate for int16."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from qimport import real
from qimport.fixedpoint import Int
from qimport.ir.check import require
from qimport.ir.graph import Call, operation
from qimport.ir.types import INTEGER_RANGE, TensorType
from qimport.numerics import Family, Mode
from qimport.qnn import sigmoid16
from qimport.qnn.interpolation import interpolated, knots
from qimport.qnn.unary import Float32, UnaryOperation, everywhere, real_values, tabulated


class TabulatedFunction(UnaryOperation):
    """A float function that the interpreter tabulates: y = f(f32(s_in * (x - z_in))), every step in float32.

    8 bits, reference and builtin: clamp(trunc(f32(round_away(f32(y * f32(1 / s_out))) + z_out)))
    (``LUTPopulate``); xnnpack: clamp(rne(f32(f32(y * f32(1 / s_out)) + z_out))) (elementwise LUT).
    int16: :mod:`qimport.qnn.interpolation`.

    exp and tanh are those of the interpreter's C library, other functions correctly rounded, which equals it
    on every table compared.
    """

    TABLE: ClassVar[Mapping[Family, real.Kind]]
    """f in each kernel family."""

    def codes(self, x: Int, source: TensorType, target: TensorType, kernels: Mode) -> Int:
        """The formula of the class."""
        if source.dtype == "int16":
            return interpolated(x, self.knots(source, target, kernels))
        real_results = self.function(real_values(x, source), target, kernels.family)
        return tabulated(real_results, target, kernels.family)

    def function(self, v: Float32, target: TensorType, family: Family) -> Float32:
        """f, rounded to float32."""
        return real.apply(self.TABLE[family], v)

    def knots(self, source: TensorType, target: TensorType, kernels: Mode) -> Int:
        """The table of the int16 kernel."""
        with np.errstate(all="ignore"):
            return knots(lambda v: self.function(v, target, "reference"), source, target, kernels.arm64)


@operation
@dataclass(frozen=True)
class Elu(TabulatedFunction):
    """e^v - 1 below 0, v from there on; the interpreter has no reference kernel.

    float32: builtin :func:`qimport.real.fdlibm.expm1` below 0; xnnpack :func:`qimport.real.xnnpack.elu`.

    C1, C2 as in :class:`qimport.qnn.unary.UnaryOperation`.
    """

    NAME = "qnn.elu"
    ARM64_FLOATS = ("builtin",)
    TFLITE: ClassVar[tuple[str, ...]] = ("ELU",)
    TYPES = ("int8", "float32")
    DELEGATED = ("int8", "float32")
    TABLE = everywhere("elu")
    REAL: ClassVar[Mapping[Family, real.Kind]] = {**everywhere("elu"), "xnnpack": "elu_of_polynomial"}

    IN_REFERENCE = False


@operation
@dataclass(frozen=True)
class Exp(TabulatedFunction):
    """e^v.

    float32: :func:`qimport.real.glibc.exp`; xnnpack :func:`qimport.real.xnnpack.exp`.

    C1, C2 as in :class:`qimport.qnn.unary.UnaryOperation`.
    """

    NAME = "qnn.exp"
    TFLITE: ClassVar[tuple[str, ...]] = ("EXP",)
    TYPES = ("int8", "int16", "float32")
    DELEGATED = ("float32",)
    TABLE = everywhere("exp")
    REAL: ClassVar[Mapping[Family, real.Kind]] = {**everywhere("exp"), "xnnpack": "exp_of_quotient"}


@operation
@dataclass(frozen=True)
class Log(TabulatedFunction):
    """The natural logarithm; in tables, numbers that are not positive give the result's lowest code.

    float32: :func:`qimport.real.glibc.log`; xnnpack :func:`qimport.real.xnnpack.log`.

    C1, C2 as in :class:`qimport.qnn.unary.UnaryOperation`.
    """

    NAME = "qnn.log"
    TFLITE: ClassVar[tuple[str, ...]] = ("LOG",)
    TYPES = ("int8", "int16", "float32")
    DELEGATED = ("float32",)
    TABLE = everywhere("log")
    REAL: ClassVar[Mapping[Family, real.Kind]] = {**everywhere("log"), "xnnpack": "log_of_quotient"}

    def function(self, v: Float32, target: TensorType, family: Family) -> Float32:
        """log v, or the smallest number that the result can hold."""
        quant, lowest = target.quant, INTEGER_RANGE[target.dtype][0]
        smallest = np.float32(lowest - quant.zero_point) * np.float32(quant.scale)
        return np.where(v > 0, real.apply("log", v), smallest)


@operation
@dataclass(frozen=True)
class Gelu(TabulatedFunction):
    """v / 2 * erfc(-v sqrt(1/2)), or v / 2 * (1 + tanh(sqrt(2/pi) (v + 0.044715 v^3))) if ``approximate``.

    float32: xnnpack :func:`qimport.real.xnnpack.gelu`, ``gelu_tanh``. reference, builtin:
    :func:`qimport.real.eigen.gelu_in_packets` for whole packets of four elements, ``gelu_by_element`` for the
    rest; ``gelu_by_tanh`` if ``approximate``. Tables: with the C library's functions,
    :func:`qimport.real.error_function.erfc` and :func:`qimport.real.fdlibm.tanh`.

    C1, C2 as in :class:`qimport.qnn.unary.UnaryOperation`.
    """

    NAME = "qnn.gelu"
    ARM64_FLOATS = ("xnnpack",)
    TFLITE: ClassVar[tuple[str, ...]] = ("GELU",)
    TYPES = ("int8", "uint8", "int16", "float32")
    DELEGATED = ("float32",)
    CENTRED = False

    approximate: bool = False

    def real_function(self, family: Family) -> real.Kind:
        """The form that ``approximate`` chooses."""
        if family == "xnnpack":
            return "gelu_tanh_of_quotient" if self.approximate else "gelu_of_quotient"
        return "gelu_by_tanh" if self.approximate else "gelu_in_packets"

    def leftover(self, family: Family) -> tuple[int, real.Kind] | None:
        """Only the exact form knows packets."""
        return None if self.approximate or family == "xnnpack" else (4, "gelu_by_element")

    def function(self, v: Float32, target: TensorType, family: Family) -> Float32:
        """The formula with the functions of the C library."""
        return real.apply("gelu_tanh" if self.approximate else "gelu", v)


@operation
@dataclass(frozen=True)
class Logistic(TabulatedFunction):
    """1 / (1 + exp(-v)).

    8 bits: reference, builtin f32(1 / f32(1 + f32(exp(-v)))); xnnpack exp(v) / (1 + exp(v)) in float64, then
    f32. int16: :mod:`qimport.qnn.sigmoid16`. float32: the reference kernel takes e^v below -9 and 1 above
    16.619047; builtin :func:`qimport.real.eigen.logistic_in_packets` for whole packets of four elements,
    ``logistic_by_element`` for the rest; xnnpack :func:`qimport.real.xnnpack.logistic`.

    C1, C2 as in :class:`qimport.qnn.unary.UnaryOperation`. C3 the result's scale is 1/256 for 8 bits, 1/32768
    for int16.
    """

    NAME = "qnn.logistic"
    ARM64_FLOATS = ()
    TFLITE: ClassVar[tuple[str, ...]] = ("LOGISTIC",)
    TYPES = ("int8", "uint8", "int16", "float32")
    DELEGATED = ("int8", "uint8", "float32")
    TABLE: ClassVar[Mapping[Family, real.Kind]] = {
        "reference": "logistic_of_table",
        "builtin": "logistic_of_table",
        "xnnpack": "logistic",
    }
    REAL: ClassVar[Mapping[Family, real.Kind]] = {
        "reference": "logistic_by_cases",
        "builtin": "logistic_in_packets",
        "xnnpack": "logistic_by_powers",
    }
    LEFTOVERS: ClassVar[Mapping[Family, tuple[int, real.Kind]]] = {"builtin": (4, "logistic_by_element")}

    def verify(self, call: Call) -> None:
        """Check C1-C3."""
        super().verify(call)
        require_result_scale("C3", "LOGISTIC", call.output)

    def codes(self, x: Int, source: TensorType, target: TensorType, kernels: Mode) -> Int:
        """The table, or the int16 kernel's arithmetic."""
        if source.dtype == "int16":
            return sigmoid16.logistic(x, source.quant.scale, kernels.family)
        return super().codes(x, source, target, kernels)


@operation
@dataclass(frozen=True)
class Tanh(TabulatedFunction):
    """tanh(v), any result scale and zero point in 8 bits.

    int16: :mod:`qimport.qnn.sigmoid16`. float32: reference
    :func:`qimport.real.fdlibm.tanh`, builtin :func:`qimport.real.eigen.tanh_rational`, xnnpack
    :func:`qimport.real.xnnpack.tanh`.

    C1, C2 as in :class:`qimport.qnn.unary.UnaryOperation`. C3 the result's scale is 1/32768 for int16.
    """

    NAME = "qnn.tanh"
    ARM64_FLOATS = ("xnnpack",)
    TFLITE: ClassVar[tuple[str, ...]] = ("TANH",)
    TYPES = ("int8", "uint8", "int16", "float32")
    DELEGATED = ("int8", "uint8", "float32")
    TABLE = everywhere("tanh")
    REAL: ClassVar[Mapping[Family, real.Kind]] = {
        "reference": "tanh",
        "builtin": "tanh_rational",
        "xnnpack": "tanh_of_quotient",
    }

    def verify(self, call: Call) -> None:
        """Check C1-C3."""
        super().verify(call)
        if call.output.dtype == "int16":
            require_result_scale("C3", "TANH", call.output)

    def codes(self, x: Int, source: TensorType, target: TensorType, kernels: Mode) -> Int:
        """The table, or the int16 kernel's arithmetic."""
        if source.dtype == "int16":
            return sigmoid16.tanh(x, source.quant.scale, kernels.family)
        return super().codes(x, source, target, kernels)


def require_result_scale(label: str, what: str, out: TensorType) -> None:
    """The result has the only scale that its kernel knows: 1 over the count of non-negative codes."""
    if out.dtype == "float32":
        return
    count = 2**15 if out.dtype == "int16" else 2**8
    scale = out.quant.scale
    require(scale == 1 / count, label, f"the output scale of {what} must be 1/{count}, not {scale!r}")


TABULATED: tuple[type[TabulatedFunction], ...] = (Elu, Exp, Gelu, Log, Logistic, Tanh)
"""Every operation of this file."""
