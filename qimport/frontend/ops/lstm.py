"""LSTM and UNIDIRECTIONAL_SEQUENCE_LSTM."""

from __future__ import annotations

from qimport.frontend.ops.context import OperatorContext, importer
from qimport.ir.graph import Value
from qimport.qnn.lstm import CELL_STATE, OPERANDS, OUTPUT_STATE, Lstm
from qimport.qnn.lstm_shape import GATES, gate_operand

WITHOUT_NORM = 20
"""Operands of the older form, which knows no layer normalization."""

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
    kernel = context.option("kernel_type")
    if kernel != "FULL":
        context.unsupported(f"the kernel is {kernel}; expected FULL")
    x = context.input(0)
    if len(x.type.shape) != 2:
        context.misfit(f"tensor {x.name!r} has shape {x.type.shape}; expected rank 2", x)
    _import_lstm(context, time_major=True)


def _import_lstm(context: OperatorContext, *, time_major: bool) -> None:
    context.operands(WITHOUT_NORM, OPERANDS)
    if len(context.inputs) not in (WITHOUT_NORM, OPERANDS):
        context.malformed(f"it has {len(context.inputs)} operands; expected {WITHOUT_NORM} or {OPERANDS}")
    operands = _operands(context)
    x = context.input(0)
    scales, hidden = _quantization(context, operands)
    op = Lstm(
        activation=context.option("fused_activation_function"),
        cell_clip=context.option("cell_clip"),
        proj_clip=context.option("proj_clip"),
        time_major=time_major,
        gate_scales=scales,
        hidden_scale=hidden[0],
        hidden_zero_point=hidden[1],
        asymmetric=context.option("asymmetric_quantize_inputs"),
    )
    recurrent = context.input(gate_operand("output", "recurrent")).type.shape
    if len(recurrent) != 2:
        context.malformed(f"the recurrent weights have shape {recurrent}; expected a matrix")
    y = context.out.type.with_shape((*x.type.shape[:-1], recurrent[1]))
    states = [context.state(position) for position in (OUTPUT_STATE, CELL_STATE)]
    types = (y, *(state.type for state in states))
    names = (context.out.name, *(f"{state.name}.next" for state in states))
    result, *following = context.steps(op, operands, types, names)
    context.values.append(result)
    for position, value in zip((OUTPUT_STATE, CELL_STATE), following, strict=True):
        context.set_state(position, value)


def _operands(context: OperatorContext) -> list[Value | None]:
    """All 24 operands, those that only an unused gate would read left out."""
    operands = [context.optional(position) for position in range(OPERANDS)]
    for gate in GATES[1:]:
        for kind in ("input", "recurrent", "bias"):
            context.input(gate_operand(gate, kind))
    return operands


def _quantization(
    context: OperatorContext, operands: list[Value | None]
) -> tuple[tuple[float, ...], tuple[float, int]]:
    """What only the integer arithmetic needs: scales of gates, scale and zero point of o * tanh(c)."""
    x, weights = context.input(0), context.input(gate_operand("output", "input"))
    for position, value in enumerate(operands):
        if value is not None and position not in (0, OUTPUT_STATE, CELL_STATE):
            context.constant(position, f"operand {position}")
    pair = (x.type.dtype, weights.type.dtype)
    if pair[0] == "float32" and pair[1] in ("float32", "int8", "uint8"):
        return (), (1.0, 0)
    if pair != ("int8", "int8"):
        sentence = f"input and weights are {' and '.join(pair)}; expected int8 both, or float32 and any of"
        context.unsupported(f"{sentence} float32, int8 and uint8", x)
    return _intermediates(context, normalized=operands[gate_operand("forget", "norm")] is not None)


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
