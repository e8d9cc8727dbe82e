"""DEPTHWISE_CONV_2D."""

from __future__ import annotations

from qimport.frontend.ops import checks
from qimport.frontend.ops.context import OperatorContext, importer
from qimport.frontend.ops.float_weighted import float_depthwise_conv2d, is_float
from qimport.frontend.ops.weighted import check_weighted, is_constant, read_weighted
from qimport.frontend.ops.window import read_window
from qimport.qnn.depthwise_conv2d import DepthwiseConv2d


@importer("DEPTHWISE_CONV_2D", versions=range(1, 8))
def depthwise_conv2d(context: OperatorContext) -> None:
    """Derive the depth multiplier from the weights; the interpreter's kernels ignore the option."""
    context.operands(2, 3)
    if is_float(context):
        float_depthwise_conv2d(context)
        return
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
    delegable = is_constant(weights, bias) and context.option("depth_multiplier") * channels == outputs
    bias = check_weighted(context, x, weights, bias, outputs, compare_bias_scale=x.type.dtype == "uint8")
    window = read_window(
        context,
        x,
        (height, width),
        (context.option("dilation_h_factor"), context.option("dilation_w_factor")),
    )
    op = DepthwiseConv2d(
        stride=window.stride,
        dilation=window.dilation,
        padding=window.padding,
        activation=checks.activation(context),
        constant_weights=delegable,
    )
    context.emit(op, (x, weights, bias), (x.type.shape[0], *window.extent, outputs))
