"""QUANTIZE and DEQUANTIZE: tables from 8 bits to 8 bits, arithmetic elsewhere."""

from __future__ import annotations

from typing import Literal

import numpy as np

from qimport import prim
from qimport.fixedpoint import f32
from qimport.ir.graph import Value
from qimport.ir.types import INTEGER_RANGE, TensorType
from qimport.lower.rule import Emitter, Use, rule
from qimport.lower.tables import emit_table, emit_table_in_blocks
from qimport.qnn.checks import EIGHT_BIT
from qimport.qnn.quantize import (
    DEQUANTIZE_BLOCK,
    QUANTIZE_BLOCK,
    REQUANTIZE_BLOCK,
    Dequantize,
    Quantize,
    Requantize,
    channel_factors,
)


@rule(Quantize)
def lower_quantize(emit: Emitter, op: Quantize, use: Use) -> Value:
    """Scale, convert, add the zero point, clamp: each as the kernel family does it."""
    out = use.output
    x = emit.reshape(use.operand(0), out.shape or (1,))
    if out.quant.per_channel:
        return _quantize_channels(emit, x, use)
    scale, family = out.quant.scale, op.kernel_family(use.call)
    with np.errstate(over="ignore"):
        inverse = f32(1 / scale)

    def nearest(x: Value) -> Value:
        return converted(emit, emit.binary("mul", x, inverse), "even", use)

    def wide_division(x: Value) -> Value:
        return converted(emit, emit.binary("div", emit.cast(x, "float64"), scale), "away", use)

    if family == "xnnpack":
        codes = to_int(emit, emit.binary("mul", x, inverse), "even", saturate=True)
        result = emit.clamp(codes, out.quant.zero_point, *INTEGER_RANGE[out.dtype], out.dtype)
    elif family == "reference":
        result = clamp_wrapping(emit, converted(emit, emit.binary("div", x, scale), "away", use), out)
    else:
        result = clamp_wrapping(emit, emit.in_blocks(x, QUANTIZE_BLOCK, nearest, wide_division), out)
    return emit.reshape(result, out.shape)


def _quantize_channels(emit: Emitter, x: Value, use: Use) -> Value:
    out = use.output
    zeros, scales = channel_factors(out.quant, len(out.shape))
    codes = converted(emit, emit.binary("div", x, emit.constant(scales)), "away", use)
    shifted = emit.binary("add", codes, emit.constant(zeros.astype(np.int32)))
    return emit.clamp(shifted, 0, *INTEGER_RANGE[out.dtype], out.dtype)


@rule(Requantize)
def lower_requantize(emit: Emitter, op: Requantize, use: Use) -> Value:
    """A table from 8 bits, else rescale and clamp."""
    x, source, out = use.operand(0), use.call.input(0), use.output
    if op.kernel_family(use.call) == "builtin" and op.has_blocks(use.call):
        return emit_table_in_blocks(emit, op, use, REQUANTIZE_BLOCK)
    if source.dtype in EIGHT_BIT:
        return emit_table(emit, op, use)
    x = emit.reshape(x, out.shape or (1,))
    wide = x if x.type.dtype == "int32" else emit.cast(x, "int32")
    if source.quant.zero_point:
        wide = emit.binary("sub", wide, source.quant.zero_point)
    scaled = emit.rescale(wide, source.quant.scale / out.quant.scale)
    return emit.reshape(clamp_wrapping(emit, scaled, out), out.shape)


@rule(Dequantize)
def lower_dequantize(emit: Emitter, op: Dequantize, use: Use) -> Value:
    """Subtract and multiply; in whole blocks of the optimized kernel multiply and add."""
    x, source = use.operand(0), use.call.input(0)
    if source.quantization is None:
        return emit.cast(x, "float32")
    in_blocks = op.kernel_family(use.call) == "builtin" and op.has_blocks(use.call)
    if in_blocks and use.call.mode.arm64:  # which has a fused multiplication and addition there
        return emit_table_in_blocks(emit, op, use, DEQUANTIZE_BLOCK)
    zeros, scales = channel_factors(
        source.quant, len(source.shape or (1,)) if source.quant.per_channel else 1
    )

    def exact(x: Value) -> Value:
        wide = emit.cast(x, "int32")
        if np.any(zeros):
            wide = emit.binary("sub", wide, emit.constant(zeros.astype(np.int32)))
        return emit.binary("mul", emit.cast(wide, "float32"), emit.constant(scales))

    def body(x: Value) -> Value:
        product = emit.binary("mul", emit.cast(x, "float32"), emit.constant(scales))
        return emit.binary("add", product, emit.constant((-zeros).astype(np.float32) * scales))

    x = emit.reshape(x, source.shape or (1,))
    real = emit.in_blocks(x, DEQUANTIZE_BLOCK, body, exact) if in_blocks else exact(x)
    return emit.reshape(real, source.shape)


def clamp_wrapping(emit: Emitter, codes: Value, out: TensorType) -> Value:
    """Add the zero point modulo 2^32, as these kernels do, then clamp; ``prim.clamp`` alone does not wrap."""
    shifted = emit.binary("add", codes, out.quant.zero_point) if out.quant.zero_point else codes
    return emit.clamp(shifted, 0, *INTEGER_RANGE[out.dtype], out.dtype)


def converted(emit: Emitter, x: Value, rounding: Literal["even", "away"], use: Use) -> Value:
    """int32 as C converts on the machine of the mode."""
    return to_int(emit, x, rounding, use.call.mode.arm64, use.call.mode.arm64)


def to_int(
    emit: Emitter,
    x: Value,
    rounding: Literal["even", "away"],
    saturate: bool = False,
    nan_to_zero: bool = False,
) -> Value:
    """``prim.to_int``."""
    op = prim.ToInt(rounding, saturate, nan_to_zero)
    return emit.emit(op, (x,), TensorType("int32", x.type.shape))
