"""SVDF: a matrix product, a shift of the memory, and elementwise products summed per unit."""

from __future__ import annotations

import numpy as np

from qimport import prim
from qimport.errors import CompilerBug
from qimport.fixedpoint import INT16_MAX, INT16_MIN
from qimport.ir.graph import Array, Value
from qimport.ir.types import TensorType
from qimport.lower.float_weighted import constant_or_reshape
from qimport.lower.row_quantization import emit_row_product, emit_row_quantization
from qimport.lower.rule import Emitter, Use, rule
from qimport.lower.weighted import transposed
from qimport.qnn.svdf import BIAS, FEATURE, FLOAT_BOUNDS, INPUT, STATE, TIME, Factor, Svdf, SvdfShape


@rule(Svdf)
def lower_svdf(emit: Emitter, op: Svdf, use: Use) -> tuple[Value, Value]:
    """The result and the next state."""
    if use.call.input(INPUT).dtype == "float32":
        return _floats(emit, op, use)
    shape, (first, second) = op.shape(use.call), op.factors(use.call)
    new = emit.clamp(_scaled(emit, _filters(emit, use, shape), first), 0, INT16_MIN, INT16_MAX, "int16")
    state = remember(emit, use.operand(STATE), new, shape)
    weights = _known(use.operand(TIME)).reshape(-1).astype(np.int32)
    products = emit.binary("mul", emit.cast(state, "int32"), emit.constant(weights))
    by_unit = emit.reshape(products, (shape.batch, shape.units, shape.window))
    acc_type = TensorType("int32", (shape.batch, shape.units, 1))
    acc = emit.reshape(emit.emit(prim.Reduce("sum", (2,)), (by_unit,), acc_type), acc_type.shape[:2])
    bias = use.operands[BIAS]
    if bias is not None:
        acc = emit.binary("add", acc, bias)
    code = emit.binary("add", _scaled(emit, acc, second), use.output.quant.zero_point)
    return emit.clamp(code, 0, -128, 127, "int8"), state


def _floats(emit: Emitter, op: Svdf, use: Use) -> tuple[Value, Value]:
    shape, feature, time = op.shape(use.call), use.operand(FEATURE), use.operand(TIME)
    if op.is_hybrid(use.call):
        rows = emit_row_quantization(emit, use.operand(INPUT), asymmetric=op.asymmetric)
        scale = np.array([use.call.input(FEATURE).quant.scale], np.float32)
        new = emit_row_product(emit, rows, _known(feature).view(np.int8), scale)
        time = emit.constant(op.time_weights(use.call, _known(time)))
    else:
        new = emit_in_turn(emit, use.operand(INPUT), feature)
    state = remember(emit, use.operand(STATE), new, shape)
    weights = constant_or_reshape(emit, time, (shape.filters * shape.memory,))
    products = emit.reshape(emit.binary("mul", state, weights), (shape.batch * shape.filters, shape.memory))
    filters = _sum_in_turn(emit, products)
    y = _sum_in_turn(emit, emit.reshape(filters, (shape.batch * shape.units, op.rank)))
    y = emit.reshape(y, (shape.batch, shape.units))
    bias = use.operands[BIAS]
    if bias is not None:
        y = emit.binary("add", y, bias)
    return emit_float_activation(emit, y, op.activation), state


def emit_float_activation(emit: Emitter, y: Value, activation: str) -> Value:
    """``ApplyActivationToVector`` but for its logistic and sign bit."""
    if activation == "TANH":
        return emit.math("tanh_rational", y)
    low, high = FLOAT_BOUNDS[activation]
    y = y if low == -np.inf else emit.binary("max", y, low)
    return y if high == np.inf else emit.binary("min", y, high)


def emit_in_turn(emit: Emitter, x: Value, weights: Value) -> Value:
    """x [rows, n] times float weights [outputs, n], in the order ``in_turn``."""
    rows, depth = x.type.shape
    outputs = weights.type.shape[0]
    image = emit.reshape(x, (rows, 1, 1, depth))
    turned = constant_or_reshape(emit, transposed(emit, weights, (1, 0)), (1, 1, depth, outputs))
    op = prim.FloatMac(order="in_turn")
    operands = (image, turned, emit.constant(np.zeros(outputs, np.float32)))
    return emit.reshape(emit.emit(op, operands, op.result_type(image.type, turned.type)), (rows, outputs))


def _sum_in_turn(emit: Emitter, x: Value) -> Value:
    return emit_in_turn(emit, x, emit.constant(np.ones((1, x.type.shape[1]), np.float32)))


def _known(weights: Value) -> Array:
    if weights.data is None:
        raise CompilerBug("the weights of an SVDF are not constant")
    return weights.data


def _filters(emit: Emitter, use: Use, shape: SvdfShape) -> Value:
    """int32 [batch, filters]: products of the input with the feature weights."""
    image = emit.reshape(use.operand(INPUT), (shape.batch, 1, 1, shape.inputs))
    weights = emit.reshape(use.operand(FEATURE), (shape.filters, 1, 1, shape.inputs))
    mac = prim.Mac(input_zero=use.call.input(INPUT).quant.zero_point)
    zeros = emit.constant(np.zeros(shape.filters, np.int32))
    acc = emit.emit(mac, (image, weights, zeros), mac.result_type(image.type, weights.type))
    return emit.reshape(acc, (shape.batch, shape.filters))


def remember(emit: Emitter, state: Value, new: Value, shape: SvdfShape) -> Value:
    """The next state: every filter's memory without its oldest value, then its new one."""
    rows = shape.batch * shape.filters
    column = emit.reshape(new, (rows, 1))
    if shape.memory > 1:
        old = emit.slice(emit.reshape(state, (rows, shape.memory)), (0, 1), (rows, shape.memory - 1), (1, 1))
        column = emit.concat((old, column), 1)
    return emit.reshape(column, state.type.shape)


def _scaled(emit: Emitter, x: Value, factor: Factor) -> Value:
    factors = tuple(emit.constant(np.array([number], np.int32)) for number in factor)
    return emit.emit(prim.Rescale("double_away"), (x, *factors), x.type)
