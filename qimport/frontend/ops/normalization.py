"""L2_NORMALIZATION and LOCAL_RESPONSE_NORMALIZATION."""

from __future__ import annotations

from qimport.frontend.ops import checks
from qimport.frontend.ops.context import OperatorContext, importer
from qimport.qnn.l2_normalization import RESULT, L2Normalization
from qimport.qnn.local_response_normalization import LocalResponseNormalization


@importer("L2_NORMALIZATION", versions=range(1, 3))
def l2_normalization(context: OperatorContext) -> None:
    """Over the last dimension, with the one result quantization that the interpreter admits."""
    context.operands(1)
    x, out = context.input(0), context.out
    if x.type.dtype not in (*RESULT, "float32"):
        context.unsupported(f"the element type is {x.type.dtype}; expected int8, uint8 or float32", x)
    checks.same_type(context, x, out)
    activation = context.option("fused_activation_function")
    context.require(activation == "NONE", f"the fused activation is {activation}; expected NONE")
    if out.type.dtype != "float32":
        checks.per_tensor(context, x)
        checks.per_tensor(context, out)
        found, (scale, zero) = out.type.quant, RESULT[out.type.dtype]
        context.require(found.scale == scale, f"the scale is {found.scale:.9g}; expected 1/128", out)
        context.require(
            found.zero_point == zero, f"the zero point is {found.zero_point}; expected {zero}", out
        )
    if not x.type.shape:
        context.misfit("a scalar has no dimension to go over", x)
    context.emit(L2Normalization(), (x,), x.type.shape)


@importer("LOCAL_RESPONSE_NORMALIZATION", versions=range(1, 2))
def local_response_normalization(context: OperatorContext) -> None:
    """Of float images."""
    context.operands(1)
    x = context.input(0)
    if x.type.dtype != "float32":
        context.unsupported(f"the element type is {x.type.dtype}; expected float32", x)
    checks.same_type(context, x, context.out)
    checks.rank(context, x, 4)
    radius = context.option("radius")
    context.require(radius >= 0, f"the radius is {radius}; expected at least 0")
    numbers = (float(context.option(name)) for name in ("bias", "alpha", "beta"))
    context.emit(LocalResponseNormalization(radius, *numbers), (x,), x.type.shape)
