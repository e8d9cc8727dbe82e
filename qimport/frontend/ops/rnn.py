"""RNN, UNIDIRECTIONAL_SEQUENCE_RNN and BIDIRECTIONAL_SEQUENCE_RNN."""

from __future__ import annotations

from collections.abc import Sequence

from qimport.frontend.ops.context import OperatorContext, importer
from qimport.ir.graph import Value
from qimport.qnn.concat import Concat
from qimport.qnn.rnn import Rnn
from qimport.qnn.svdf import FLOAT_BOUNDS

FORWARD, BACKWARD = (0, 1, 2, 3, 4), (0, 5, 6, 7, 8)
"""Positions of x, both weights, bias and state of the two directions."""

AUXILIARY = range(9, 12)
"""Positions of a second input and its weights."""


@importer("RNN", versions=range(1, 4))
def rnn(context: OperatorContext) -> None:
    """One step."""
    context.operands(5)
    _check_rank(context, 2)
    _emit_forward(context, time_major=True)


@importer("UNIDIRECTIONAL_SEQUENCE_RNN", versions=range(1, 4))
def unidirectional_sequence_rnn(context: OperatorContext) -> None:
    """Over the time dimension of an operand of rank 3."""
    context.operands(5)
    _check_rank(context, 3)
    _emit_forward(context, time_major=context.option("time_major"))


@importer("BIDIRECTIONAL_SEQUENCE_RNN", versions=range(1, 4))
def bidirectional_sequence_rnn(context: OperatorContext) -> None:
    """Two of these, the second one from the last step to the first.

    With 8-bit weights and time in front, the kernel goes over the whole sequence as often as it has steps.
    """
    merged, time_major = context.option("merge_outputs"), context.option("time_major")
    context.operands(12, results=1 if merged else 2)
    _check_rank(context, 3)
    refuse_auxiliary(context, AUXILIARY)
    repeated = time_major and context.input(FORWARD[1]).type.dtype != "float32"
    passes = context.input(0).type.shape[0] if repeated else 1
    results = [
        _direction(context, positions, time_major=time_major, backward=positions is BACKWARD, passes=passes)
        for positions in (FORWARD, BACKWARD)
    ]
    context.values += [merge(context, results)] if merged else results


def refuse_auxiliary(context: OperatorContext, positions: Sequence[int]) -> None:
    """A second input that is multiplied with weights of its own is not known here."""
    if any(context.optional(position) is not None for position in positions):
        context.unsupported("it has an auxiliary input; expected none")


def merge(context: OperatorContext, results: Sequence[Value]) -> Value:
    """The results of both directions side by side."""
    first, second = results
    axis = len(first.type.shape) - 1
    shape = (*first.type.shape[:-1], first.type.shape[-1] + second.type.shape[-1])
    type_ = context.out.type.with_shape(shape)
    return context.step(Concat(axis), results, type_, context.out.name)


def _emit_forward(context: OperatorContext, *, time_major: bool) -> None:
    context.values.append(_direction(context, FORWARD, time_major=time_major, backward=False))


def _direction(
    context: OperatorContext,
    positions: Sequence[int],
    *,
    time_major: bool,
    backward: bool,
    passes: int = 1,
) -> Value:
    """One layer over the operands at ``positions``; gives y of the last pass."""
    x, weights, recurrent, bias = (context.input(position) for position in positions[:-1])
    state = context.state(positions[-1])
    if weights.type.dtype != "float32":
        for position in positions[1:3]:
            context.constant(position, f"operand {position}")
    activation, dtype = context.option("fused_activation_function"), weights.type.dtype
    context.require(
        activation in FLOAT_BOUNDS,
        f"the activation is {activation}; expected one of {', '.join(FLOAT_BOUNDS)}",
    )
    fits = x.type.dtype == "float32" and dtype in ("float32", "int8", "uint8")
    sentence = f"input and weights are {x.type.dtype} and {dtype}; expected float32 and any of float32, int8"
    context.require(fits, f"{sentence} and uint8", x)
    if len(weights.type.shape) != 2:
        context.malformed(f"the weights have shape {weights.type.shape}; expected a matrix")
    op = Rnn(activation, time_major, context.option("asymmetric_quantize_inputs"), backward)
    y = context.out.type.with_shape((*x.type.shape[:-1], weights.type.shape[0]))
    names = (context.out.name, f"{state.name}.next")
    for _ in range(passes):
        result, state = context.steps(op, (x, weights, recurrent, bias, state), (y, state.type), names)
    context.set_state(positions[-1], state)
    return result


def _check_rank(context: OperatorContext, rank: int) -> None:
    x = context.input(0)
    if len(x.type.shape) != rank:
        context.misfit(f"tensor {x.name!r} has shape {x.type.shape}; expected rank {rank}", x)
