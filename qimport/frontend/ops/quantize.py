"""QUANTIZE and DEQUANTIZE."""

from __future__ import annotations

from qimport.frontend.ops import checks
from qimport.frontend.ops.context import OperatorContext, importer
from qimport.qnn.quantize import (
    DEQUANTIZATIONS,
    QUANTIZATIONS,
    REQUANTIZATIONS,
    Dequantize,
    Quantize,
    Requantize,
)


@importer("QUANTIZE", versions=range(1, 7))
def quantize(context: OperatorContext) -> None:
    """From float32 to codes, or from one quantization to another."""
    context.operands(1)
    x, out = context.input(0), context.out
    allowed = QUANTIZATIONS if x.type.dtype == "float32" else REQUANTIZATIONS.get(x.type.dtype, ())
    if not allowed:
        wanted = ", ".join(("float32", *REQUANTIZATIONS))
        context.unsupported(f"the element type is {x.type.dtype}; expected one of {wanted}", x)
    if out.type.dtype not in allowed:
        sentence = f"the element type is {out.type.dtype}; expected one of {', '.join(allowed)}"
        context.unsupported(f"{sentence} for {x.type.dtype} operands", out)
    checks.quantization(context, out)
    if x.type.dtype == "float32":
        context.emit(Quantize(), (x,), x.type.shape)
        return
    checks.per_tensor(context, x)
    checks.per_tensor(context, out)
    factor = x.type.quant.scale / out.type.quant.scale
    checks.scale_factor(context, factor, "input scale / output scale")
    context.emit(Requantize(), (x,), x.type.shape)


@importer("DEQUANTIZE", versions=range(1, 10))
def dequantize(context: OperatorContext) -> None:
    """From codes, perhaps with a scale per channel, or float16 to float32."""
    context.operands(1)
    x, out = context.input(0), context.out
    if x.type.dtype not in DEQUANTIZATIONS:
        wanted = ", ".join(DEQUANTIZATIONS)
        context.unsupported(f"the element type is {x.type.dtype}; expected one of {wanted}", x)
    if x.type.dtype != "float16":
        checks.quantization(context, x)
    if out.type.dtype != "float32":
        context.unsupported(f"the element type is {out.type.dtype}; expected float32", out)
    context.emit(Dequantize(stored=x.is_constant), (x,), x.type.shape)
