"""LSTM and UNIDIRECTIONAL_SEQUENCE_LSTM: unrolled over time."""

from __future__ import annotations

from qimport import prim
from qimport.ir.graph import Value
from qimport.ir.types import TensorType
from qimport.lower.lstm_float import FloatSteps
from qimport.lower.lstm_hybrid import HybridSteps
from qimport.lower.lstm_integer import IntegerSteps
from qimport.lower.rule import Emitter, Use, rule
from qimport.qnn.lstm import CELL_STATE, OUTPUT_STATE, Lstm
from qimport.qnn.lstm_float import FloatLstm
from qimport.qnn.lstm_hybrid import HybridLstm
from qimport.qnn.lstm_integer import IntegerLstm
from qimport.qnn.lstm_shape import LstmShape

TOGETHER = 4
"""Steps of integer arithmetic: enough to share what is loaded of weights, few enough to need little memory.

Sums of floats are in an order that depends on how many rows a product has, so they stay together.
"""


@rule(Lstm)
def lower_lstm(emit: Emitter, op: Lstm, use: Use) -> tuple[Value, ...]:
    """Input products of several steps at once, then one step after the other."""
    shape = op.shape(use.call)
    lstm = op.arithmetic(use.call)
    steps = _steps(emit, lstm, use)
    x = time_first(emit, use.operand(0), shape)
    together = _together(shape.time) if isinstance(lstm, IntegerLstm) else shape.time
    ahead: dict[int, Value] = {}
    h = emit.reshape(use.operand(OUTPUT_STATE), (shape.batch, shape.outputs))
    c = emit.reshape(use.operand(CELL_STATE), (shape.batch, shape.cells))
    results = [h] * shape.time
    for time in range(shape.time - 1, -1, -1) if op.backward else range(shape.time):
        first = time - time % together
        if first not in ahead:
            count = min(together, shape.time - first)
            ahead[first] = steps.input_products(_times(emit, x, shape, first, count))
        h, c = steps.step(_times(emit, ahead[first], shape, time - first, 1), h, c)
        results[time] = h
    y = emit.concat(results, 0)
    state_types = (use.call.outputs[1], use.call.outputs[2])
    return (
        time_as_in_file(emit, y, shape, use.output),
        *(emit.reshape(value, type_.shape) for value, type_ in zip((h, c), state_types, strict=True)),
    )


def _together(time: int) -> int:
    """Steps whose input products are computed at once, in groups of one size as far as that goes."""
    return -(-time // -(-time // TOGETHER))


def _times(emit: Emitter, rows: Value, shape: LstmShape, first: int, count: int) -> Value:
    """The rows [count * batch, ...] of some steps."""
    begin, size = first * shape.batch, count * shape.batch
    return emit.slice(rows, (begin, 0), (size, rows.type.shape[1]), (1, 1))


def _steps(emit: Emitter, lstm: IntegerLstm | FloatLstm, use: Use) -> IntegerSteps | FloatSteps | HybridSteps:
    if isinstance(lstm, IntegerLstm):
        return IntegerSteps(emit, lstm, use)
    return HybridSteps(emit, lstm, use) if isinstance(lstm, HybridLstm) else FloatSteps(emit, lstm, use)


def time_first(emit: Emitter, x: Value, shape: LstmShape) -> Value:
    """x as rows [time * batch, inputs]."""
    return emit.reshape(_exchanged(emit, x, shape), (shape.time * shape.batch, shape.inputs))


def time_as_in_file(emit: Emitter, y: Value, shape: LstmShape, type_: TensorType) -> Value:
    """Rows [time * batch, outputs] in the order and shape of the result."""
    if shape.time_major or 1 in (shape.time, shape.batch):
        return emit.reshape(y, type_.shape)
    return _exchanged(emit, emit.reshape(y, (shape.time, shape.batch, shape.outputs)), shape)


def _exchanged(emit: Emitter, x: Value, shape: LstmShape) -> Value:
    """Batch and time of a batch-major sequence exchanged; nothing where one of them is 1."""
    if shape.time_major or 1 in (shape.time, shape.batch):
        return x
    first, second, last = x.type.shape
    return emit.emit(prim.Transpose((1, 0, 2)), (x,), TensorType(x.type.dtype, (second, first, last)))
