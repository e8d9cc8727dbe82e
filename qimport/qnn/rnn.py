"""``qnn.rnn``: RNN and the sequence RNNs, the whole sequence as one operation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from qimport import real
from qimport.ir.check import require
from qimport.ir.graph import Array, Call, operation
from qimport.qnn.base import QnnOperation
from qimport.qnn.checks import require_per_tensor
from qimport.qnn.lstm_shape import LstmShape
from qimport.qnn.row_quantization import quantize_rows
from qimport.qnn.svdf import FLOAT_BOUNDS
from qimport.summation import Float32, matrix_product

INPUT, WEIGHTS, RECURRENT, BIAS, STATE = range(5)
"""Positions of the operands."""

LANES = 4
"""Products that are summed in lanes; what a row has beyond whole multiples is added to the result itself."""


@operation
@dataclass(frozen=True)
class Rnn(QnnOperation):
    """h = activation(W x + R h + b) for every step of a sequence of floats.

    Operands: x, W [units, inputs], R [units, units], b [units], h [batch, units]. Results: y, the next h. x
    is [batch, inputs], or with a time dimension in front of (``time_major``) or behind the batch; y likewise.
    ``backward`` begins with the last step.

    float32: a = b, then W x and R h are added to a (``tensor_utils::MatrixBatchVectorMultiplyAccumulate``):
    products of whole multiples of 4 in the order ``in_turn`` of :mod:`qimport.summation` at once, then the
    others one after the other.
    8-bit weights: rows of x and h are quantized (``asymmetric`` or not), see
    :mod:`qimport.qnn.row_quantization`; float32(integer sum) * float32(scale of the row * scale of the
    weights) is added to a. Codes of uint8 weights are read as int8.

    All modes run the same kernel, the delegate takes none.

    C1 shapes are as above. C2 x, b, h and y are float32, weights float32 or both 8-bit with one scale. C3 the
    activation is NONE, RELU, RELU6, RELU_N1_TO_1 or TANH.
    """

    NAME = "qnn.rnn"
    ARM64_FLOATS = ()
    TFLITE: ClassVar[tuple[str, ...]] = (
        "RNN",
        "UNIDIRECTIONAL_SEQUENCE_RNN",
        "BIDIRECTIONAL_SEQUENCE_RNN",
    )

    activation: str
    time_major: bool = True
    asymmetric: bool = False
    backward: bool = False

    def shape(self, call: Call) -> LstmShape:
        """The sizes of this use; cells and outputs are the units."""
        x, weights = call.input(INPUT), call.input(WEIGHTS)
        require(len(x.shape) in (2, 3), "C1", f"{x} is neither [batch, inputs] nor a sequence of these")
        require(len(weights.shape) == 2, "C1", f"{weights} is no matrix")
        units = weights.shape[0]
        if len(x.shape) == 2:
            return LstmShape(1, x.shape[0], x.shape[1], units, units, True)
        time, batch = (x.shape[0], x.shape[1]) if self.time_major else (x.shape[1], x.shape[0])
        return LstmShape(time, batch, x.shape[2], units, units, self.time_major)

    def verify(self, call: Call) -> None:
        """Check C1-C3."""
        shape = self.shape(call)
        x, state, units = call.input(INPUT), call.input(STATE), shape.cells
        expected = {WEIGHTS: (units, shape.inputs), RECURRENT: (units, units), BIAS: (units,)}
        for position, sizes in expected.items():
            found = call.input(position)
            require(found.shape == sizes, "C1", f"operand {position}: {found}, not {sizes}")
        require(state.shape == (shape.batch, units), "C1", f"the state {state} does not fit")
        require(call.outputs[0].shape == (*x.shape[:-1], units), "C1", f"{call.outputs[0]} does not fit")
        require(call.outputs[1] == state, "C1", "the state keeps its type")
        for type_ in (x, call.input(BIAS), state, call.outputs[0]):
            require(type_.dtype == "float32", "C2", f"{type_} is not float32")
        weights = (call.input(WEIGHTS), call.input(RECURRENT))
        if self.is_hybrid(call):
            require(all(t.dtype in ("int8", "uint8") for t in weights), "C2", "weights must be 8-bit")
            require_per_tensor("C2", *weights)
        else:
            require(weights[1].dtype == "float32", "C2", f"{weights[1]} is not float32")
        require(self.activation in FLOAT_BOUNDS, "C3", f"no activation {self.activation}")

    @staticmethod
    def is_hybrid(call: Call) -> bool:
        """Whether weights have 8 bits."""
        return call.input(WEIGHTS).dtype != "float32"

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """Step by step."""
        shape, h = self.shape(call), np.asarray(call.array(STATE), np.float32)
        steps = shape.steps(call.array(INPUT))
        order = range(shape.time - 1, -1, -1) if self.backward else range(shape.time)
        y: list[Float32] = [h] * shape.time
        with np.errstate(all="ignore"):
            for number in order:
                start = np.repeat(np.asarray(call.array(BIAS), np.float32)[None], shape.batch, axis=0)
                a = self._add_product(call, np.asarray(steps[number]), WEIGHTS, start)
                h = self._activated(self._add_product(call, h, RECURRENT, a))
                y[number] = h
        return shape.sequence(np.stack(y)).reshape(call.outputs[0].shape), h

    def _add_product(self, call: Call, x: Float32, position: int, a: Float32) -> Float32:
        w = call.array(position)
        if self.is_hybrid(call):
            rows = quantize_rows(x, asymmetric=self.asymmetric)
            return a + rows.product(w.view(np.int8), call.input(position).quant.scale)
        whole = x.shape[1] - x.shape[1] % LANES
        if whole:
            zeros = np.zeros(len(w), np.float32)
            a = a + matrix_product(x[:, :whole], np.asarray(w.T[:whole], np.float32), zeros, "in_turn")
        for k in range(whole, x.shape[1]):
            a = a + x[:, k, None] * np.asarray(w.T[k], np.float32)
        return a

    def _activated(self, a: Float32) -> Float32:
        if self.activation == "TANH":
            return real.apply("tanh_rational", a)
        low, high = FLOAT_BOUNDS[self.activation]
        return np.asarray(np.clip(a, np.float32(low), np.float32(high)))
