"""RFFT2D, and the operators that make real numbers of complex ones."""

from __future__ import annotations

from functools import partial

from qimport import fourier
from qimport.frontend.ops import checks
from qimport.frontend.ops.context import OperatorContext, importer
from qimport.qnn.base import QnnOperation
from qimport.qnn.spectrum import ComplexAbs, Imag, Real, Rfft2d


@importer("RFFT2D", versions=range(1, 2))
def rfft2d(context: OperatorContext) -> None:
    """The lengths of both dimensions are a constant operand."""
    context.operands(2)
    x = context.input(0)
    checks.one_of(context, x, ("float32",))
    checks.one_of(context, context.out, ("complex64",))
    lengths = context.integers(1, "fft_length")
    if len(lengths) != 2 or len(x.type.shape) < 2:
        context.misfit(f"{len(lengths)} lengths do not fit tensor {x.name!r} of shape {x.type.shape}", x)
    height, width = lengths
    context.require(
        (height == 1 or fourier.is_length(height)) and fourier.is_length(width),
        f"the transform is one of {height} x {width} numbers; expected powers of two from 2 to"
        f" {fourier.LONGEST}, or a height of 1",
        context.input(1),
    )
    op = Rfft2d(height, width)
    context.emit(op, (x,), op.result_shape(x.type.shape))


def _of_complex(operation: type[QnnOperation], context: OperatorContext) -> None:
    context.operands(1)
    x = context.input(0)
    checks.one_of(context, x, ("complex64",))
    checks.one_of(context, context.out, ("float32",))
    context.emit(operation(), (x,), x.type.shape)


for _operation in (ComplexAbs, Imag, Real):
    importer(_operation.TFLITE[0], versions=range(1, 2))(partial(_of_complex, _operation))
