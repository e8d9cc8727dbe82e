"""What CONV_2D, DEPTHWISE_CONV_2D and FULLY_CONNECTED ask of activations, weights and bias."""

from __future__ import annotations

from qimport.frontend.ops import checks
from qimport.frontend.ops.context import OperatorContext
from qimport.ir.graph import Value
from qimport.ir.types import Quantization, TensorType
from qimport.qnn.reshape import Reshape

BIAS_TOLERANCE = 0.02
"""The interpreter's limit: how far scale products may be from the bias scale, in steps of the result."""


def read_weighted(
    context: OperatorContext, axis: int, *, int8_zero_point: bool = False
) -> tuple[Value, Value, Value | None]:
    """Return activations, weights and bias with element types and quantization checked.

    ``axis`` is the dimension of the weights that counts output channels. ``int8_zero_point``: the kernels
    subtract the zero point of int8 weights with a single scale; others take it to be 0.
    """
    x, weights, bias, out = context.input(0), context.input(1), context.optional(2), context.out
    if x.type.dtype == "float32" and weights.type.dtype in checks.EIGHT_BIT:
        found = f"float32 activations meet {weights.type.dtype} weights (a hybrid operator)"
        context.unsupported(f"{found}; expected int8 or uint8 activations", x)
    checks.eight_bit(context, x, out)
    checks.same_type(context, x, weights)
    _check_weight_scales(context, weights, axis)
    if weights.type.dtype == "int8" and not (int8_zero_point and len(weights.type.quant.scales) == 1):
        _check_zero_points(context, weights, "weights")
    if bias is not None and bias.type.dtype != "int32":
        context.unsupported(f"the bias has element type {bias.type.dtype}; expected int32", bias)
    return x, _with_stated_axis(context, weights), bias


def _check_weight_scales(context: OperatorContext, weights: Value, axis: int) -> None:
    found = checks.quantization(context, weights)
    count = len(found.scales)
    if count == 1:
        return
    if weights.type.dtype != "int8":
        context.unsupported(f"the {weights.type.dtype} weights have {count} scales; expected 1", weights)
    if found.axis != axis:
        context.unsupported(
            f"the scales run along dimension {found.axis}; expected dimension {axis}", weights
        )


def _check_zero_points(context: OperatorContext, value: Value, what: str) -> None:
    found = value.type.quantization
    nonzero = next((zero for zero in found.zero_points if zero), 0) if found else 0
    context.require(nonzero == 0, f"the {what} have zero point {nonzero}; expected 0", value)


def _with_stated_axis(context: OperatorContext, weights: Value) -> Value:
    """Return uint8 weights of one scale with the dimension stated beside it: it decides about delegation."""
    axis, found = context.stated_axis(1), weights.type.quant
    if not axis or len(found.scales) > 1 or weights.type.dtype != "uint8" or not weights.is_constant:
        return weights
    stated = Quantization(found.scales, found.zero_points, axis)
    return Value(TensorType(weights.type.dtype, weights.type.shape, stated), weights.name, weights.data)


def check_weighted(
    context: OperatorContext,
    x: Value,
    weights: Value,
    bias: Value | None,
    outputs: int,
    *,
    compare_bias_scale: bool,
) -> Value | None:
    """Check bias and effective scales; return the bias as a vector.

    ``compare_bias_scale``: whether the interpreter holds the bias scale against the product of the input's
    and the weights' scale; a bias without scale counts as scale 0 there.
    """
    step = context.out.type.quant.scale
    largest = x.type.quant.scale * max(weights.type.quant.scales) / step
    checks.scale_factor(context, largest, "input scale * weight scale / output scale")
    if bias is None:
        return None
    if bias.type.size != outputs:
        context.misfit(f"the bias {bias.name!r} has {bias.type.size} elements; expected {outputs}", bias)
    _check_zero_points(context, bias, "bias values")
    if compare_bias_scale:
        found = bias.type.quantization
        scale = found.scale if found else 0.0
        product = x.type.quant.scale * weights.type.quant.scale
        sentence = f"the bias has scale {scale:.9g}; expected {product:.9g}, input scale times weight scale"
        context.require(abs(product - scale) / step <= BIAS_TOLERANCE, sentence, bias)
    if len(bias.type.shape) == 1:
        return bias
    return context.step(Reshape(), (bias,), bias.type.with_shape((outputs,)), bias.name)


def is_constant(weights: Value, bias: Value | None) -> bool:
    """Return whether weights and bias, if there is one, are known at import."""
    return weights.is_constant and (bias is None or bias.is_constant)
