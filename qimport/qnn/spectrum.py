"""Fourier transforms of real numbers, and the parts and magnitudes of complex ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from qimport import fourier
from qimport.fourier import Float64
from qimport.ir.check import require
from qimport.ir.graph import Array, Call, operation
from qimport.qnn.base import QnnOperation
from qimport.qnn.checks import require_same_shape


@operation
@dataclass(frozen=True)
class Rfft2d(QnnOperation):
    """Transforms of the last two dimensions of float32, cut or filled with zeros to [height, width].

    The result is complex64 [..., height, width / 2 + 1]: sums of x[r, c] exp(-2 pi i (r k / height +
    c l / width)), in float64 by :func:`qimport.fourier.transform`, rows first, with the conjugate roots and
    the imaginary parts negated at the end, which gives zeros their signs.

    The interpreter also computes in float64, in another order (Ooura's ``rdft2d``). Rounded to float32 that
    is the same but for about one number in 2^27, for sums whose terms cancel (60 units in the last place of
    float64, relative to the largest term, are what the two may be apart), and for the sign of some zeros.

    C1 the operand is float32 of rank 2 at least, the result complex64 of the shape above. C2 height is 1 or,
    like width, a power of two from 2 to 2^15 (the interpreter's transforms of width 1 are none).
    """

    NAME = "qnn.rfft2d"
    TFLITE: ClassVar[tuple[str, ...]] = ("RFFT2D",)

    height: int
    width: int

    def result_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Half of the spectrum of every image."""
        return (*shape[:-2], self.height, self.width // 2 + 1)

    def verify(self, call: Call) -> None:
        """Check C1, C2."""
        x, out = call.input(0), call.output
        fits = len(x.shape) >= 2 and out.shape == self.result_shape(x.shape)
        types = (x.dtype, out.dtype) == ("float32", "complex64")
        require(fits and types, "C1", f"{x} cannot become {out}")
        sizes = self.height == 1 or fourier.is_length(self.height), fourier.is_length(self.width)
        require(all(sizes), "C2", f"there is no transform of {self.height} x {self.width} numbers")

    def ulp_bound(self, call: Call) -> int:
        """Rounding to float32 may go the other way."""
        return 1

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """Rows, then the columns that are kept."""
        rows = np.zeros((*call.input(0).shape[:-2], self.height, self.width, 2))
        x = call.array(0)[..., : self.height, : self.width]
        rows[..., : x.shape[-2], : x.shape[-1], 0] = x
        kept = _transform(rows)[..., : self.width // 2 + 1, :]
        if self.height > 1:
            kept = _transform(kept.swapaxes(-2, -3)).swapaxes(-2, -3)
        with np.errstate(all="ignore"):
            pairs = (kept * fourier.CONJUGATE).astype(np.float32)
        return (np.ascontiguousarray(pairs).view(np.complex64)[..., 0],)


def _transform(x: Float64) -> Float64:
    """Along the last dimension but one; the last holds pairs."""
    rows = np.ascontiguousarray(x).reshape(-1, *x.shape[-2:])
    return fourier.transform(rows, fourier.roots(x.shape[-2])).reshape(x.shape)


class _OfComplex(QnnOperation):
    """A float32 of every complex64; all modes equal.

    C1 the operand is complex64, the result float32. C2 both have one shape.
    """

    def verify(self, call: Call) -> None:
        """Check C1, C2."""
        types = (call.input(0).dtype, call.output.dtype)
        require(types == ("complex64", "float32"), "C1", f"{types[0]} cannot become {types[1]}")
        require_same_shape("C2", call)


@operation
@dataclass(frozen=True)
class ComplexAbs(_OfComplex):
    """The magnitude: f32(sqrt(re * re + im * im)) in float64, as glibc's ``hypotf``.

    It is infinite where a part is, also beside a NaN. C1 and C2 as of :class:`Real`.
    """

    NAME = "qnn.complex_abs"
    TFLITE: ClassVar[tuple[str, ...]] = ("COMPLEX_ABS",)

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """The formula."""
        x = call.array(0)
        real, imaginary = (np.abs(part) for part in (x.real, x.imag))
        infinite = np.isinf(real) | np.isinf(imaginary)
        with np.errstate(all="ignore"):
            squares = real.astype(np.float64) ** 2 + imaginary.astype(np.float64) ** 2
            return (np.where(infinite, np.float32(np.inf), np.sqrt(squares).astype(np.float32)),)


@operation
@dataclass(frozen=True)
class Real(_OfComplex):
    """The real part.

    C1 the operand is complex64, the result float32. C2 both have one shape.
    """

    NAME = "qnn.real"
    TFLITE: ClassVar[tuple[str, ...]] = ("REAL",)

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """NumPy's."""
        return (call.array(0).real.copy(),)


@operation
@dataclass(frozen=True)
class Imag(_OfComplex):
    """The imaginary part. C1 and C2 as of :class:`Real`."""

    NAME = "qnn.imag"
    TFLITE: ClassVar[tuple[str, ...]] = ("IMAG",)

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """NumPy's."""
        return (call.array(0).imag.copy(),)
