"""QUANTIZE and DEQUANTIZE."""

from __future__ import annotations

from qimport.frontend.ops import checks
from qimport.frontend.ops.context import OperatorContext, importer
from qimport.qnn.quantize import Dequantize, Quantize, Requantize


@importer("QUANTIZE", versions=range(1, 7))
def quantize(context: OperatorContext) -> None:
    """From float32 to codes, or from one quantization to another."""
    context.operands(1)
    x, out = context.input(0), context.out
    checks.eight_bit(context, out)
    if x.type.dtype == "float32":
        context.emit(Quantize(), (x,), x.type.shape)
        return
    if x.type.dtype not in checks.EIGHT_BIT:
        context.unsupported(f"the element type is {x.type.dtype}; expected float32, int8 or uint8", x)
    checks.per_tensor(context, x)
    factor = x.type.quant.scale / out.type.quant.scale
    checks.scale_factor(context, factor, "input scale / output scale")
    context.emit(Requantize(), (x,), x.type.shape)


@importer("DEQUANTIZE", versions=range(1, 10))
def dequantize(context: OperatorContext) -> None:
    """From codes to float32; constants may have a scale per channel."""
    context.operands(1)
    x, out = context.input(0), context.out
    if x.type.dtype not in checks.EIGHT_BIT:
        context.unsupported(f"the element type is {x.type.dtype}; expected int8 or uint8", x)
    checks.quantization(context, x)
    if out.type.dtype != "float32":
        context.unsupported(f"the element type is {out.type.dtype}; expected float32", out)
    context.emit(Dequantize(), (x,), x.type.shape)
