"""``prim.fft``: the discrete Fourier transform of rows."""

from __future__ import annotations

from dataclasses import dataclass

from qimport import fourier
from qimport.ir.check import require
from qimport.ir.graph import Array, Call, Operation, operation


@operation
@dataclass(frozen=True)
class Fft(Operation):
    """Fourier transforms of rows of complex numbers, each a pair of float64.

    Operands: x [R, N, 2]; w [N / 2, 2], the powers of the root of unity that is the kernel of the transform.
    The passes are those of :func:`qimport.fourier.transform`.

    C1 operands and result are float64 of these shapes. C2 N is a power of two from 2 to 2^15.
    """

    NAME = "prim.fft"

    def verify(self, call: Call) -> None:
        """Check C1, C2."""
        x, w = call.input(0), call.input(1)
        fits = len(x.shape) == 3 and x.shape[2] == 2 and w.shape == (x.shape[1] // 2, 2)
        same = x == call.output and x.dtype == w.dtype == "float64"
        require(fits and same, "C1", f"{x} and {w} are no rows of pairs and their roots")
        require(fourier.is_length(x.shape[1]), "C2", f"rows of {x.shape[1]} numbers have no transform")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """:func:`qimport.fourier.transform`."""
        return (fourier.transform(call.array(0), call.array(1)),)
