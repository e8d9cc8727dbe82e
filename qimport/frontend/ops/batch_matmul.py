"""BATCH_MATMUL."""

from __future__ import annotations

from qimport.frontend.ops import checks
from qimport.frontend.ops.context import OperatorContext, importer
from qimport.frontend.ops.float_batch_matmul import float_batch_matmul
from qimport.frontend.ops.float_weighted import is_float
from qimport.ir.graph import Value
from qimport.qnn.batch_matmul import RIGHT_TYPES, BatchMatmul
from qimport.qnn.batch_matmul_sums import BatchMatmulSums
from qimport.qnn.geometry import MatmulGeometry


@importer("BATCH_MATMUL", versions=range(1, 5))
def batch_matmul(context: OperatorContext) -> None:
    """int8 or int16 matrices in the last two dimensions."""
    context.operands(2)
    if is_float(context):
        float_batch_matmul(context)
        return
    a, b, out = context.input(0), context.input(1), context.out
    if (a.type.dtype, out.type.dtype) == ("int8", "int32"):
        _sums(context)
        return
    dtype = a.type.dtype
    checks.one_of(context, a, tuple(RIGHT_TYPES))
    checks.one_of(context, b, RIGHT_TYPES[dtype])
    checks.same_type(context, a, out)
    for value in (a, b, out):
        several = value is b and b.type.dtype == "int8" and len(checks.quantization(context, b).scales) > 1
        if not several:
            checks.per_tensor(context, value)
        zero = value.type.quant.zero_point
        centred = dtype == "int8" and not several
        context.require(centred or zero == 0, f"the zero point is {zero}; expected 0", value)
        _check_rank(context, value)
    if context.reasons:
        return
    op = BatchMatmul(context.option("adj_x"), context.option("adj_y"))
    checks.scale_factor(
        context,
        a.type.quant.scale * b.type.quant.scale / out.type.quant.scale,
        "the factor between the scales",
    )
    context.emit(op, (a, b), _shape(context, op))


def _sums(context: OperatorContext) -> None:
    """The products of codes themselves, as int32."""
    a, b = context.input(0), context.input(1)
    checks.same_type(context, a, b)
    for value in (a, b):
        _check_rank(context, value)
    if not context.reasons:
        op = BatchMatmulSums(context.option("adj_x"), context.option("adj_y"))
        context.emit(op, (a, b), _shape(context, op))


def _shape(context: OperatorContext, op: MatmulGeometry) -> tuple[int, ...]:
    a, b = context.input(0), context.input(1)
    shape = op.result_shape(a.type.shape, b.type.shape)
    if shape is None:
        context.misfit(f"tensors of shapes {a.type.shape} and {b.type.shape} do not make a matrix product", b)
    return shape


def _check_rank(context: OperatorContext, value: Value) -> None:
    count = len(value.type.shape)
    context.require(2 <= count <= 5, f"there are {count} dimensions; expected 2 to 5", value)
