"""The steps of a float LSTM as primitives; the arithmetic is :class:`qimport.qnn.lstm_float.FloatLstm`."""

from __future__ import annotations

import numpy as np

from qimport import prim
from qimport.ir.graph import Value
from qimport.ir.types import TensorType
from qimport.lower.float_weighted import PIXEL, constant_or_reshape, emit_sums
from qimport.lower.rule import Emitter, Use
from qimport.lower.weighted import transposed
from qimport.qnn.float_weighted import OPTIMIZED
from qimport.qnn.lstm_float import ACTIVATIONS, NORM_EPSILON, PROJECTION, FloatLstm
from qimport.qnn.lstm_shape import GATES, gate_operand
from qimport.qnn.optimized_product import block_of, parts_of


class FloatSteps:
    """Emits step after step. Every step emits the same nodes on tensors of the same types."""

    def __init__(self, emit: Emitter, lstm: FloatLstm, use: Use) -> None:
        self.emit = emit
        self.lstm = lstm
        self.use = use
        self.weights: dict[int, Value] = {}

    def input_products(self, x: Value) -> Value:
        """Nothing can be done ahead: how a product sums depends on its rows."""
        return x

    def step(self, x: Value, h: Value, c: Value) -> tuple[Value, Value]:
        """The states after a step on x [batch, inputs]."""
        emit, lstm = self.emit, self.lstm
        products = [self.of_gates(x, "input"), self.of_gates(h, "recurrent")]
        forget = self._logistic("forget", self._gate("forget", products, c))
        update = self._activate(self._gate("cell", products, c))
        if lstm.input_gate:
            admit = self._logistic("input", self._gate("input", products, c))
        else:
            admit = emit.binary("sub", emit.constant(np.ones(1, np.float32)), forget)
        kept = emit.binary("mul", forget, c)
        c = self._clip(emit.binary("add", kept, emit.binary("mul", update, admit)), lstm.cell_clip)
        opening = self._logistic("output", self._gate("output", products, c))
        hidden = emit.binary("mul", opening, self._activate(c))
        if self.use.operands[PROJECTION] is None:
            return hidden, c
        h = self.product(hidden, PROJECTION)
        bias = self.use.operands[PROJECTION + 1]
        h = emit.binary("add", h, 0.0 if bias is None else bias)
        return self._clip(h, lstm.proj_clip), c

    def of_gates(self, x: Value, kind: str) -> dict[str, Value]:
        """Products of x or h with every gate's weights."""
        gates = GATES if self.lstm.input_gate else GATES[1:]
        return {gate: self.product(x, gate_operand(gate, kind)) for gate in gates}

    def _gate(self, gate: str, products: list[dict[str, Value]], c: Value) -> Value:
        """A gate before its activation; ``products`` are those with x and with h."""
        emit = self.emit
        bias, norm = (self.use.operands[gate_operand(gate, kind)] for kind in ("bias", "norm"))
        assert bias is not None
        a = emit.constant(np.zeros(1, np.float32)) if norm is not None else bias
        for product in products:
            a = emit.binary("add", product[gate], a)
        position = gate_operand(gate, "peephole")
        if position >= 0 and self.use.operands[position] is not None:
            a = emit.binary("add", a, emit.binary("mul", c, self.peephole(position)))
        if norm is None:
            return a
        return emit.binary("add", emit.binary("mul", self._normalized(a), norm), bias)

    def product(self, x: Value, position: int) -> Value:
        """x [batch, K] times the transposed weights at ``position``, in the order of the kernel."""
        emit, (batch, depth) = self.emit, x.type.shape
        weights = self._transposed(position)
        outputs = weights.type.shape[3]
        image = emit.reshape(x, (batch, 1, 1, depth))
        if self.lstm.rows == 1:  # an order of its own for every row, the same one
            order = parts_of(1, depth, outputs)[0].order
            op = prim.FloatMac(order=order, block=block_of(1, depth, outputs))
            zeros = emit.constant(np.zeros(outputs, np.float32))
            acc = emit.emit(op, (image, weights, zeros), op.result_type(image.type, weights.type))
        else:
            acc = emit_sums(emit, image, weights, None, PIXEL, OPTIMIZED)
        return emit.reshape(acc, (batch, outputs))

    def _transposed(self, position: int) -> Value:
        """Weights [N, K] as HWIO of one pixel; at compile time where they are constant."""
        if position not in self.weights:
            weights = self.use.operand(position)
            outputs, depth = weights.type.shape
            turned = transposed(self.emit, weights, (1, 0))
            self.weights[position] = constant_or_reshape(self.emit, turned, (1, 1, depth, outputs))
        return self.weights[position]

    def peephole(self, position: int) -> Value:
        """Peephole weights as real numbers."""
        return self.use.operand(position)

    def _normalized(self, a: Value) -> Value:
        """Rows minus their mean, over their deviation."""
        emit, count = self.emit, float(a.type.shape[1])
        centered = emit.binary("sub", a, emit.binary("div", self._row_sums(a), count))
        squares = self._row_sums(emit.binary("mul", centered, centered))
        variance = emit.binary("add", emit.binary("div", squares, count), NORM_EPSILON)
        return emit.binary("mul", centered, emit.math("rsqrt", variance))

    def _row_sums(self, a: Value) -> Value:
        """[batch, 1]: sums one after the other."""
        emit, (batch, count) = self.emit, a.type.shape
        image = emit.reshape(a, (batch, 1, 1, count))
        ones = emit.constant(np.ones((1, 1, count, 1), np.float32))
        op = prim.FloatMac()
        operands = (image, ones, emit.constant(np.zeros(1, np.float32)))
        return emit.reshape(emit.emit(op, operands, op.result_type(image.type, ones.type)), (batch, 1))

    def _logistic(self, gate: str, a: Value) -> Value:
        """As the kernel's packets and lone elements lie in its memory."""
        emit, lone = self.emit, self.lstm.lone_elements(gate)
        if lone.all():
            return emit.math("logistic_by_element", a)
        if not lone.any():
            return emit.math("logistic_in_packets", a)
        flat = emit.reshape(a, (lone.size,))
        apart, together = (emit.math(kind, flat) for kind in ("logistic_by_element", "logistic_in_packets"))
        mask = emit.constant(lone.reshape(-1))
        chosen = emit.emit(prim.Select(), (mask, apart, together), TensorType("float32", (lone.size,)))
        return emit.reshape(chosen, lone.shape)

    def _activate(self, a: Value) -> Value:
        if self.lstm.activation == "TANH":
            return self.emit.math("tanh_rational", a)
        low, high = ACTIVATIONS[self.lstm.activation]
        a = self.emit.binary("max", a, low)
        return a if high == np.inf else self.emit.binary("min", a, high)

    def _clip(self, x: Value, limit: float) -> Value:
        if limit <= 0:
            return x
        limit = float(np.float32(limit))
        return self.emit.binary("max", self.emit.binary("min", x, limit), -limit)
