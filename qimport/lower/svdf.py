"""SVDF: a matrix product, a shift of the memory, and elementwise products summed per unit."""

from __future__ import annotations

import numpy as np

from qimport import prim
from qimport.fixedpoint import INT16_MAX, INT16_MIN
from qimport.ir.graph import Value
from qimport.ir.types import TensorType
from qimport.lower.rule import Emitter, Use, rule
from qimport.qnn.svdf import BIAS, FEATURE, INPUT, STATE, TIME, Factor, Svdf, SvdfShape


@rule(Svdf)
def lower_svdf(emit: Emitter, op: Svdf, use: Use) -> tuple[Value, Value]:
    """The result and the next state."""
    shape, (first, second) = op.shape(use.call), op.factors(use.call)
    sums = _filters(emit, use, shape)
    new = emit.clamp(_scaled(emit, sums, first), 0, INT16_MIN, INT16_MAX, "int16")
    state = remember(emit, use.operand(STATE), new, shape)
    weights = use.operand(TIME)
    weights = emit.cast(emit.reshape(weights, (shape.filters * shape.memory,)), "int32")
    products = emit.binary("mul", emit.cast(state, "int32"), weights)
    by_unit = emit.reshape(products, (shape.batch, shape.units, shape.window))
    acc_type = TensorType("int32", (shape.batch, shape.units, 1))
    acc = emit.reshape(emit.emit(prim.Reduce("sum", (2,)), (by_unit,), acc_type), acc_type.shape[:2])
    bias = use.operands[BIAS]
    if bias is not None:
        acc = emit.binary("add", acc, bias)
    code = emit.binary("add", _scaled(emit, acc, second), use.output.quant.zero_point)
    return emit.clamp(code, 0, -128, 127, "int8"), state


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
