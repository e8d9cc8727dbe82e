"""DEPTHWISE_CONV_2D."""

from __future__ import annotations

from qimport.frontend.ops import checks
from qimport.frontend.ops.context import OperatorContext, importer
from qimport.frontend.ops.float_weighted import is_float, is_hybrid, read_floats
from qimport.frontend.ops.weighted import bias_vector, check_weighted, is_constant, read_weighted
from qimport.frontend.ops.window import read_window
from qimport.qnn.depthwise_conv2d import DepthwiseConv2d
from qimport.qnn.float_depthwise_conv2d import FloatDepthwiseConv2d
from qimport.qnn.hybrid_depthwise_conv2d import HybridDepthwiseConv2d


@importer("DEPTHWISE_CONV_2D", versions=range(1, 8))
def depthwise_conv2d(context: OperatorContext) -> None:
    """Derive the depth multiplier from the weights; the interpreter's kernels ignore the option."""
    context.operands(2, 3)
    floating = is_float(context)
    if floating:
        x, weights, bias = read_floats(context, axis=3, integers=("int8",))
    else:
        x, weights, bias = read_weighted(context, 3, DepthwiseConv2d.WEIGHT_TYPES)
    if x.type.dtype == "int16" and bias is not None:
        checks.one_of(context, bias, ("int64",))
    checks.rank(context, x, 4)
    checks.rank(context, weights, 4)
    front, height, width, outputs = weights.type.shape
    channels = x.type.shape[3]
    if front != 1 or outputs % channels:
        sentence = (
            f"the weights have shape {weights.type.shape} for {channels} input channels;"
            " expected 1 in front and a multiple of the channels behind"
        )
        context.misfit(sentence, weights)
    if bias is not None and len(bias.type.shape) != 1:
        context.unsupported(f"the bias has shape {bias.type.shape}; expected a vector", bias)
    # The delegate takes constants only, and believes the option that states the depth multiplier.
    delegable = is_constant(context, weights, bias)
    delegable = delegable and context.option("depth_multiplier") * channels == outputs
    if floating:
        bias = bias_vector(context, bias, outputs)
    else:
        bias = check_weighted(context, x, weights, bias, outputs, compare_bias_scale=x.type.dtype == "uint8")
    window = read_window(context, x, (height, width), dilated=True)
    sliding = (window.stride, window.dilation, window.padding, checks.activation(context))
    op: DepthwiseConv2d | FloatDepthwiseConv2d | HybridDepthwiseConv2d
    if not floating:
        op = DepthwiseConv2d(*sliding, delegable)
    elif is_hybrid(context):
        count = len(weights.type.quant.scales)
        context.require(count == outputs, f"the weights have {count} scales; expected {outputs}", weights)
        op = HybridDepthwiseConv2d(*sliding)
    else:
        op = FloatDepthwiseConv2d(*sliding, delegable and bias is not None)
    context.emit(op, (x, weights, bias), (x.type.shape[0], *window.extent, outputs))
