"""``qnn.lstm``: LSTM and UNIDIRECTIONAL_SEQUENCE_LSTM, the whole sequence as one operation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from qimport.ir.check import require
from qimport.ir.graph import Array, Call, operation
from qimport.ir.types import TensorType
from qimport.qnn.base import QnnOperation
from qimport.qnn.lstm_float import FloatLstm
from qimport.qnn.lstm_hybrid import HybridLstm, weight_scales
from qimport.qnn.lstm_integer import IntegerLstm
from qimport.qnn.lstm_shape import GATES, LstmShape, gate_operand

INPUT, PROJECTION, PROJECTION_BIAS, OUTPUT_STATE, CELL_STATE, OPERANDS = 0, 16, 17, 18, 19, 24
"""Positions of the operands that belong to no gate, and how many there are."""


@operation
@dataclass(frozen=True)
class Lstm(QnnOperation):
    """A long short-term memory layer over a whole sequence, with its state as operands and results.

    Operands, in the order of the file, None where absent: x; input weights [cells, inputs] of the input,
    forget, cell and output gate; recurrent weights [cells, outputs] of the four; peephole weights [cells] of
    the input, forget and output gate; biases [cells] of the four; projection weights [outputs, cells] and
    bias [outputs]; output state h and cell state c; layer normalization coefficients [cells] of the four.
    Results: y, the next h, the next c. x is [batch, inputs], or with a time dimension in front of
    (``time_major``) or behind the batch; y likewise.

    Without the input gate's tensors (CIFG) that gate is one minus the forget gate. Gates see the peephole
    weights times c, the output gate the new c.

        i, f, o = sigmoid(W x + R h + p * c + b)      g = tanh(W x + R h + b)
        c = clip(f * c + i * g, cell_clip)            h = clip(P (o * tanh(c)) + b_p, proj_clip)

    The arithmetic for int8 is that of :class:`qimport.qnn.lstm_integer.IntegerLstm`, for float32 that of
    :class:`qimport.qnn.lstm_float.FloatLstm`, for float32 with 8-bit weights that of
    :class:`qimport.qnn.lstm_hybrid.HybridLstm`. All modes run the same kernel, the delegate takes none.

    C1 the tensors that are there fit together: the input gate has all or none, peepholes are all or none,
    layer normalization is all or none. C2 shapes are as above; states may have any shape of their size.
    C3 element types and quantization are as the arithmetic wants them. C4 clips are not negative; the
    activation is not looked at in integers.

    ``gate_scales`` are the scales of the intermediate results that layer normalization reads, one per gate
    (input, forget, cell, output); ``hidden_scale`` and ``hidden_zero_point`` those of o * tanh(c).
    ``asymmetric`` says how x and h are quantized beside 8-bit weights.
    ``backward`` begins with the last step.
    """

    NAME = "qnn.lstm"
    ARM64_FLOATS = ()
    TFLITE: ClassVar[tuple[str, ...]] = (
        "LSTM",
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        "BIDIRECTIONAL_SEQUENCE_LSTM",
    )

    activation: str = "TANH"
    cell_clip: float = 0.0
    proj_clip: float = 0.0
    time_major: bool = True
    gate_scales: tuple[float, ...] = ()
    hidden_scale: float = 1.0
    hidden_zero_point: int = 0
    asymmetric: bool = False
    backward: bool = False

    def verify(self, call: Call) -> None:
        """Check C1-C4."""
        _require_presence(call.inputs)
        shape = self.shape(call)
        _require_shapes(call, shape)
        require(self.cell_clip >= 0 and self.proj_clip >= 0, "C4", "clips must not be negative")
        self.arithmetic(call).verify(call)

    def shape(self, call: Call) -> LstmShape:
        """The sizes of this use."""
        x = call.input(INPUT)
        require(len(x.shape) in (2, 3), "C2", f"{x} is neither [batch, inputs] nor a sequence of these")
        for position in (4, 8):
            require(len(call.input(position).shape) == 2, "C2", "weights must have rank 2")
        cells, outputs = call.input(4).shape[0], call.input(8).shape[1]
        if len(x.shape) == 2:
            return LstmShape(1, x.shape[0], x.shape[1], cells, outputs, True)
        time, batch = (x.shape[0], x.shape[1]) if self.time_major else (x.shape[1], x.shape[0])
        return LstmShape(time, batch, x.shape[2], cells, outputs, self.time_major)

    def arithmetic(self, call: Call) -> IntegerLstm | FloatLstm:
        """The parameters of the arithmetic that x's element type chooses."""
        if call.input(INPUT).dtype != "float32":
            return self.integer(call)
        gated = call.inputs[gate_operand("input", "input")] is not None
        fields = (self.shape(call), self.activation, self.cell_clip, self.proj_clip, gated)
        if call.input(gate_operand("output", "input")).dtype == "float32":
            return FloatLstm(*fields)
        return HybridLstm(*fields, weight_scales(call.inputs), self.asymmetric)

    def unknown(self, call: Call) -> str | None:
        """As there, and layer normalization of integers."""
        if call.mode.arm64 and call.inputs[gate_operand("forget", "norm")] is not None:
            return "how the ARM build of the interpreter normalizes the layers of an LSTM is not known"
        return super().unknown(call)

    def integer(self, call: Call) -> IntegerLstm:
        """The parameters of the int8 arithmetic."""
        return IntegerLstm.of(
            self.shape(call),
            call.inputs,
            call.outputs[0],
            self.gate_scales,
            (self.hidden_scale, self.hidden_zero_point),
            (self.cell_clip, self.proj_clip),
            call.mode.arm64,
        )

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """Step by step."""
        x, shape = call.array(INPUT), self.shape(call)
        steps = shape.steps(x)
        y, h, c = self.arithmetic(call).run(steps[::-1] if self.backward else steps, call.arrays)
        results = (shape.sequence(np.stack(y[::-1] if self.backward else y)), h, c)
        return tuple(
            np.asarray(array, type_.numpy).reshape(type_.shape)
            for array, type_ in zip(results, call.outputs, strict=True)
        )


