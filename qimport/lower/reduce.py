"""SUM, REDUCE_MAX, REDUCE_MIN, REDUCE_PROD, REDUCE_ANY and REDUCE_ALL."""

from __future__ import annotations

import numpy as np

from qimport import prim
from qimport.ir.graph import Value
from qimport.ir.types import INTEGER_RANGE, TensorType
from qimport.lower.reduction import emit_delegate_real_sum, emit_delegate_sum, emit_sum_in_order, reduce
from qimport.lower.requantization import emit_requantization
from qimport.lower.rule import Emitter, Use, rule
from qimport.qnn.checks import QUANTIZED
from qimport.qnn.reduce import (
    Extremum,
    Logical,
    ReduceAll,
    ReduceAny,
    ReduceMax,
    ReduceMin,
    ReduceProd,
    Sum,
)


@rule(Sum)
def lower_sum(emit: Emitter, op: Sum, use: Use) -> Value:
    """Reduce with all dimensions kept, requantize where there are scales, drop the reduced dimensions."""
    x, dtype = use.operand(0), use.output.dtype
    if dtype == "float32" and op.kernel_family(use.call) == "xnnpack":
        total = emit_delegate_real_sum(emit, x, op.axes, 1.0)
    elif dtype == "float32":
        total = emit_sum_in_order(emit, x, op.axes, op.order(use.call))
    elif dtype == "bool":
        total = reduce(emit, x, "max", op.axes)
    elif dtype in QUANTIZED:
        total = _codes(emit, op, use)
    else:
        total = reduce(emit, x, "sum", op.axes)
    return emit.reshape(total, use.output.shape)


def _codes(emit: Emitter, op: Sum, use: Use) -> Value:
    x, out, family = use.operand(0), use.output, op.kernel_family(use.call)
    if family == "xnnpack":
        return emit_delegate_sum(emit, reduce(emit, x, "sum", op.axes), op.delegate(use.call), out.dtype)
    if family == "builtin":
        return _optimized(emit, op, use)
    form = op.fixed_point(use.call)
    if out.dtype == "int8":
        byte = emit.lut(x, np.arange(-128, 128).astype(np.uint8))
        total = _centred(emit, op, use, reduce(emit, byte, "sum", op.axes))
        code = emit_requantization(emit, total, form, "uint8")
        return emit.lut(code, np.arange(256).astype(np.uint8).view(np.int8))
    total = _centred(emit, op, use, reduce(emit, x, "sum", op.axes))
    return emit_requantization(emit, total, form, "uint8")


def _centred(emit: Emitter, op: Sum, use: Use, total: Value) -> Value:
    offset = op.count(use.call) * use.call.input(0).quant.zero_point
    return emit.binary("sub", total, offset) if offset else total


def _optimized(emit: Emitter, op: Sum, use: Use) -> Value:
    form, out = op.real(use.call), use.output
    total = emit.cast(reduce(emit, use.operand(0), "sum", op.axes), "float32")
    shifted = emit.binary("add", emit.binary("mul", total, form.factor), form.offset)
    nearest = emit.emit(prim.ToInt("away"), (shifted,), TensorType("int32", shifted.type.shape))
    code = emit.binary("add", nearest, form.zero_point)
    return emit.clamp(code, 0, *INTEGER_RANGE[out.dtype], out.dtype)


@rule(ReduceMax, ReduceMin)
def lower_extremum(emit: Emitter, op: Extremum, use: Use) -> Value:
    """One reduction."""
    kind: prim.ReduceKind = "max" if isinstance(op, ReduceMax) else "min"
    start: prim.ReduceStart = "neutral"
    if use.output.dtype == "float32":
        if op.kernel_family(use.call) == "reference":
            start = "first" if op.from_first(use.call) else "finite"
        else:
            kind = "max_last" if kind == "max" else "min_last"
    return emit.reshape(reduce(emit, use.operand(0), kind, op.axes, start), use.output.shape)


@rule(ReduceProd)
def lower_reduce_prod(emit: Emitter, op: ReduceProd, use: Use) -> Value:
    """One reduction; codes are rescaled inside it."""
    x, out = use.operand(0), use.output
    if not op.quantized(use.call):
        kind: prim.ReduceKind = "min" if out.dtype == "bool" else "prod"
        return emit.reshape(reduce(emit, x, kind, op.axes), out.shape)
    scaled = prim.RescaledProduct(op.axes, use.call.input(0).quant.zero_point, *op.factor(use.call))
    product = emit.emit(scaled, (x,), TensorType("int32", op.kept_shape(use.call)))
    code = emit.clamp(product, out.quant.zero_point, *INTEGER_RANGE[out.dtype], out.dtype)
    return emit.reshape(code, out.shape)


@rule(ReduceAny, ReduceAll)
def lower_logical(emit: Emitter, op: Logical, use: Use) -> Value:
    """The largest or the smallest of 0 and 1."""
    kind: prim.ReduceKind = "max" if isinstance(op, ReduceAny) else "min"
    return emit.reshape(reduce(emit, use.operand(0), kind, op.axes), use.output.shape)
