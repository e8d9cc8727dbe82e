"""SVDF."""

from __future__ import annotations

from qimport.frontend.ops.context import OperatorContext, importer
from qimport.qnn.svdf import BIAS, FEATURE, INPUT, STATE, TIME, Svdf


@importer("SVDF", versions=range(1, 5))
def svdf(context: OperatorContext) -> None:
    """With its state as a variable tensor."""
    context.operands(5)
    x, feature, time = (context.input(position) for position in (INPUT, FEATURE, TIME))
    bias, state = context.optional(BIAS), context.state(STATE)
    for position, what in ((FEATURE, "weights over features"), (TIME, "weights over time")):
        context.constant(position, what)
    if bias is not None:
        context.constant(BIAS, "bias")
    for value in (x, feature, time):
        if len(value.type.shape) != 2:
            context.misfit(f"tensor {value.name!r} has shape {value.type.shape}; expected rank 2", value)
    context.require(x.type.dtype == "int8", f"the element type is {x.type.dtype}; expected int8", x)
    for value, what in ((time, "weights over time"), (state, "state")):
        context.require(
            value.type.dtype == "int16",
            f"the {what} has element type {value.type.dtype}, but the kernel reads int16, beyond its end",
            value,
        )
    activation = context.option("fused_activation_function")
    context.require(activation == "RELU", f"the activation is {activation}; the kernel takes RELU only")
    rank = context.option("rank")
    if rank < 1 or feature.type.shape[0] % rank:
        context.malformed(f"{feature.type.shape[0]} filters are not divisible by the rank {rank}")
    y = context.out.type.with_shape((x.type.shape[0], feature.type.shape[0] // rank))
    op = Svdf(rank=rank, activation=activation)
    names = (context.out.name, f"{state.name}.next")
    result, following = context.steps(op, (x, feature, time, bias, state), (y, state.type), names)
    context.values.append(result)
    context.set_state(STATE, following)
