"""The LSTM operator's BASIC kernel: one matrix product, then gates."""

from __future__ import annotations

import numpy as np

from qimport import prim
from qimport.fixedpoint import INT16_MAX, INT16_MIN
from qimport.ir.graph import Value
from qimport.lower.lstm_integer import activation, divide_by_pot
from qimport.lower.rule import Emitter, Use, rule
from qimport.qnn.lstm_basic import (
    BIAS,
    CELL_EXPONENT,
    INPUT,
    STATE_C,
    STATE_H,
    WEIGHTS,
    ZERO_POINT,
    BasicLstm,
)


@rule(BasicLstm)
def lower_basic_lstm(emit: Emitter, op: BasicLstm, use: Use) -> tuple[Value, ...]:
    """All results in order."""
    joined = emit.concat((use.operand(INPUT), use.operand(STATE_H)), 1)
    gates = _gates(emit, op, use, joined)
    batch, cells = use.operand(STATE_C).type.shape
    admit, update, forget, opening = (
        emit.slice(gates, (0, number * cells), (batch, cells), (1, 1)) for number in range(4)
    )
    logistic, tanh = prim.Activation16("logistic"), prim.Activation16("tanh")
    product = _high_mul(emit, activation(emit, logistic, admit), activation(emit, tanh, update))
    added = divide_by_pot(emit, product, 15 + CELL_EXPONENT)
    kept = _high_mul(emit, activation(emit, logistic, forget), emit.cast(use.operand(STATE_C), "int32"))
    c = emit.clamp(emit.binary("add", added, kept), 0, INT16_MIN, INT16_MAX, "int16")
    wide = emit.cast(c, "int32")
    doubled = emit.clamp(emit.binary("add", wide, wide), 0, INT16_MIN, INT16_MAX, "int16")
    product = _high_mul(emit, activation(emit, logistic, opening), activation(emit, tanh, doubled))
    y = emit.clamp(divide_by_pot(emit, product, 8), ZERO_POINT, 0, 255, "uint8")
    return y, c, joined, gates, y, c


def _gates(emit: Emitter, op: BasicLstm, use: Use, joined: Value) -> Value:
    """int16 [batch, 4 cells] before the activations."""
    weights, (batch, depth) = use.operand(WEIGHTS), joined.type.shape
    outputs = weights.type.shape[0]
    mac = prim.Mac(input_zero=ZERO_POINT, weight_zero=use.call.input(WEIGHTS).quant.zero_point)
    image = emit.reshape(joined, (batch, 1, 1, depth))
    kernel = emit.reshape(weights, (outputs, 1, 1, depth))
    acc = emit.emit(mac, (image, kernel, use.operand(BIAS)), mac.result_type(image.type, kernel.type))
    acc = emit.reshape(acc, (batch, outputs))
    factors = (emit.constant(np.array([number], np.int32)) for number in op.factor(use.call))
    scaled = emit.emit(prim.Rescale(op.rounding(use.call)), (acc, *factors), acc.type)
    return emit.clamp(scaled, 0, INT16_MIN, INT16_MAX, "int16")


def _high_mul(emit: Emitter, a: Value, b: Value) -> Value:
    """The rounding 16-bit product of int32 values that hold int16."""
    return emit.binary("shift_right", emit.binary("add", emit.binary("mul", a, b), 2**14), 15)
