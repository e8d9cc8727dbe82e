"""What elementwise functions of one tensor share.

``x`` and ``z_in``, ``s_in`` are the operand's code, zero point and scale; ``z_out``, ``s_out`` the result's.
[lo, hi] is the range of the result's element type.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from qimport import fixedpoint as fp
from qimport import real
from qimport.fixedpoint import Int
from qimport.ir.check import require
from qimport.ir.graph import Array, Call
from qimport.ir.types import INTEGER_RANGE, TensorType
from qimport.numerics import Family, Mode
from qimport.qnn.base import QnnOperation
from qimport.qnn.checks import (
    EIGHT_BIT,
    QUANTIZED,
    require_per_tensor,
    require_same_dtype,
    require_same_shape,
)
from qimport.qnn.quantize import in_blocks

Float32 = npt.NDArray[np.float32]


def code_range(dtype: str) -> Int:
    """Every code of an integer element type, ascending."""
    lowest, highest = INTEGER_RANGE[dtype]
    return np.arange(lowest, highest + 1)


def real_values(x: Int, source: TensorType) -> Float32:
    """What codes stand for, as the kernels that tabulate a function compute it."""
    centred = (x - source.quant.zero_point).astype(np.float32)
    return np.asarray(np.float32(source.quant.scale) * centred, np.float32)


def tabulated(y: Float32, target: TensorType, family: Family) -> Int:
    """Codes for float results ``y``; NaN gives what 0 gives.

    By the formulas of :class:`qimport.qnn.tabulated.TabulatedFunction`.
    """
    quant = target.quant
    scaled = np.where(np.isnan(y), np.float32(0), y) * (np.float32(1) / np.float32(quant.scale))
    zero = np.float32(quant.zero_point)
    nearest = np.rint(scaled + zero) if family == "xnnpack" else np.trunc(fp.round_away(scaled) + zero)
    codes = np.clip(nearest.astype(np.float64), *INTEGER_RANGE[target.dtype])
    return np.asarray(codes, np.int64)


class UnaryOperation(QnnOperation):
    """Base of the functions of one tensor.

    C1 operand and result are of one element type, one of ``TYPES``; 8- and 16-bit ones have one scale and one
    zero point each, which for int16 is 0 (but for GELU). C2 operand and result have one shape.
    """

    TYPES: ClassVar[tuple[str, ...]]
    """Element types that the interpreter's kernels know."""

    DELEGATED: ClassVar[tuple[str, ...]] = ()
    """Element types of which the XNNPACK delegate takes every use."""

    REAL: ClassVar[Mapping[Family, real.Kind]] = {}
    """The function of float32 in each kernel family."""

    LEFTOVERS: ClassVar[Mapping[Family, tuple[int, real.Kind]]] = {}
    """Where a kernel takes so many float32 elements of the flat tensor at once: the function of the rest."""

    def verify(self, call: Call) -> None:
        """Check C1, C2."""
        x, out = call.input(0), call.output
        require(x.dtype in self.TYPES, "C1", f"{x} is not one of {', '.join(self.TYPES)}")
        require_same_dtype("C1", call)
        require_same_shape("C2", call)
        if x.dtype in QUANTIZED and not self.ANY_QUANTIZATION:
            require_per_tensor("C1", x, out)
            zeros = (x.quant.zero_point, out.quant.zero_point)
            free = x.dtype != "int16" or not self.CENTRED
            require(free or zeros == (0, 0), "C1", f"zero points of int16 are 0, not {zeros}")

    ANY_QUANTIZATION: ClassVar[bool] = False
    """Whether scales and zero points do not matter, nor whether there are any."""

    CENTRED: ClassVar[bool] = True
    """Whether the zero points of int16 have to be 0."""

    IN_REFERENCE: ClassVar[bool] = True
    """Whether the interpreter has a reference kernel."""

    def unsupported(self, call: Call) -> str | None:
        """Where there is no reference kernel, mode reference has no bytes to equal."""
        if call.mode.family != "reference" or self.IN_REFERENCE:
            return None
        return f"the interpreter has no reference kernel of {self.TFLITE[0]}; choose another numerics mode"

    def xnnpack_takes(self, call: Call) -> bool:
        """By the element type alone."""
        return call.input(0).dtype in self.DELEGATED

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """The function of the family for floats, the formula of codes for everything else."""
        x = call.input(0)
        if x.dtype == "float32":
            return (self._real(call.array(0), self.kernel_family(call)),)
        if x.dtype not in EIGHT_BIT:
            return (self._codes(call.array(0).astype(np.int64), call, self.kernels(call)),)
        places, codes = call.array(0).astype(np.int64) - INTEGER_RANGE[x.dtype][0], code_range(x.dtype)
        results = self._codes(codes, call, self.kernels(call))[places]
        if block := self.code_block(call):
            leftover = self._codes(codes, call, Mode("reference"))[places]
            results = in_blocks(block, results, leftover)
        return (results,)

    def _codes(self, codes: Int, call: Call, kernels: Mode) -> Array:
        with np.errstate(all="ignore"):
            return self.codes(codes, call.input(0), call.output, kernels).astype(call.output.numpy)

    def _real(self, x: Array, family: Family) -> Array:
        kind = self.real_function(family)
        leftover = self.leftover(family)
        if leftover is None:
            return real.apply(kind, x)
        block, rest = leftover
        flat, whole = x.reshape(-1), x.size - x.size % block
        return np.concatenate((real.apply(kind, flat[:whole]), real.apply(rest, flat[whole:]))).reshape(
            x.shape
        )

    def real_function(self, family: Family) -> real.Kind:
        """The function of float32 in the kernels of ``family``."""
        return self.REAL[family]

    def leftover(self, family: Family) -> tuple[int, real.Kind] | None:
        """The entry of ``LEFTOVERS``, if any."""
        return self.LEFTOVERS.get(family)

    def code_block(self, call: Call) -> int:
        """Elements of 8 bits per block of the kernel, the reference kernel computes the others; 0: none."""
        return 0

    def codes(self, x: Int, source: TensorType, target: TensorType, kernels: Mode) -> Int:
        """The result's codes for operand codes ``x``, in these kernels."""
        raise NotImplementedError


def everywhere(kind: real.Kind) -> dict[Family, real.Kind]:
    """One function of float32 in every kernel family."""
    return {"reference": kind, "builtin": kind, "xnnpack": kind}


def rescaled(x: Int, factor: float) -> Int:
    """MBQM of ``x`` with the multiplier of a float64 ``factor``, rounding ``double_away``."""
    return fp.multiply_by_quantized_multiplier(x, *fp.quantize_multiplier(factor))
