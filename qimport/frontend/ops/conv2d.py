"""CONV_2D."""

from __future__ import annotations

from qimport.frontend.ops import checks
from qimport.frontend.ops.context import OperatorContext, importer
from qimport.frontend.ops.float_weighted import INTEGER_WEIGHTS, is_float, is_hybrid, read_floats
from qimport.frontend.ops.weighted import (
    bias_vector,
    check_stated_bias,
    check_weighted,
    is_constant,
    read_weighted,
)
from qimport.frontend.ops.window import read_window
from qimport.qnn.conv2d import Conv2d
from qimport.qnn.float_conv2d import FloatConv2d
from qimport.qnn.hybrid_conv2d import HybridConv2d


@importer("CONV_2D", versions=range(1, 9))
def conv2d(context: OperatorContext) -> None:
    """NHWC times OHWI; fewer input channels in the weights than in the image mean groups."""
    context.operands(2, 3)
    floating = is_float(context)
    if floating:
        x, weights, bias = read_floats(context, integers=INTEGER_WEIGHTS)
    else:
        x, weights, bias = read_weighted(context, 0, Conv2d.WEIGHT_TYPES)
    if bias is None:
        wanted = "a float32" if floating else "an int32"
        context.unsupported(f"there is no bias; expected {wanted} tensor, as in the interpreter", weights)
    checks.rank(context, x, 4)
    checks.rank(context, weights, 4)
    outputs, height, width, depth = weights.type.shape
    channels = x.type.shape[3]
    if depth < 1 or channels % depth or outputs % (channels // depth):
        sentence = (
            f"the weights have shape {weights.type.shape} for {channels} input channels; expected a depth"
            " that divides them into groups, and a multiple of the groups in front"
        )
        context.misfit(sentence, weights)
    check_stated_bias(context, x, bias)
    # The delegate takes constants only, a bias only as a vector, and no uint8 weights beside floats.
    delegable = is_constant(context, weights, bias) and len(bias.type.shape) == 1
    if floating:
        delegable = delegable and context.input(1).type.dtype != "uint8"
        bias = bias_vector(context, bias, outputs)
    else:
        bias = check_weighted(context, x, weights, bias, outputs, compare_bias_scale=x.type.dtype == "uint8")
    window = read_window(context, x, (height, width), dilated=True)
    kind = Conv2d if not floating else HybridConv2d if is_hybrid(context) else FloatConv2d
    op = kind(
        stride=window.stride,
        dilation=window.dilation,
        padding=window.padding,
        groups=channels // depth,
        activation=checks.activation(context),
        constant_weights=delegable,
    )
    context.emit(op, (x, weights, bias), (x.type.shape[0], *window.extent, outputs))
