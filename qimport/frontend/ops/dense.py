"""FULLY_CONNECTED."""

from __future__ import annotations

from qimport.frontend.ops import checks
from qimport.frontend.ops.context import OperatorContext, importer
from qimport.frontend.ops.float_weighted import float_fully_connected, is_float
from qimport.frontend.ops.weighted import check_weighted, is_constant, read_weighted
from qimport.ir.graph import Value
from qimport.qnn.dense import Dense


@importer("FULLY_CONNECTED", versions=range(1, 15))
def fully_connected(context: OperatorContext) -> None:
    """Rows of K elements, whatever the rank, times the weights [N, K]; ``keep_num_dims`` keeps the rank."""
    context.operands(2, 3)
    if is_float(context):
        float_fully_connected(context)
        return
    x, weights, bias = read_weighted(context, 0, Dense.WEIGHT_TYPES, Dense.RESULT_TYPES, int8_zero_point=True)
    layout = context.option("weights_format")
    context.require(layout == "DEFAULT", f"the weights have format {layout}; expected DEFAULT", weights)
    checks.rank(context, weights, 2)
    outputs, depth = weights.type.shape
    if depth < 1 or x.type.size % depth:
        context.misfit(f"tensor {x.name!r} of shape {x.type.shape} has no rows of {depth} elements", x)
    shape: tuple[int, ...] = (x.type.size // depth, outputs)
    if context.option("keep_num_dims"):
        if not x.type.shape or x.type.shape[-1] != depth:
            context.misfit(f"tensor {x.name!r} has shape {x.type.shape}; expected {depth} elements behind", x)
        shape = (*x.type.shape[:-1], outputs)
    one_scale = len(weights.type.quant.scales) == 1
    bias = check_weighted(context, x, weights, bias, outputs, compare_bias_scale=one_scale)
    read_as_int64 = _check_bias_type(context, x, bias)
    op = Dense(
        activation=checks.activation(context),
        constant_weights=is_constant(weights, bias),
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
