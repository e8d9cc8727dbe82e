"""MEAN: a sum over dimensions, then fixed point, a division or, as the delegate does it, float32."""

from __future__ import annotations

from qimport.fixedpoint import f32
from qimport.ir.graph import Value
from qimport.lower.reduction import emit_delegate_real_sum, emit_delegate_sum, emit_sum_in_order, reduce
from qimport.lower.requantization import emit_requantization
from qimport.lower.rule import Emitter, Use, rule
from qimport.qnn.mean import Mean


@rule(Mean)
def lower_mean(emit: Emitter, op: Mean, use: Use) -> Value:
    """Reduce with all dimensions kept, requantize or divide, and only then drop the reduced ones."""
    dtype = use.output.dtype
    if dtype == "float32":
        mean = _real(emit, op, use)
    elif dtype in ("int32", "int64"):
        total = reduce(emit, use.operand(0), "sum", op.axes, dtype="int64")
        mean = emit.cast(emit.binary("div", total, op.count(use.call)), dtype)
    elif op.kernel_family(use.call) == "xnnpack":
        total = reduce(emit, use.operand(0), "sum", op.axes)
        mean = emit_delegate_sum(emit, total, op.delegate(use.call), dtype)
    else:
        mean = _classic(emit, op, use)
    return emit.reshape(mean, use.output.shape)


def _real(emit: Emitter, op: Mean, use: Use) -> Value:
    n = op.count(use.call)
    if op.kernel_family(use.call) == "xnnpack":
        return emit_delegate_real_sum(emit, use.operand(0), op.axes, f32(1 / n))
    return emit.binary("div", emit_sum_in_order(emit, use.operand(0), op.axes, op.order(use.call)), n)


def _classic(emit: Emitter, op: Mean, use: Use) -> Value:
    form = op.classic(use.call)
    total = reduce(emit, use.operand(0), "sum", op.axes)
    centred = emit.binary("sub", total, form.offset) if form.offset else total
    return emit_requantization(emit, centred, form.requantization, use.output.dtype)
