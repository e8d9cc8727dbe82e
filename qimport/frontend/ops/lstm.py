"""LSTM and UNIDIRECTIONAL_SEQUENCE_LSTM."""

from __future__ import annotations

from collections.abc import Sequence

from qimport.frontend.ops.context import OperatorContext, importer
from qimport.frontend.ops.rnn import merge, refuse_auxiliary
from qimport.ir.graph import Value
from qimport.qnn.lstm import CELL_STATE, OPERANDS, OUTPUT_STATE, Lstm
from qimport.qnn.lstm_basic import BIAS, STATE_C, STATE_H, WEIGHTS, BasicLstm
from qimport.qnn.lstm_shape import GATES, gate_operand

WITHOUT_NORM = 20
"""Operands of the older form, which knows no layer normalization."""

FORWARD = (*range(18), 35, 36, -1, -1, -1, -1)
BACKWARD = (0, *range(18, 35), 37, 38, -1, -1, -1, -1)
"""Positions of the two directions' operands in the order of ``qnn.lstm``."""

AUXILIARY = range(39, 48)
"""Positions of a second input and its weights."""

INTERMEDIATES = 5
"""Tensors that only carry quantization in the 8x8_16 arithmetic: the four gates' and that of o * tanh(c)."""


@importer("UNIDIRECTIONAL_SEQUENCE_LSTM", versions=range(1, 5))
def unidirectional_sequence_lstm(context: OperatorContext) -> None:
    """Over the time dimension of an operand of rank 3."""
    x = context.input(0)
    if len(x.type.shape) != 3:
        context.misfit(f"tensor {x.name!r} has shape {x.type.shape}; expected a sequence of rank 3", x)
    if context.option("diagonal_recurrent_tensors"):
        context.unsupported("the recurrent weights are diagonal; expected matrices")
    _import_lstm(context, time_major=context.option("time_major"))


@importer("LSTM", versions=range(1, 5))
def lstm(context: OperatorContext) -> None:
    """One step."""
    if context.option("kernel_type") == "BASIC":
        _import_basic(context)
        return
    x = context.input(0)
    if len(x.type.shape) != 2:
        context.misfit(f"tensor {x.name!r} has shape {x.type.shape}; expected rank 2", x)
    _import_lstm(context, time_major=True)


def _import_basic(context: OperatorContext) -> None:
    """The kernel with all gates in one matrix; its states are variables that are written in place."""
    context.operands(5, results=4)
    states = [context.state(position) for position in (STATE_H, STATE_C)]
    x, weights, bias = (context.input(position) for position in (0, WEIGHTS, BIAS))
    context.require(x.type.dtype == "uint8", f"the element type is {x.type.dtype}; expected uint8", x)
    if len(x.type.shape) != 2 or len(states[0].type.shape) != 2:
        context.misfit(f"tensor {x.name!r} has shape {x.type.shape}; expected rank 2", x)
    (batch, cells), depth = states[0].type.shape, x.type.shape[1] + states[0].type.shape[1]
    shapes = ((batch, cells), (batch, cells), (batch, depth), (batch, 4 * cells))
    declared = [result.value for result in context.results]
    types = [value.type.with_shape(shape) for value, shape in zip(declared, shapes, strict=True)]
    names = [value.name for value in declared] + [f"{state.name}.next" for state in states]
    operands = (x, states[0], weights, bias, states[1])
    results = context.steps(BasicLstm(), operands, [*types, *(state.type for state in states)], names)
    context.values += results[:4]
    context.set_state(STATE_H, results[4])
    context.set_state(STATE_C, results[5])


@importer("BIDIRECTIONAL_SEQUENCE_LSTM", versions=range(1, 4))
def bidirectional_sequence_lstm(context: OperatorContext) -> None:
    """Two of these of floats, the second one from the last step to the first."""
    merged, time_major, x = context.option("merge_outputs"), context.option("time_major"), context.input(0)
    context.operands(48, results=1 if merged else 2)
    if len(x.type.shape) != 3:
        context.misfit(f"tensor {x.name!r} has shape {x.type.shape}; expected a sequence of rank 3", x)
    refuse_auxiliary(context, AUXILIARY)
    beyond = merged and not time_major and x.type.shape[0] > 1
    context.require(not beyond, "results side by side of several batches, not time-major, leave the state")
    context.require(x.type.dtype == "float32", f"the element type is {x.type.dtype}; expected float32", x)
    results = [
        _direction(context, positions, time_major=time_major, backward=positions is BACKWARD)
        for positions in (FORWARD, BACKWARD)
    ]
    context.values += [merge(context, results)] if merged else results


