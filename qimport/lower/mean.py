"""MEAN: a sum over dimensions, then fixed point or, as the delegate does it, float32."""

from __future__ import annotations

from qimport import prim
from qimport.ir.graph import Value
from qimport.ir.types import INTEGER_RANGE, TensorType
from qimport.lower.requantization import emit_requantization
from qimport.lower.rule import Emitter, Use, rule
from qimport.qnn.mean import Mean


@rule(Mean)
def lower_mean(emit: Emitter, op: Mean, use: Use) -> Value:
    """Reduce with all dimensions kept, requantize, and only then drop the reduced ones."""
    kept = TensorType("int32", op.kept_shape(use.call))
    total = emit.emit(prim.Reduce("sum", op.axes), (use.operand(0),), kept)
    delegated = op.kernel_family(use.call) == "xnnpack"
    codes = _delegated(emit, op, use, total) if delegated else _classic(emit, op, use, total)
    return emit.reshape(codes, use.output.shape)


def _classic(emit: Emitter, op: Mean, use: Use, total: Value) -> Value:
    form = op.classic(use.call)
    centred = emit.binary("sub", total, form.offset) if form.offset else total
    return emit_requantization(emit, centred, form.requantization, use.output.dtype)


def _delegated(emit: Emitter, op: Mean, use: Use, total: Value) -> Value:
    form = op.delegate(use.call)
    scaled = emit.binary("mul", emit.cast(total, "float32"), form.factor)
    shifted = emit.binary("add", scaled, form.offset)
    to_int = prim.ToInt("even", saturate=True)
    nearest = emit.emit(to_int, (shifted,), TensorType("int32", shifted.type.shape))
    return emit.clamp(nearest, 0, *INTEGER_RANGE[use.output.dtype], use.output.dtype)
