"""What the lowering rules of reductions share."""

from __future__ import annotations

from qimport import prim
from qimport.ir.graph import Value
from qimport.ir.types import INTEGER_RANGE, TensorType
from qimport.lower.rule import Emitter
from qimport.qnn.reduction import DelegateSum, SumOrder, kept_shape, merge
from qimport.summation import RowOrder


def reduce(
    emit: Emitter,
    x: Value,
    kind: prim.ReduceKind,
    axes: tuple[int, ...],
    start: prim.ReduceStart = "neutral",
    dtype: str | None = None,
) -> Value:
    """``prim.reduce`` with dimensions kept; sums of 8 and 16 bits are int32."""
    narrow = kind == "sum" and x.type.dtype in ("int8", "uint8", "int16")
    result = dtype or ("int32" if narrow else x.type.dtype)
    shape = kept_shape(x.type.shape, axes)
    return emit.emit(prim.Reduce(kind, axes, start), (x,), TensorType(result, shape))


def emit_sum_in_order(emit: Emitter, x: Value, axes: tuple[int, ...], order: SumOrder) -> Value:
    """:func:`qimport.qnn.reduction.sum_in_order`."""
    if order != "packets":
        return reduce(emit, x, "sum", axes, "zero" if order == "reference" else "neutral")
    total = emit.reshape(x, merge(x.type.shape, axes, drop_ones=True).shape)
    return emit.reshape(_row_sum(emit, total, order), kept_shape(x.type.shape, axes))


def emit_delegate_real_sum(emit: Emitter, x: Value, axes: tuple[int, ...], factor: float) -> Value:
    """:func:`qimport.qnn.reduction.delegate_real_sum`."""
    merged = merge(x.type.shape, axes, drop_ones=False)
    total = emit.reshape(x, merged.shape)
    *outer, inner = merged.axes or (None,)
    if inner is not None and inner == len(merged.shape) - 1:
        total = _row_sum(emit, total, "lanes")
        if outer:
            op = prim.Reduce("sum", tuple(outer), "zero", factor)
            shape = kept_shape(total.type.shape, tuple(outer))
            total = emit.emit(op, (total,), TensorType("float32", shape))
        else:
            total = _times(emit, total, factor)
    else:
        total = _times(emit, reduce(emit, total, "sum", () if inner is None else (inner,), "zero"), factor)
        total = reduce(emit, total, "sum", tuple(outer), "zero") if outer else total
    return emit.reshape(total, kept_shape(x.type.shape, axes))


def _times(emit: Emitter, x: Value, factor: float) -> Value:
    return x if factor == 1 else emit.binary("mul", x, factor)


def _row_sum(emit: Emitter, x: Value, order: RowOrder) -> Value:
    return emit.emit(prim.RowSum(order), (x,), TensorType("float32", (*x.type.shape[:-1], 1)))


def emit_delegate_sum(emit: Emitter, total: Value, form: DelegateSum, dtype: str) -> Value:
    """The delegate's codes for int32 sums."""
    real = emit.cast(total, "float32")
    if form.fused:
        shifted = emit.fma(real, emit.number(form.factor, real), emit.number(form.offset, real))
    else:
        shifted = emit.binary("add", emit.binary("mul", real, form.factor), form.offset)
    to_int = prim.ToInt("even", saturate=True)
    nearest = emit.emit(to_int, (shifted,), TensorType("int32", shifted.type.shape))
    return emit.clamp(nearest, 0, *INTEGER_RANGE[dtype], dtype)
