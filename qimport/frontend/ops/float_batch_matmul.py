"""BATCH_MATMUL with a float32 left operand."""

from __future__ import annotations

from qimport.frontend.ops import checks
from qimport.frontend.ops.context import OperatorContext
from qimport.frontend.ops.float_weighted import hybrid_weights, is_hybrid
from qimport.ir.graph import Value
from qimport.qnn.float_batch_matmul import FloatBatchMatmul, HybridBatchMatmul


def float_batch_matmul(context: OperatorContext) -> None:
    """Float matrices, or float times int8 matrices, in the last two dimensions."""
    a, b = context.input(0), context.input(1)
    for value in (a, b):
        count = len(value.type.shape)
        if not 2 <= count <= 5:
            context.unsupported(f"there are {count} dimensions; expected 2 to 5", value)
    checks.one_of(context, context.out, ("float32",))
    adjoint = (bool(context.option("adj_x")), bool(context.option("adj_y")))
    op: FloatBatchMatmul | HybridBatchMatmul
    if is_hybrid(context):
        b = hybrid_weights(context, len(b.type.shape) - (2 if adjoint[1] else 1), ("int8",))
        zero = next((zero for zero in b.type.quant.zero_points if zero), 0)
        context.require(zero == 0, f"the zero point is {zero}; expected 0", b)
        asymmetric = bool(context.option("asymmetric_quantize_inputs"))
        op = HybridBatchMatmul(*adjoint, asymmetric, b.is_constant)
    else:
        checks.one_of(context, b, ("float32",))
        op = FloatBatchMatmul(*adjoint)
    _emit(context, op, a, b)


def _emit(context: OperatorContext, op: FloatBatchMatmul | HybridBatchMatmul, a: Value, b: Value) -> None:
    shape = op.result_shape(a.type.shape, b.type.shape)
    if shape is None:
        context.misfit(f"tensors of shapes {a.type.shape} and {b.type.shape} do not make a matrix product", b)
    context.emit(op, (a, b), shape)
