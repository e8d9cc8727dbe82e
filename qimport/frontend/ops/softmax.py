"""SOFTMAX and LOG_SOFTMAX."""

from __future__ import annotations

import math

from qimport.frontend.ops import checks
from qimport.frontend.ops.context import OperatorContext, importer
from qimport.ir.graph import Value
from qimport.qnn.log_softmax import RESULT, LogSoftmax
from qimport.qnn.softmax import RESULTS, Softmax, result_zero_point


@importer("SOFTMAX", versions=range(1, 5))
def softmax(context: OperatorContext) -> None:
    """Over the last dimension, with the one result quantization that the interpreter admits."""
    context.operands(1)
    x, out = context.input(0), context.out
    _types(context, x, RESULTS)
    beta = context.option("beta")
    context.require(0 < beta < math.inf, f"beta is {beta}; expected a positive number")
    if out.type.dtype != "float32":
        count = 2**15 if out.type.dtype == "int16" else 2**8
        found, zero = out.type.quant, result_zero_point(x.type.dtype, out.type.dtype)
        context.require(
            abs(found.scale * count - 1) <= 1e-3, f"the scale is {found.scale:.9g}; expected 1/{count}", out
        )
        context.require(
            zero in (None, found.zero_point), f"the zero point is {found.zero_point}; expected {zero}", out
        )
    context.emit(Softmax(beta=beta), (x,), x.type.shape)


@importer("LOG_SOFTMAX", versions=range(1, 3))
def log_softmax(context: OperatorContext) -> None:
    """Over the last dimension, with the one result quantization that the interpreter admits."""
    context.operands(1)
    x, out = context.input(0), context.out
    _types(context, x, {dtype: (dtype,) for dtype in ("int8", "uint8", "float32")})
    if out.type.dtype != "float32":
        found, (scale, zero) = out.type.quant, RESULT[out.type.dtype]
        context.require(found.scale == scale, f"the scale is {found.scale:.9g}; expected 1/16", out)
        context.require(
            found.zero_point == zero, f"the zero point is {found.zero_point}; expected {zero}", out
        )
    context.emit(LogSoftmax(), (x,), x.type.shape)


def _types(context: OperatorContext, x: Value, results: dict[str, tuple[str, ...]]) -> None:
    out = context.out
    if x.type.dtype not in results:
        context.unsupported(f"the element type is {x.type.dtype}; expected one of {', '.join(results)}", x)
    if out.type.dtype not in results[x.type.dtype]:
        wanted = " or ".join(results[x.type.dtype])
        context.unsupported(f"the element type is {out.type.dtype}; expected {wanted}", out)
    if x.type.dtype != "float32":
        checks.per_tensor(context, x)
        checks.per_tensor(context, out)
    if not x.type.shape:
        context.misfit("a scalar has no dimension to go over", x)
