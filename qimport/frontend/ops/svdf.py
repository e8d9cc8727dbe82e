"""SVDF."""

from __future__ import annotations

from qimport.frontend.ops.context import OperatorContext, importer
from qimport.ir.graph import Value
from qimport.qnn.svdf import BIAS, FEATURE, FLOAT_BOUNDS, INPUT, STATE, TIME, Svdf


@importer("SVDF", versions=range(1, 5))
def svdf(context: OperatorContext) -> None:
    """With its state as a variable tensor."""
    context.operands(5)
    x, feature, time = (context.input(position) for position in (INPUT, FEATURE, TIME))
    bias, state = context.optional(BIAS), context.state(STATE)
    if feature.type.dtype != "float32":
        for position, what in ((FEATURE, "weights over features"), (TIME, "weights over time")):
            context.constant(position, what)
    for value in (x, feature, time):
        if len(value.type.shape) != 2:
            context.misfit(f"tensor {value.name!r} has shape {value.type.shape}; expected rank 2", value)
    activation = context.option("fused_activation_function")
    _check_types(context, x, feature, activation)
    rank = context.option("rank")
    if rank < 1 or feature.type.shape[0] % rank:
        context.malformed(f"{feature.type.shape[0]} filters are not divisible by the rank {rank}")
    y = context.out.type.with_shape((x.type.shape[0], feature.type.shape[0] // rank))
    op = Svdf(rank, activation, context.option("asymmetric_quantize_inputs"))
    names = (context.out.name, f"{state.name}.next")
    result, following = context.steps(op, (x, feature, time, bias, state), (y, state.type), names)
    context.values.append(result)
    context.set_state(STATE, following)


def _check_types(context: OperatorContext, x: Value, feature: Value, activation: str) -> None:
    pair = (x.type.dtype, feature.type.dtype)
    if pair[0] == "float32" and pair[1] in ("float32", "int8", "uint8"):
        sentence = f"the activation is {activation}; expected one of {', '.join(FLOAT_BOUNDS)}"
        context.require(activation in FLOAT_BOUNDS, sentence)
        return
    if pair != ("int8", "int8"):
        sentence = f"input and weights are {' and '.join(pair)}; expected int8 both, or float32 and any of"
        context.unsupported(f"{sentence} float32, int8 and uint8", x)
    for position, what in ((TIME, "weights over time"), (STATE, "state")):
        value = context.input(position)
        context.require(
            value.type.dtype == "int16",
            f"the {what} has element type {value.type.dtype}, but the kernel reads int16, beyond its end",
            value,
        )
    context.require(activation == "RELU", f"the activation is {activation}; the kernel takes RELU only")
