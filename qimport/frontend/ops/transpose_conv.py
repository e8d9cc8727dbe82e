"""TRANSPOSE_CONV."""

from __future__ import annotations

from qimport.frontend.ops import checks
from qimport.frontend.ops.context import OperatorContext, importer
from qimport.frontend.ops.float_weighted import is_hybrid, read_floats
from qimport.frontend.ops.weighted import (
    bias_vector,
    check_stated_bias,
    check_weighted,
    is_constant,
    read_weighted,
)
from qimport.qnn.float_transpose_conv import FloatTransposeConv
from qimport.qnn.hybrid_transpose_conv import HybridTransposeConv
from qimport.qnn.transpose_conv import TransposeConv


@importer("TRANSPOSE_CONV", versions=range(1, 6))
def transpose_conv(context: OperatorContext) -> None:
    """(shape of the result, weights OHWI, x NHWC, bias): the shape decides how far windows reach outside."""
    context.operands(3, 4)
    shape = _shape(context)
    floating = context.input(2).type.dtype == "float32"
    hybrid = floating and is_hybrid(context)
    if floating:
        x, weights, bias = read_floats(context, (2, 1, 3), integers=("int8",))
    else:
        x, weights, bias = read_weighted(context, 0, TransposeConv.WEIGHT_TYPES, positions=(2, 1, 3))
    if hybrid:
        context.constant(1, "weights of integers beside float activations")
    check_stated_bias(context, x, bias)
    checks.rank(context, x, 4)
    checks.rank(context, weights, 4)
    outputs, height, width, depth = weights.type.shape
    batch, rows, columns, channels = x.type.shape
    if depth != channels or len(shape) != 4 or shape[0] != batch or shape[3] != outputs:
        sentence = (
            f"the weights have shape {weights.type.shape} for a result of shape {shape} and {channels} input"
            f" channels; expected {(outputs, height, width, channels)}"
        )
        context.misfit(sentence, weights)
    stride = (context.option("stride_h"), context.option("stride_w"))
    if min(stride) < 1:
        context.malformed(f"the strides are {stride}; expected at least 1")
    padding = context.option("padding")
    # The delegate takes constants only, and no windows that leave gaps between them where it has to pad.
    gaps = padding == "SAME" and (height < stride[0] or width < stride[1])
    delegable = is_constant(context, weights, bias) and not gaps
    offset = (
        _offset(context, padding, shape[1], rows, height, stride[0]),
        _offset(context, padding, shape[2], columns, width, stride[1]),
    )
    if floating:
        bias = bias_vector(context, bias, outputs)
    else:
        bias = check_weighted(context, x, weights, bias, outputs, compare_bias_scale=x.type.dtype == "uint8")
    kind = HybridTransposeConv if hybrid else FloatTransposeConv if floating else TransposeConv
    op = kind(stride, offset, checks.activation(context), delegable)
    context.emit(op, (x, weights, bias), shape)


def _shape(context: OperatorContext) -> tuple[int, ...]:
    """The result's shape; where it is only known at run time, the one the file promises."""
    operand, promised = context.input(0), context.results[0].shape
    if operand.data is None and promised is not None and operand not in context.unknown:
        return promised
    return context.integers(0, "shape of the result")


def _offset(context: OperatorContext, padding: str, extent: int, size: int, window: int, stride: int) -> int:
    """How far the first window reaches over the border; ``size`` input pixels must cover ``extent``."""
    count = -(-extent // stride) if padding == "SAME" else (extent - window) // stride + 1
    if count != size:
        sentence = (
            f"a result of {extent} pixels comes from {count} input pixels with stride {stride} and padding"
            f" {padding}, but there are {size}"
        )
        context.misfit(sentence, context.input(2))
    return max((count - 1) * stride + window - extent, 0) // 2
