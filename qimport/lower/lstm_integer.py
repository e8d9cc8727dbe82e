"""The steps of an integer LSTM as primitives; the arithmetic is ``qimport.qnn.lstm_integer.IntegerLstm``.

The recurrent products of all gates are one matrix product with as many output channels as there are gate
cells. Every step emits the same nodes on tensors of the same types, so that all steps share their kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from qimport import prim
from qimport.fixedpoint import INT16_MAX, INT16_MIN
from qimport.ir.graph import Array, Value
from qimport.lower.rule import Emitter, Use
from qimport.qnn.lstm_integer import PEEPHOLE_BLOCK, PROJECTION_BLOCK, Factor, IntegerGate, IntegerLstm


class IntegerSteps:
    """Emits the products with x, then step after step."""

    def __init__(self, emit: Emitter, lstm: IntegerLstm, use: Use) -> None:
        self.emit = emit
        self.lstm = lstm
        self.use = use
        gates = lstm.gates
        self.recurrent = self._weights([gate.position("recurrent") for gate in gates])
        self.recurrent_factors = self._factors([gate.recurrent_factor for gate in gates])

    def input_products(self, x: Value) -> Value:
        """int16 [rows, gates * cells]: the products of x [rows, inputs] with the gates' weights, rescaled."""
        gates = self.lstm.gates
        zeros = np.zeros(self.lstm.shape.cells, np.int32)
        biases = [zeros if g.norm_factor else self._data(g.position("bias")) for g in gates]
        weights = self._weights([gate.position("input") for gate in gates])
        acc = self._product(x, weights, np.concatenate(biases), self.lstm.input_zero)
        scaled = self._rescale(acc, self._factors([gate.input_factor for gate in gates]))
        return self._sat16(scaled)

    def step(self, ahead: Value, h: Value, c: Value) -> tuple[Value, Value]:
        """The states after a step; ``ahead`` holds its [batch, gates * cells] products with x."""
        emit, lstm = self.emit, self.lstm
        zeros = np.zeros(self.recurrent.type.shape[0], np.int32)
        acc = self._product(h, self.recurrent, zeros, lstm.state_zero)
        behind = self._rescale(acc, self.recurrent_factors)
        gates = self._sat16(emit.binary("add", behind, emit.cast(ahead, "int32")))
        parts = self._split(gates)
        forget = self._logistic(self._finish(lstm.gates[-3], parts["forget"], c))
        update = self._tanh(self._finish(lstm.gates[-2], parts["cell"], None), 3)
        if "input" in parts:
            admit = self._logistic(self._finish(lstm.gates[0], parts["input"], c))
        else:
            admit = emit.binary("sub", emit.constant(np.array([INT16_MAX], np.int32)), forget)
        kept = divide_by_pot(emit, emit.binary("mul", forget, emit.cast(c, "int32")), 15)
        added = divide_by_pot(emit, emit.binary("mul", admit, update), 30 + lstm.cell_exponent)
        limits = (-lstm.cell_clip, lstm.cell_clip) if lstm.cell_clip > 0 else (INT16_MIN, INT16_MAX)
        c = emit.clamp(emit.binary("add", kept, added), 0, *limits, "int16")
        opening = self._logistic(self._finish(lstm.gates[-1], parts["output"], c))
        product = emit.binary("mul", opening, self._tanh(c, 15 + lstm.cell_exponent))
        return self._output(self._scaled(product, lstm.hidden_factor)), c

    def _output(self, hidden: Value) -> Value:
        """h from o * tanh(c), which is projected where there are weights for it."""
        emit, lstm = self.emit, self.lstm
        if lstm.projection_factor is None:
            return emit.clamp(hidden, lstm.hidden_zero, -128, 127, "int8")
        hidden = emit.clamp(hidden, -lstm.hidden_zero, -128, 127, "int8")
        weights = self._weights([16])
        outputs = weights.type.shape[0]
        bias = np.zeros(outputs, np.int32) if self.use.operands[17] is None else self._data(17)
        acc = self._product(hidden, weights, bias, -lstm.hidden_zero)
        scaled = self._projected(acc, lstm.projection_factor)
        code = emit.clamp(emit.binary("add", scaled, lstm.state_zero), 0, -128, 127, "int8")
        if lstm.proj_clip <= 0:
            return code
        return emit.clamp(emit.cast(code, "int32"), 0, -lstm.proj_clip, lstm.proj_clip, "int8")

    def _projected(self, acc: Value, factor: Factor) -> Value:
        """Sums of the projection, rescaled."""
        if not self.lstm.arm64:
            return self._scaled(acc, factor)
        factors = [self.emit.constant(np.array([number], np.int32)) for number in factor]

        def up(part: Value) -> Value:
            return self.emit.emit(prim.Rescale("double_up"), (part, *factors), part.type)

        return self.emit.in_blocks(acc, PROJECTION_BLOCK, up, lambda part: self._scaled(part, factor))

    def _split(self, gates: Value) -> dict[str, Value]:
        """Each gate's [batch, cells] of the concatenated ones."""
        batch, cells = self.lstm.shape.batch, self.lstm.shape.cells
        return {
            gate.name: self.emit.slice(gates, (0, number * cells), (batch, cells), (1, 1))
            for number, gate in enumerate(self.lstm.gates)
        }

    def _finish(self, gate: IntegerGate, a: Value, c: Value | None) -> Value:
        """Peephole and layer normalization."""
        if c is not None and gate.peephole_factor is not None:
            a = self._peephole(a, c, gate, gate.peephole_factor)
        if gate.norm_factor is None:
            return a
        weights, bias = (self.use.operand(gate.position(kind)) for kind in ("norm", "bias"))
        op = prim.LayerNorm16(*gate.norm_factor, gate.guard)
        return self.emit.emit(op, (a, weights, bias), a.type)

    def _peephole(self, a: Value, c: Value, gate: IntegerGate, factor: Factor) -> Value:
        """Add peephole products to the cells that have them."""
        emit, shape = self.emit, self.lstm.shape
        outputs = shape.outputs
        weights = emit.constant(self._data(gate.position("peephole"))[:outputs].astype(np.int32))
        op = prim.Rescale("double_up", "double_away", outputs - outputs % PEEPHOLE_BLOCK)
        factors = tuple(emit.constant(np.array([number], np.int32)) for number in factor)

        def add(a: Value, c: Value) -> Value:
            product = emit.binary("mul", emit.cast(c, "int32"), weights)
            scaled = emit.emit(op, (product, *factors), product.type)
            return self._sat16(emit.binary("add", scaled, emit.cast(a, "int32")))

        if outputs == shape.cells:
            return add(a, c)
        return self._on_leading(add, a, c)

    def _on_leading(self, function: Callable[[Value, Value], Value], a: Value, c: Value) -> Value:
        """``function`` on the leading batch * outputs values, or outputs of each batch; the rest stays."""
        emit, shape = self.emit, self.lstm.shape
        batch, cells, outputs = shape.batch, shape.cells, shape.outputs
        if not shape.time_major:
            heads = [emit.slice(x, (0, 0), (batch, outputs), (1, 1)) for x in (a, c)]
            tail = emit.slice(a, (0, outputs), (batch, cells - outputs), (1, 1))
            return emit.concat((function(*heads), tail), 1)
        flat = [emit.reshape(x, (batch * cells,)) for x in (a, c)]
        count, rest = batch * outputs, batch * (cells - outputs)
        heads = [emit.reshape(emit.slice(x, (0,), (count,), (1,)), (batch, outputs)) for x in flat]
        tail = emit.slice(flat[0], (count,), (rest,), (1,))
        joined = emit.concat((emit.reshape(function(*heads), (count,)), tail), 0)
        return emit.reshape(joined, (batch, cells))

    def _data(self, position: int) -> Array:
        """The content of a constant operand."""
        data = self.use.operand(position).data
        assert data is not None
        return data

    def _weights(self, positions: Sequence[int]) -> Value:
        """Matrices one below the other, as weights of a 1x1 window."""
        rows = np.concatenate([self._data(position) for position in positions])
        return self.emit.constant(rows.reshape(rows.shape[0], 1, 1, rows.shape[1]))

    def _factors(self, factors: Sequence[Factor]) -> tuple[Value, Value]:
        """Multipliers and exponents for every cell of every gate."""
        table = np.repeat(np.array(factors, np.int32), self.lstm.shape.cells, axis=0)
        multipliers, exponents = (np.ascontiguousarray(column) for column in table.T)
        return self.emit.constant(multipliers), self.emit.constant(exponents)

    def _product(self, x: Value, weights: Value, bias: Array, zero: int) -> Value:
        """int32 sums of x [rows, depth] with the weights' rows."""
        emit, (rows, depth) = self.emit, x.type.shape
        image = emit.reshape(x, (rows, 1, 1, depth))
        mac = prim.Mac(input_zero=zero)
        operands = (image, weights, emit.constant(bias))
        acc = emit.emit(mac, operands, mac.result_type(image.type, weights.type))
        return emit.reshape(acc, (rows, weights.type.shape[0]))

    def _rescale(self, acc: Value, factors: Sequence[Value]) -> Value:
        return self.emit.emit(prim.Rescale("double_away"), (acc, *factors), acc.type)

    def _scaled(self, x: Value, factor: Factor) -> Value:
        """x times one factor."""
        return self._rescale(x, tuple(self.emit.constant(np.array([n], np.int32)) for n in factor))

    def _sat16(self, x: Value) -> Value:
        return self.emit.clamp(x, 0, INT16_MIN, INT16_MAX, "int16")

    def _logistic(self, x: Value) -> Value:
        return activation(self.emit, prim.Activation16("logistic"), x)

    def _tanh(self, x: Value, integer_bits: int) -> Value:
        return activation(self.emit, prim.Activation16("tanh", integer_bits), x)


def activation(emit: Emitter, op: prim.Activation16, x: Value) -> Value:
    """int32 of a 16-bit activation of int16."""
    return emit.cast(emit.emit(op, (x,), x.type), "int32")


def divide_by_pot(emit: Emitter, x: Value, exponent: int) -> Value:
    """x / 2^exponent, ties away from zero, without the double rounding of ``prim.rescale``."""
    sign = emit.binary("shift_right", x, 31)
    half = emit.binary("add", emit.binary("add", x, 1 << (exponent - 1)), sign)
    return emit.binary("shift_right", half, exponent)
