"""FULLY_CONNECTED."""

from __future__ import annotations

from qimport.frontend.model import Blocks
from qimport.frontend.ops import checks
from qimport.frontend.ops.blockwise import block_scales, blocks_of
from qimport.frontend.ops.context import OperatorContext, importer
from qimport.frontend.ops.float_weighted import INTEGER_WEIGHTS, is_float, is_hybrid, read_floats
from qimport.frontend.ops.weighted import bias_vector, check_weighted, is_constant, read_weighted
from qimport.ir.graph import Value
from qimport.qnn.blockwise_dense import BlockwiseDense
from qimport.qnn.dense import Dense
from qimport.qnn.float_dense import FloatDense
from qimport.qnn.hybrid_dense import HybridDense


@importer("FULLY_CONNECTED", versions=range(1, 15))
def fully_connected(context: OperatorContext) -> None:
    """Rows of K elements, whatever the rank, times the weights [N, K]; ``keep_num_dims`` keeps the rank."""
    context.operands(2, 3)
    if is_float(context):
        blocks = blocks_of(context, 1)
        if blocks is None:
            _float_fully_connected(context)
        else:
            _blockwise_fully_connected(context, blocks)
        return
    x, weights, bias = read_weighted(context, 0, Dense.WEIGHT_TYPES, Dense.RESULT_TYPES, int8_zero_point=True)
    shape = _result_shape(context, x, weights)
    one_scale = len(weights.type.quant.scales) == 1
    bias = check_weighted(context, x, weights, bias, weights.type.shape[0], compare_bias_scale=one_scale)
    read_as_int64 = _check_bias_type(context, x, bias)
    op = Dense(
        activation=checks.activation(context),
        constant_weights=is_constant(context, weights, bias),
        bias_read_as_int64=read_as_int64,
    )
    context.emit(op, (x, weights, bias), shape)


def _check_bias_type(context: OperatorContext, x: Value, bias: Value | None) -> bool:
    """Check the bias beside int16 against the options; whether reference kernels misread an int32 one."""
    if x.type.dtype != "int16" or bias is None:
        return False
    found, option = bias.type.dtype, context.option("quantized_bias_type")
    contradicts = option in ("int32", "int64") and option != found
    sentence = f"the bias has element type {found}, but quantized_bias_type says {option}; expected the same"
    context.require(not contradicts, sentence, bias)
    return found == "int32" and option != "int32"


def _float_fully_connected(context: OperatorContext) -> None:
    """Float activations, float or integer weights."""
    x, weights, bias = read_floats(context, integers=INTEGER_WEIGHTS)
    shape = _result_shape(context, x, weights)
    bias = bias_vector(context, bias, weights.type.shape[0])
    known, activation = is_constant(context, weights, bias), checks.activation(context)
    op: FloatDense | HybridDense = FloatDense(activation, known)
    if is_hybrid(context):
        known = known and context.input(1).type.dtype != "uint8"
        op = HybridDense(activation, bool(context.option("asymmetric_quantize_inputs")), known)
    context.emit(op, (x, weights, bias), shape)


def _blockwise_fully_connected(context: OperatorContext, blocks: Blocks) -> None:
    """Weights with a scale per block of a row."""
    x, weights, bias = context.input(0), context.input(1), context.optional(2)
    checks.one_of(context, weights, ("int4",))
    for value in (bias, context.out):
        if value is not None:
            checks.one_of(context, value, ("float32",))
    shape = _result_shape(context, x, weights)
    scales = block_scales(context, weights, blocks)
    bias = bias_vector(context, bias, weights.type.shape[0])
    op = BlockwiseDense(
        block=blocks.size,
        activation=checks.activation(context),
        asymmetric=bool(context.option("asymmetric_quantize_inputs")),
        constant_bias=is_constant(context, weights, bias),
    )
    context.emit(op, (x, weights, bias, scales), shape)


def _result_shape(context: OperatorContext, x: Value, weights: Value) -> tuple[int, ...]:
    """Check the shapes of the operands and return the result's."""
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
