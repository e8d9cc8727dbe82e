"""RNN and the sequence RNNs: unrolled over time."""

from __future__ import annotations

import numpy as np

from qimport.errors import CompilerBug
from qimport.ir.graph import Value
from qimport.lower.float_weighted import constant_or_reshape, part_of
from qimport.lower.lstm import time_as_in_file, time_first
from qimport.lower.row_quantization import emit_row_product, emit_row_quantization
from qimport.lower.rule import Emitter, Use, rule
from qimport.lower.svdf import emit_float_activation, emit_in_turn
from qimport.qnn.rnn import BIAS, INPUT, LANES, RECURRENT, STATE, WEIGHTS, Rnn


@rule(Rnn)
def lower_rnn(emit: Emitter, op: Rnn, use: Use) -> tuple[Value, Value]:
    """Products with x of all steps at once, then one step after the other."""
    shape, h = op.shape(use.call), use.operand(STATE)
    products = _Products(emit, op, use)
    ahead = products.add(time_first(emit, use.operand(INPUT), shape), WEIGHTS, use.operand(BIAS))
    order = range(shape.time - 1, -1, -1) if op.backward else range(shape.time)
    results = [h] * shape.time
    for time in order:
        rows = emit.slice(ahead, (time * shape.batch, 0), (shape.batch, shape.cells), (1, 1))
        h = emit_float_activation(emit, products.add(h, RECURRENT, rows), op.activation)
        results[time] = h
    return time_as_in_file(emit, emit.concat(results, 0), shape, use.output), h


class _Products:
    """Adds products with weights to what there is."""

    def __init__(self, emit: Emitter, op: Rnn, use: Use) -> None:
        self.emit = emit
        self.op = op
        self.use = use

    def add(self, x: Value, position: int, a: Value) -> Value:
        """``a`` plus x [rows, K] times the transposed weights at ``position``."""
        emit, weights = self.emit, self.use.operand(position)
        if self.op.is_hybrid(self.use.call):
            if weights.data is None:
                raise CompilerBug(f"the weights at {position} are not constant")
            rows = emit_row_quantization(emit, x, asymmetric=self.op.asymmetric)
            scale = np.array([self.use.call.input(position).quant.scale], np.float32)
            product = emit_row_product(emit, rows, weights.data.view(np.int8), scale)
            return emit.binary("add", a, product)
        depth = x.type.shape[1]
        whole = depth - depth % LANES
        if whole:
            head, first = (part_of(emit, value, 1, (0, whole)) for value in (x, weights))
            a = emit.binary("add", a, emit_in_turn(emit, head, first))
        for k in range(whole, depth):
            column, factors = (part_of(emit, value, 1, (k, k + 1)) for value in (x, weights))
            factors = constant_or_reshape(emit, factors, (factors.type.shape[0],))
            a = emit.binary("add", a, emit.binary("mul", column, factors))
        return a
