"""``prim.fft``: one pass of the discrete Fourier transform of rows."""

from __future__ import annotations

from dataclasses import dataclass

from qimport import fourier
from qimport.ir.check import require
from qimport.ir.graph import Array, Call, Operation, operation


@operation
@dataclass(frozen=True)
class Fft(Operation):
    """One pass over rows of complex numbers, each a pair of float64: :func:`qimport.fourier.run_pass`.

    Operands: x [R, N, 2]; w [N / 2, 2], the powers of the root of unity that is the kernel of the transform.

    C1 operands and result are float64 of these shapes. C2 N is a power of two from 2 to 2^15, ``span`` one
    below N.
    """

    NAME = "prim.fft"

    span: int

    def verify(self, call: Call) -> None:
        """Check C1, C2."""
        x, w = call.input(0), call.input(1)
        fits = len(x.shape) == 3 and x.shape[2] == 2 and w.shape == (x.shape[1] // 2, 2)
        same = x == call.output and x.dtype == w.dtype == "float64"
        require(fits and same, "C1", f"{x} and {w} are no rows of pairs and their roots")
        require(fourier.is_length(x.shape[1]), "C2", f"rows of {x.shape[1]} numbers have no transform")
        require(self.span in fourier.spans(x.shape[1]), "C2", f"there is no pass with a span of {self.span}")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """:func:`qimport.fourier.run_pass`."""
        return (fourier.run_pass(call.array(0), call.array(1), self.span),)
