"""SOFTMAX and LOG_SOFTMAX."""

from __future__ import annotations

import math

from qimport.frontend.ops import checks
from qimport.frontend.ops.context import OperatorContext, importer
from qimport.ir.graph import Value
from qimport.qnn.log_softmax import RESULT, LogSoftmax
from qimport.qnn.softmax import FINEST_SCALE, RESULTS, Softmax, result_quantization


@importer("SOFTMAX", versions=range(1, 5))
def softmax(context: OperatorContext) -> None:
    """Over the last dimension, with the result quantization that the interpreter admits."""
    context.operands(1)
    x, out = context.input(0), context.out
    _types(context, x, RESULTS)
    beta = context.option("beta")
    context.require(0 < beta < math.inf, f"beta is {beta}; expected a positive number")
    if out.type.dtype != "float32":
        _result(context, x.type.dtype)
    context.emit(Softmax(beta=beta), (x,), x.type.shape)


def _result(context: OperatorContext, operand: str) -> None:
    out, found = context.out, context.out.type.quant
    text, wanted = f"the scale is {found.scale:.9g}", result_quantization(operand, out.type.dtype)
    if wanted is None:
        context.require(found.scale > FINEST_SCALE, f"{text}; expected more than {FINEST_SCALE:.9g}", out)
        return
    count, zero = wanted
    context.require(abs(found.scale * count - 1) <= 1e-3, f"{text}; expected 1/{count}", out)
    context.require(found.zero_point == zero, f"the zero point is {found.zero_point}; expected {zero}", out)


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
