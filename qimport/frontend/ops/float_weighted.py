"""CONV_2D, DEPTHWISE_CONV_2D and FULLY_CONNECTED of float32 activations, with float or integer weights."""

from __future__ import annotations

from qimport.frontend.model import Blocks
from qimport.frontend.ops import checks
from qimport.frontend.ops.blockwise import block_scales, blocks_of
from qimport.frontend.ops.context import OperatorContext
from qimport.frontend.ops.hybrid import hybrid_weights, is_hybrid
from qimport.frontend.ops.weighted import is_constant
from qimport.frontend.ops.window import read_window
from qimport.ir.graph import Value
from qimport.qnn.blockwise_dense import BlockwiseDense
from qimport.qnn.float_conv2d import FloatConv2d
from qimport.qnn.float_dense import FloatDense
from qimport.qnn.float_depthwise_conv2d import FloatDepthwiseConv2d
from qimport.qnn.hybrid_conv2d import HybridConv2d
from qimport.qnn.hybrid_dense import HybridDense
from qimport.qnn.hybrid_depthwise_conv2d import HybridDepthwiseConv2d
from qimport.qnn.reshape import Reshape


def is_float(context: OperatorContext) -> bool:
    """Whether the activations are float32, whatever the weights are."""
    return context.input(0).type.dtype == "float32"


def float_conv2d(context: OperatorContext) -> None:
    """NHWC times OHWI; fewer input channels in the weights than in the image mean groups."""
    x, weights, bias = _read(context, 0)
    if bias is None:
        context.unsupported("there is no bias; expected a float32 tensor, as in the interpreter", weights)
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
    # The delegate takes constants only, and a bias only as a vector.
    delegable = is_constant(weights, bias) and len(bias.type.shape) == 1
    delegable = delegable and context.input(1).type.dtype != "uint8"
    bias = bias_vector(context, bias, outputs)
    window = read_window(context, x, (height, width), _dilation(context))
    op = (HybridConv2d if is_hybrid(context) else FloatConv2d)(
        stride=window.stride,
        dilation=window.dilation,
        padding=window.padding,
        groups=channels // depth,
        activation=checks.activation(context),
        constant_weights=delegable,
    )
    context.emit(op, (x, weights, bias), (x.type.shape[0], *window.extent, outputs))


def float_depthwise_conv2d(context: OperatorContext) -> None:
    """Derive the depth multiplier from the weights; the interpreter's kernels ignore the option."""
    x, weights, bias = _read(context, 3, ("int8",))
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
    delegable = bias is not None and is_constant(weights, bias)
    delegable = delegable and context.option("depth_multiplier") * channels == outputs
    bias = bias_vector(context, bias, outputs)
    window = read_window(context, x, (height, width), _dilation(context))
    activation = checks.activation(context)
    if is_hybrid(context):
        count = len(weights.type.quant.scales)
        context.require(count == outputs, f"the weights have {count} scales; expected {outputs}", weights)
        hybrid = HybridDepthwiseConv2d(window.stride, window.dilation, window.padding, activation)
        context.emit(hybrid, (x, weights, bias), (x.type.shape[0], *window.extent, outputs))
        return
    op = FloatDepthwiseConv2d(window.stride, window.dilation, window.padding, activation, delegable)
    context.emit(op, (x, weights, bias), (x.type.shape[0], *window.extent, outputs))


def float_fully_connected(context: OperatorContext) -> None:
    """Rows of K elements, whatever the rank, times the weights [N, K]; ``keep_num_dims`` keeps the rank."""
    blocks = blocks_of(context, 1)
    if blocks is not None:
        _blockwise_fully_connected(context, blocks)
        return
    x, weights, bias = _read(context, 0)
    shape = dense_shape(context, x, weights)
    bias = bias_vector(context, bias, weights.type.shape[0])
    known, activation = is_constant(weights, bias), checks.activation(context)
    if is_hybrid(context):
        known = known and context.input(1).type.dtype != "uint8"
        asymmetric = bool(context.option("asymmetric_quantize_inputs"))
        context.emit(HybridDense(activation, asymmetric, known), (x, weights, bias), shape)
        return
    context.emit(FloatDense(activation, known), (x, weights, bias), shape)


def _blockwise_fully_connected(context: OperatorContext, blocks: Blocks) -> None:
    """Weights with a scale per block of a row."""
    x, weights, bias = context.input(0), context.input(1), context.optional(2)
    checks.one_of(context, weights, ("int4",))
    for value in (bias, context.out):
        if value is not None:
            checks.one_of(context, value, ("float32",))
    shape = dense_shape(context, x, weights)
    scales = block_scales(context, weights, blocks)
    bias = bias_vector(context, bias, weights.type.shape[0])
    op = BlockwiseDense(
        block=blocks.size,
        activation=checks.activation(context),
        asymmetric=bool(context.option("asymmetric_quantize_inputs")),
        constant_bias=is_constant(weights, bias),
    )
    context.emit(op, (x, weights, bias, scales), shape)


def dense_shape(context: OperatorContext, x: Value, weights: Value) -> tuple[int, ...]:
    """Check the shapes of a FULLY_CONNECTED and return its result's."""
    layout = context.option("weights_format")
    context.require(layout == "DEFAULT", f"the weights have format {layout}; expected DEFAULT", weights)
    checks.rank(context, weights, 2)
    outputs, depth = weights.type.shape
    if depth < 1 or x.type.size % depth:
        context.misfit(f"tensor {x.name!r} of shape {x.type.shape} has no rows of {depth} elements", x)
    if not context.option("keep_num_dims"):
        return (x.type.size // depth, outputs)
    if not x.type.shape or x.type.shape[-1] != depth:
        context.misfit(f"tensor {x.name!r} has shape {x.type.shape}; expected {depth} elements behind", x)
    return (*x.type.shape[:-1], outputs)


def _read(
    context: OperatorContext, axis: int, integers: tuple[str, ...] = ("int8", "uint8", "int4")
) -> tuple[Value, Value, Value | None]:
    """Activations, weights and bias; all floats like the result, but for the weights of hybrid operators."""
    x, weights, bias = context.input(0), context.input(1), context.optional(2)
    for value in (bias, context.out):
        if value is not None and value.type.dtype != "float32":
            found = f"the element type is {value.type.dtype} beside float32 activations"
            context.unsupported(f"{found}; expected float32", value)
    if weights.type.dtype != "float32":
        weights = hybrid_weights(context, axis, integers)
    return x, weights, bias


def read_floats(
    context: OperatorContext, positions: tuple[int, int, int]
) -> tuple[Value, Value, Value | None]:
    """Activations, weights and bias at these positions, all float32 like the result."""
    first, second, third = positions
    x, weights, bias = context.input(first), context.input(second), context.optional(third)
    for value in (x, weights, bias, context.out):
        if value is not None:
            checks.one_of(context, value, ("float32",))
    return x, weights, bias


def bias_vector(context: OperatorContext, bias: Value | None, outputs: int) -> Value | None:
    """The bias with one dimension."""
    if bias is None:
        return None
    if bias.type.size != outputs:
        context.misfit(f"the bias {bias.name!r} has {bias.type.size} elements; expected {outputs}", bias)
    if len(bias.type.shape) == 1:
        return bias
    return context.step(Reshape(), (bias,), bias.type.with_shape((outputs,)), bias.name)


def _dilation(context: OperatorContext) -> tuple[int, int]:
    return context.option("dilation_h_factor"), context.option("dilation_w_factor")
