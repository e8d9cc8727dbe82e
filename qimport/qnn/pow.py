"""``qnn.pow``: the POW operator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from qimport.elements import broadcast
from qimport.fixedpoint import float_to_int32
from qimport.ir.check import require
from qimport.ir.graph import Array, Call, operation
from qimport.qnn.base import QnnOperation
from qimport.real import apply64

SQUARINGS = 6
"""Bits of an exponent that decide a power of int32 numbers; any power from 32 on is 0, 1, -1 or too large."""

ALL_EVEN = 2.0**24
"""From here on every float32 is an even number."""

LARGEST = float(np.finfo(np.float32).max)


@operation
@dataclass(frozen=True)
class Pow(QnnOperation):
    """x to the power of y, in all modes.

    With ``exponent`` e, what the file has as a constant of one element that is stretched, and there is no
    operand y (``IntegerExponentPow``): for the bits of e from the second highest on, r = r * r, and
    r = x * r where the bit is set, from r = x. int32 wraps; float32 is clamped to finite numbers each time.

    Otherwise the operands broadcast. int32: in float64; what int32 does not hold gives its smallest number,
    on ARM the nearest one.
    float32: exp(y * log |x|) in float64, rounded, with the special cases of C's ``pow``; the interpreter
    calls ``powf``, from which 6 in 10000 results were 1 unit in the last place apart.

    C1 operands and result are all int32 or all float32. C2 the shapes broadcast to the result's; with
    ``exponent`` only the number of elements counts. C3 with ``exponent``, which is at least 1, there is one
    operand, otherwise two.
    """

    NAME = "qnn.pow"
    TFLITE = ("POW",)

    exponent: int | None = None

    def verify(self, call: Call) -> None:
        """Check C1-C3."""
        out = call.output
        given = 2 if self.exponent is None else 1
        require(len(call.inputs) == given and (self.exponent or 1) >= 1, "C3", f"needs {given} operands")
        types = [call.input(index) for index in range(given)]
        require(out.dtype in ("int32", "float32"), "C1", f"{out} is not int32 or float32")
        require(all(type_.dtype == out.dtype for type_ in types), "C1", "the element types differ")
        if self.exponent is not None:
            require(types[0].size == out.size, "C2", f"{types[0]} does not give {out}")
            return
        shape = broadcast(types[0].shape, types[1].shape)
        require(shape == out.shape, "C2", f"{types[0].shape} and {types[1].shape} do not give {out.shape}")

    def ulp_bound(self, call: Call) -> int:
        """1 for ``powf``."""
        return int(call.output.dtype == "float32" and self.exponent is None)

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """The docstring's formula."""
        x = call.array(0)
        with np.errstate(all="ignore"):
            if self.exponent is not None:
                result = np.asarray(_repeated(x, self.exponent), call.output.numpy)
                return (result.reshape(call.output.shape),)
            if call.output.dtype == "int32":
                return (_of_integers(x, call.array(1), call.mode.arm64),)
            return (_of_floats(x, call.array(1)),)


def multiplications(exponent: int) -> str:
    """Steps from x to its power: ``s`` squares, ``x`` multiplies by x."""
    return "".join("sx" if bit == "1" else "s" for bit in f"{exponent:b}"[1:])


def _repeated(x: npt.NDArray[Any], exponent: int) -> npt.NDArray[Any]:
    result = x
    for step in multiplications(exponent):
        result = np.asarray(result * result if step == "s" else x * result)
        if x.dtype == np.float32:
            result = np.where(result > LARGEST, np.float32(LARGEST), result)
            result = np.where(result < -LARGEST, np.float32(-LARGEST), result)
    return result


def _of_integers(base: npt.NDArray[Any], exponent: npt.NDArray[Any], saturate: bool) -> Array:
    few = np.where(exponent < 2**SQUARINGS, exponent, 2**SQUARINGS - 2 + (exponent & 1))
    exact = base.astype(np.float64) ** np.maximum(few, 0)
    return float_to_int32(exact, saturate).astype(np.int32)


def _of_floats(base: npt.NDArray[Any], exponent: npt.NDArray[Any]) -> Array:
    x, y = base.astype(np.float64), exponent.astype(np.float64)
    size = apply64("exp", apply64("log", np.abs(x)) * y).astype(np.float32)
    size = np.where((np.abs(x) == 1) | (y == 0), np.float32(1), size)
    small = np.abs(y) < ALL_EVEN
    parts = np.where(small, y, 0).astype(np.int64)
    broken = small & (parts != y)
    odd = small & ~broken & (parts % 2 != 0)
    negative = np.signbit(base)
    invalid = (x < 0) & (x > -np.inf) & broken
    signed = np.where(negative & odd, -size, size)
    return np.asarray(np.where(invalid, np.float32(np.nan), signed), np.float32)
