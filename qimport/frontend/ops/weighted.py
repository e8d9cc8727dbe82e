"""What weighted operators ask of integer activations, weights and bias."""

from __future__ import annotations

from collections.abc import Mapping

from qimport.frontend.ops import checks
from qimport.frontend.ops.context import OperatorContext
from qimport.ir.graph import Value
from qimport.ir.types import Quantization, TensorType
from qimport.qnn.quantize import Dequantize
from qimport.qnn.reshape import Reshape

UNPACKED = ("float16", "int8")
"""Element types of constants behind DEQUANTIZE that the delegate unpacks when it loads the file."""

BIAS_TOLERANCE = 0.02
"""The interpreter's limit: how far scale products may be from the bias scale, in steps of the result."""


def read_weighted(
    context: OperatorContext,
    axis: int,
    weight_types: Mapping[str, tuple[str, ...]],
    result_types: Mapping[str, tuple[str, ...]] | None = None,
    *,
    int8_zero_point: bool = False,
    positions: tuple[int, int, int] = (0, 1, 2),
) -> tuple[Value, Value, Value | None]:
    """Return activations, weights and bias with element types and quantization checked.

    ``axis`` is the dimension of the weights that counts output channels. ``int8_zero_point``: the kernels
    subtract the zero point of int8 weights with a single scale; others take it to be 0. ``positions`` are
    those of the three among the operands.
    """
    x, weights = (context.input(position) for position in positions[:2])
    bias, out = context.optional(positions[2]), context.out
    dtype = x.type.dtype
    checks.one_of(context, x, tuple(weight_types))
    checks.one_of(context, out, (result_types or {}).get(dtype, (dtype,)))
    checks.one_of(context, weights, weight_types[dtype])
    for value in (x, out):
        checks.per_tensor(context, value)
        if dtype == "int16":
            _check_zero_points(context, value, "int16 values")
    if weights.type.dtype in ("int2", "int4") and not weights.is_constant:
        context.unsupported(f"the {weights.type.dtype} weights are no constant", weights)
    _check_weight_scales(context, weights, axis)
    zero_point_counts = weights.type.dtype == "uint8" or (
        int8_zero_point and weights.type.dtype == "int8" and len(weights.type.quant.scales) == 1
    )
    if not zero_point_counts:
        _check_zero_points(context, weights, "weights")
    if bias is not None:
        checks.one_of(context, bias, ("int32", "int64") if dtype == "int16" else ("int32",))
    return x, _with_stated_axis(context, weights), bias


def _check_weight_scales(context: OperatorContext, weights: Value, axis: int) -> None:
    found = checks.quantization(context, weights)
    count = len(found.scales)
    if count == 1:
        return
    if weights.type.dtype == "uint8":
        context.unsupported(f"the {weights.type.dtype} weights have {count} scales; expected 1", weights)
    outputs = weights.type.shape[axis] if axis < len(weights.type.shape) else 0
    if found.axis != axis and count != outputs:
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
    vector = bias_vector(context, bias, outputs)
    if bias is None:
        return None
    _check_zero_points(context, bias, "bias values")
    if compare_bias_scale:
        found = bias.type.quantization
        scale = found.scale if found else 0.0
        product = x.type.quant.scale * weights.type.quant.scale
        sentence = f"the bias has scale {scale:.9g}; expected {product:.9g}, input scale times weight scale"
        context.require(abs(product - scale) / step <= BIAS_TOLERANCE, sentence, bias)
    return vector


def bias_vector(context: OperatorContext, bias: Value | None, outputs: int) -> Value | None:
    """Return the bias with one dimension."""
    if bias is None:
        return None
    if bias.type.size != outputs:
        context.misfit(f"the bias {bias.name!r} has {bias.type.size} elements; expected {outputs}", bias)
    if len(bias.type.shape) == 1:
        return bias
    return context.step(Reshape(), (bias,), bias.type.with_shape((outputs,)), bias.name)


def is_constant(context: OperatorContext, weights: Value, bias: Value | None) -> bool:
    """Whether the delegate knows weights and bias when it loads the file.

    They are stored, or float16 or int8 constants that a DEQUANTIZE unpacks; a float16 bias is only taken
    beside float16 weights.
    """
    stored = [_stored_type(context, value) for value in (weights, bias) if value is not None]
    return None not in stored and (stored[0] == "float16" or "float16" not in stored)


def _stored_type(context: OperatorContext, value: Value) -> str | None:
    """The element type in the file of a constant, or of one that the delegate unpacks to ``value``."""
    if value.is_constant:
        return value.type.dtype
    producer = next((node for node in context.builder.nodes if value in node.outputs), None)
    if producer is None or not (isinstance(producer.op, Dequantize) and producer.op.stored):
        return None
    packed = producer.call().input(0).dtype
    return packed if packed in UNPACKED else None


def check_stated_bias(context: OperatorContext, x: Value, bias: Value | None) -> None:
    """Refuse an int16 operator whose bias differs from the type the options state (int64 if they state none).

    The kernels of the interpreter read the bias as the stated type, whatever it is.
    """
    if x.type.dtype != "int16" or bias is None:
        return
    stated = stated_bias(context)
    found = bias.type.dtype
    sentence = (
        f"the bias has element type {found}, but quantized_bias_type makes the interpreter read {stated};"
        f" expected a bias of {stated}, or the option to say so"
    )
    context.require(found == stated, sentence, bias)


def stated_bias(context: OperatorContext) -> str:
    """The element type that ``quantized_bias_type`` gives a bias beside int16 activations."""
    return "int32" if context.option("quantized_bias_type") == "int32" else "int64"