def _require_presence(inputs: Sequence[TensorType | None]) -> None:
    require(len(inputs) == OPERANDS, "C1", f"{len(inputs)} operands; expected {OPERANDS}")
    for gate in GATES[1:]:
        for kind in ("input", "recurrent", "bias"):
            found = inputs[gate_operand(gate, kind)]
            require(found is not None, "C1", f"the {kind} operand of the {gate} gate is missing")
    gated = [inputs[gate_operand("input", kind)] is not None for kind in ("input", "recurrent", "bias")]
    require(len(set(gated)) == 1, "C1", "the input gate has some of its operands only")
    for kind in ("peephole", "norm"):
        present = {
            inputs[position] is not None
            for gate in GATES
            if (position := gate_operand(gate, kind)) >= 0 and (gate != "input" or gated[0])
        }
        require(len(present) == 1, "C1", f"only some gates have {kind} operands")
    both = inputs[PROJECTION] is not None or inputs[PROJECTION_BIAS] is None
    require(both, "C1", "there is a projection bias without projection weights")


def _require_shapes(call: Call, shape: LstmShape) -> None:
    cells, outputs = shape.cells, shape.outputs
    wanted: dict[str, tuple[int, ...]] = {
        "input": (cells, shape.inputs),
        "recurrent": (cells, outputs),
        "peephole": (cells,),
        "bias": (cells,),
        "norm": (cells,),
    }
    expected = {PROJECTION: (outputs, cells), PROJECTION_BIAS: (outputs,)}
    for kind, sizes in wanted.items():
        expected.update({gate_operand(gate, kind): sizes for gate in GATES})
    for position, sizes in expected.items():
        found = call.inputs[position] if position >= 0 else None
        require(found is None or found.shape == sizes, "C2", f"operand {position}: {found}, not {sizes}")
    projected = call.inputs[PROJECTION] is not None
    require(projected or cells == outputs, "C2", "without projection there are as many outputs as cells")
    h, c = call.input(OUTPUT_STATE), call.input(CELL_STATE)
    require(h.size == shape.batch * outputs, "C2", f"the output state {h} must have {outputs} per batch")
    require(c.size == shape.batch * cells, "C2", f"the cell state {c} must have {cells} per batch")
    y = (*call.input(INPUT).shape[:-1], outputs)
    require(call.outputs[0].shape == y, "C2", f"the result must have shape {y}")
    require(call.outputs[1:] == (h, c), "C2", "states keep their types")