def _import_lstm(context: OperatorContext, *, time_major: bool) -> None:
    context.operands(WITHOUT_NORM, OPERANDS)
    if len(context.inputs) not in (WITHOUT_NORM, OPERANDS):
        context.malformed(f"it has {len(context.inputs)} operands; expected {WITHOUT_NORM} or {OPERANDS}")
    context.values.append(_direction(context, tuple(range(OPERANDS)), time_major=time_major, backward=False))


def _direction(
    context: OperatorContext, positions: Sequence[int], *, time_major: bool, backward: bool
) -> Value:
    """One layer over the operands at ``positions``, in the order of ``qnn.lstm``; gives y."""
    operands = [context.optional(position) if position >= 0 else None for position in positions]
    for gate in GATES[1:]:
        for kind in ("input", "recurrent", "bias"):
            context.input(positions[gate_operand(gate, kind)])
    scales, hidden = _quantization(context, positions)
    op = Lstm(
        activation=context.option("fused_activation_function"),
        cell_clip=context.option("cell_clip"),
        proj_clip=context.option("proj_clip"),
        time_major=time_major,
        gate_scales=scales,
        hidden_scale=hidden[0],
        hidden_zero_point=hidden[1],
        asymmetric=context.option("asymmetric_quantize_inputs"),
        backward=backward,
    )
    recurrent = context.input(positions[gate_operand("output", "recurrent")]).type.shape
    if len(recurrent) != 2:
        context.malformed(f"the recurrent weights have shape {recurrent}; expected a matrix")
    y = context.out.type.with_shape((*context.input(0).type.shape[:-1], recurrent[1]))
    places = [positions[position] for position in (OUTPUT_STATE, CELL_STATE)]
    states = [context.state(position) for position in places]
    _check_batch(context, states[0], recurrent[1], time_major)
    types = (y, *(state.type for state in states))
    names = (context.out.name, *(f"{state.name}.next" for state in states))
    result, *following = context.steps(op, operands, types, names)
    for position, value in zip(places, following, strict=True):
        context.set_state(position, value)
    return result


def _check_batch(context: OperatorContext, state: Value, cells: int, time_major: bool) -> None:
    """Check that the state, whose shape the file fixes, is for as many rows as the input has."""
    x = context.input(0)
    batch = x.type.shape[:-1][-1 if time_major else 0]
    if state.type.size != batch * cells:
        sentence = (
            f"the state {state.name!r} of shape {state.type.shape} does not hold {batch} rows of {cells}"
        )
        context.misfit(sentence, x)


def _quantization(
    context: OperatorContext, positions: Sequence[int]
) -> tuple[tuple[float, ...], tuple[float, int]]:
    """What only the integer arithmetic needs: scales of gates, scale and zero point of o * tanh(c)."""
    x, weights = context.input(0), context.input(positions[gate_operand("output", "input")])
    pair = (x.type.dtype, weights.type.dtype)
    for number, position in enumerate(positions):
        value = context.optional(position) if position >= 0 else None
        given = number in (0, OUTPUT_STATE, CELL_STATE) or value is None or value.type.dtype == "float32"
        if not given:
            context.constant(position, f"operand {position}")
    if pair[0] == "float32" and pair[1] in ("float32", "int8", "uint8"):
        return (), (1.0, 0)
    if pair != ("int8", "int8"):
        sentence = f"input and weights are {' and '.join(pair)}; expected int8 both, or float32 and any of"
        context.unsupported(f"{sentence} float32, int8 and uint8", x)
    norm = context.optional(positions[gate_operand("forget", "norm")])
    return _intermediates(context, normalized=norm is not None)


def _intermediates(
    context: OperatorContext, *, normalized: bool
) -> tuple[tuple[float, ...], tuple[float, int]]:
    """Scales of the gates where layer normalization reads them, scale and zero point of o * tanh(c)."""
    found = context.operator.intermediates
    if len(found) != INTERMEDIATES:
        context.unsupported(f"it has {len(found)} intermediate tensors; expected {INTERMEDIATES}")
    quantizations = [context.tensors[index].quantization for index in found]
    needed = quantizations if normalized else quantizations[-1:]
    if any(quantization is None or not len(quantization.scales) for quantization in needed):
        context.malformed("an intermediate tensor has no scale")
    scales = tuple(0.0 if q is None or not len(q.scales) else float(q.scales[0]) for q in quantizations)
    hidden = quantizations[-1]
    assert hidden is not None
    return scales[:-1] if normalized else (), (scales[-1], int(hidden.zero_points[0]))
