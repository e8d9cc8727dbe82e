"""SVDF, LSTM and RNN operators with their variable tensors, over several invocations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from qimport.ir.graph import Array
from tests.cases import Draw
from tests.flatbuffer_builder import ModelBuilder
from tests.one_operator.model import OneOperator, generator

INVOCATIONS = 3

FAMILIES = (
    "BIDIRECTIONAL LSTM",
    "LSTM BASIC",
    "LSTM float32",
    "LSTM hybrid",
    "LSTM int8",
    "RNN",
    "SVDF float32",
    "SVDF hybrid",
    "SVDF int8",
)
"""Names of the generators here."""


@dataclass
class Recurrent:
    """A file in the making: the model, its only fed tensor, and a text of what was drawn."""

    draw: Draw
    model: ModelBuilder = field(default_factory=ModelBuilder)
    notes: list[str] = field(default_factory=list)

    @property
    def half(self) -> bool:
        """Whether float constants are written as float16."""
        return bool(self.draw.ties)

    def ints(self, shape: Sequence[int], dtype: str, limit: int) -> Array:
        """Codes from -limit to limit; small ones if there shall be ties; in int8 sometimes -128."""
        top = min(limit, 3) if self.draw.ties else limit
        codes = self.draw.rng.integers(-top, top + 1, shape).astype(dtype)
        if dtype == "int8" and self.draw.pick(True, False, False):
            codes[self.draw.rng.random(shape) < 0.1] = -128
        return codes

    def weights(self, shape: Sequence[int], dtype: str = "int8", scale: float | None = None) -> int:
        """A constant of random codes around zero."""
        limit = {"int8": 127, "int16": 32767}[dtype]
        return self.model.tensor(
            shape, dtype, scale or self.draw.scale(0.002, 0.03), data=self.ints(shape, dtype, limit)
        )

    def bias(self, count: int, limit: int = 3000) -> int:
        """An int32 constant."""
        return self.model.tensor((count,), "int32", 1e-4, data=self.ints((count,), "int32", limit))

    def floats(self, shape: Sequence[int], spread: float = 0.5) -> int:
        """A float32 constant; in some models all of these are float16 and widened by an operator."""
        data = self.real(shape, spread)
        if not self.half:
            return self.model.tensor(shape, "float32", data=data)
        narrow = self.model.tensor(shape, "float16", data=data.astype(np.float16))
        wide = self.model.tensor(shape, "float32")
        self.model.operator("DEQUANTIZE", [narrow], [wide], 3)
        return wide

    def real(self, shape: Sequence[int], spread: float) -> Array:
        """Normal numbers."""
        return (self.draw.rng.standard_normal(shape) * spread).astype(np.float32)

    def finish(self, x: int, y: int | Sequence[int], feeds: Sequence[Array]) -> OneOperator:
        """The file with one input."""
        file = self.model.build([x], [y] if isinstance(y, int) else y)
        return OneOperator(file, tuple([feed] for feed in feeds), " ".join(self.notes))


@dataclass(frozen=True)
class LstmSizes:
    """What every LSTM draws."""

    time: int
    batch: int
    inputs: int
    cells: int
    outputs: int
    sequence: bool
    time_major: bool
    input_gate: bool
    peephole: bool
    norm: bool
    projection: bool

    @classmethod
    def of(cls, draw: Draw) -> LstmSizes:
        """Mostly small; sometimes more cells than a block of peepholes."""
        cells, projection, sequence = draw.pick(1, 2, 3, 5, 8, 16, 19, 33), draw.pick(True, False), True
        sequence = draw.pick(True, True, False)
        outputs = int(draw.rng.integers(1, cells + 1)) if projection else cells
        return cls(
            draw.pick(1, 2, 3, 5) if sequence else 1,
            draw.pick(1, 1, 2, 3),
            draw.pick(1, 2, 4, 7, 16),
            cells,
            outputs,
            sequence,
            draw.pick(True, False),
            *(draw.pick(True, False) for _ in range(3)),
            projection,
        )

    @property
    def leading(self) -> tuple[int, ...]:
        """Dimensions in front of the elements."""
        if not self.sequence:
            return (self.batch,)
        return (self.time, self.batch) if self.time_major else (self.batch, self.time)

    @property
    def builtin(self) -> str:
        """The operator."""
        return "UNIDIRECTIONAL_SEQUENCE_LSTM" if self.sequence else "LSTM"

    def options(self, draw: Draw) -> dict[str, Any]:
        """Options of the operator."""
        options = {
            "fused_activation_function": "TANH",
            "cell_clip": draw.pick(0.0, 0.0, 0.7, 3.0, 1e-5, 1e9),
            "proj_clip": draw.pick(0.0, 0.3, 1.0, 1e-5, 1e9) if self.projection else 0.0,
        }
        return options | ({"time_major": self.time_major} if self.sequence else {})

    def gates(self, position: int) -> bool:
        """Whether the operand at this position of four is there: the first belongs to the input gate."""
        return self.input_gate or position > 0


@generator("LSTM int8")
def lstm_int8(draw: Draw) -> OneOperator:
    """8x8_16: all forms together."""
    made, sizes = Recurrent(draw), LstmSizes.of(draw)
    model, cells, outputs = made.model, sizes.cells, sizes.outputs
    made.notes += [str(sizes)]
    x_scale, h_scale, exponent = draw.scale(0.004, 0.05), draw.scale(0.004, 0.02), draw.pick(*range(-15, -8))
    x_scale *= draw.pick(1, 1, 1, 1, 64, 4000, 1e-4)
    x = model.tensor((*sizes.leading, sizes.inputs), "int8", x_scale, draw.zero_point("int8"))
    h_zero = draw.zero_point("int8")
    rows = range(4)
    inputs = [made.weights((cells, sizes.inputs)) if sizes.gates(i) else -1 for i in rows]
    recurrent = [made.weights((cells, outputs)) if sizes.gates(i) else -1 for i in rows]
    peephole = [
        made.weights((cells,), "int16", draw.scale(1e-5, 1e-3)) if sizes.peephole and sizes.gates(i) else -1
        for i in range(3)
    ]
    biases = [made.bias(cells) if sizes.gates(i) else -1 for i in rows]
    projection = [made.weights((outputs, cells)) if sizes.projection else -1]
    projection += [made.bias(outputs, 400) if sizes.projection and draw.pick(True, False) else -1]
    h = model.tensor((sizes.batch, outputs), "int8", h_scale, h_zero, is_variable=True)
    c = model.tensor((sizes.batch, cells), "int16", 2.0**exponent, is_variable=True)
    norms = [
        made.weights((cells,), "int16", draw.scale(1e-5, 1e-4)) if sizes.norm and sizes.gates(i) else -1
        for i in rows
    ]
    operands = [x, *inputs, *recurrent, *peephole, *biases, *projection, h, c, *norms]
    if not sizes.norm and draw.pick(True, False):
        operands = operands[:20]
    between = [model.tensor((0,), "int16", draw.scale(1e-4, 2e-3)) for _ in rows]
    hidden_zero = draw.zero_point("int8") if draw.pick(True, False) else 0
    between.append(
        model.tensor((0,), "int8", draw.scale(0.004, 0.02) * draw.pick(1, 1, 1, 1e-3, 50), hidden_zero)
    )
    y = model.tensor((*sizes.leading, outputs), "int8", h_scale, h_zero)
    options = sizes.options(draw)
    made.notes.append(str((options, exponent)))
    model.operator(sizes.builtin, operands, [y], 3, intermediates=between, **options)
    feeds = [
        draw.rng.integers(-128, 128, (*sizes.leading, sizes.inputs)).astype(np.int8)
        for _ in range(INVOCATIONS)
    ]
    return made.finish(x, y, feeds)


@generator("SVDF int8")
def svdf_int8(draw: Draw) -> OneOperator:
    """Any rank, with and without bias."""
    made, (batch, inputs, units, rank, memory) = Recurrent(draw), _svdf_sizes(draw)
    model, filters = made.model, units * rank
    x_scale = draw.scale(0.01, 0.5) * draw.pick(1, 1, 1, 1000, 1e-4)
    x = model.tensor((batch, inputs), "int8", x_scale, draw.zero_point("int8"))
    feature = made.weights((filters, inputs))
    time = made.weights((filters, memory), "int16", draw.scale(1e-4, 5e-3))
    bias = made.bias(units, 100000) if draw.pick(True, False) else -1
    state = model.tensor((batch, filters * memory), "int16", draw.scale(1e-4, 5e-3), is_variable=True)
    y_scale = draw.scale(0.01, 1.0) * draw.pick(1, 1, 1, 1e-4, 1000)
    y = model.tensor((batch, units), "int8", y_scale, draw.zero_point("int8"))
    model.operator(
        "SVDF", [x, feature, time, bias, state], [y], 3, rank=rank, fused_activation_function="RELU"
    )
    feeds = [draw.rng.integers(-128, 128, (batch, inputs)).astype(np.int8) for _ in range(memory + 1)]
    return made.finish(x, y, feeds)


def _svdf_sizes(draw: Draw) -> tuple[int, int, int, int, int]:
    """Batch, inputs, units, rank, memory."""
    return (
        draw.pick(1, 1, 2, 3),
        draw.pick(1, 3, 8, 17),
        draw.pick(1, 2, 5, 16),
        draw.pick(1, 2, 3, 5),
        draw.pick(1, 2, 3, 7, 9),
    )


@generator("LSTM float32")
def lstm_float(draw: Draw) -> OneOperator:
    """All forms together, with every activation that has a kernel."""
    made, sizes = Recurrent(draw), LstmSizes.of(draw)
    model, cells, outputs = made.model, sizes.cells, sizes.outputs
    x = model.tensor((*sizes.leading, sizes.inputs), "float32")
    rows = range(4)
    operands = [x]
    operands += [made.floats((cells, sizes.inputs)) if sizes.gates(i) else -1 for i in rows]
    operands += [made.floats((cells, outputs)) if sizes.gates(i) else -1 for i in rows]
    operands += [made.floats((cells,)) if sizes.peephole and sizes.gates(i) else -1 for i in range(3)]
    operands += [made.floats((cells,)) if sizes.gates(i) else -1 for i in rows]
    operands += [made.floats((outputs, cells)) if sizes.projection else -1]
    operands += [made.floats((outputs,)) if sizes.projection and draw.pick(True, False) else -1]
    operands += [
        model.tensor((sizes.batch, count), "float32", is_variable=True) for count in (outputs, cells)
    ]
    operands += [made.floats((cells,)) if sizes.norm and sizes.gates(i) else -1 for i in rows]
    y = model.tensor((*sizes.leading, outputs), "float32")
    options = sizes.options(draw)
    options["fused_activation_function"] = draw.pick("TANH", "TANH", "TANH", "RELU", "RELU6", "RELU_N1_TO_1")
    made.notes.append(str((sizes, options)))
    model.operator(sizes.builtin, operands, [y], 3, **options)
    feeds = [made.real((*sizes.leading, sizes.inputs), 1.5) for _ in range(INVOCATIONS)]
    return made.finish(x, y, feeds)


@generator("LSTM hybrid")
def lstm_hybrid(draw: Draw) -> OneOperator:
    """float32 with int8 weights, quantized symmetrically or not."""
    made, sizes = Recurrent(draw), LstmSizes.of(draw)
    model, cells, outputs = made.model, sizes.cells, sizes.outputs
    x = model.tensor((*sizes.leading, sizes.inputs), "float32")
    rows = range(4)
    operands = [x]
    operands += [made.weights((cells, sizes.inputs)) if sizes.gates(i) else -1 for i in rows]
    operands += [made.weights((cells, outputs)) if sizes.gates(i) else -1 for i in rows]
    operands += [made.weights((cells,)) if sizes.peephole and sizes.gates(i) else -1 for i in range(3)]
    operands += [made.floats((cells,)) if sizes.gates(i) else -1 for i in rows]
    operands += [made.weights((outputs, cells)) if sizes.projection else -1]
    operands += [made.floats((outputs,)) if sizes.projection and draw.pick(True, False) else -1]
    operands += [
        model.tensor((sizes.batch, count), "float32", is_variable=True) for count in (outputs, cells)
    ]
    operands += [made.floats((cells,)) if sizes.norm and sizes.gates(i) else -1 for i in rows]
    y = model.tensor((*sizes.leading, outputs), "float32")
    options = sizes.options(draw) | {"asymmetric_quantize_inputs": draw.pick(True, False)}
    made.notes.append(str((sizes, options)))
    model.operator(sizes.builtin, operands, [y], 3, **options)
    feeds = [made.real((*sizes.leading, sizes.inputs), 1.5) for _ in range(INVOCATIONS)]
    feeds[1][...] = 0.0 if draw.pick(True, False) else feeds[1]
    return made.finish(x, y, feeds)


@generator("SVDF float32")
def svdf_float(draw: Draw) -> OneOperator:
    """Weights of floats."""
    return _svdf_of_floats(draw, lambda made, shape: made.floats(shape))


@generator("SVDF hybrid")
def svdf_hybrid(draw: Draw) -> OneOperator:
    """8-bit weights; old files call theirs uint8."""
    dtype = draw.pick("int8", "int8", "uint8")

    def weights(made: Recurrent, shape: Sequence[int]) -> int:
        codes = made.ints(shape, "int8", 127)
        return made.model.tensor(shape, dtype, draw.scale(0.002, 0.03), data=codes.view(dtype))

    return _svdf_of_floats(draw, weights)


def _svdf_of_floats(draw: Draw, weights: Callable[[Recurrent, Sequence[int]], int]) -> OneOperator:
    made, (batch, inputs, units, rank, memory) = Recurrent(draw), _svdf_sizes(draw)
    model, filters = made.model, units * rank
    x = model.tensor((batch, inputs), "float32")
    constants = [weights(made, (filters, inputs)), weights(made, (filters, memory))]
    bias = made.floats((units,)) if draw.pick(True, False) else -1
    state = model.tensor((batch, filters * memory), "float32", is_variable=True)
    y = model.tensor((batch, units), "float32")
    activation = draw.pick("NONE", "RELU", "RELU6", "RELU_N1_TO_1", "TANH")
    asymmetric = draw.pick(True, False)
    made.notes.append(str((batch, inputs, units, rank, memory, activation, asymmetric)))
    options = {
        "rank": rank,
        "fused_activation_function": activation,
        "asymmetric_quantize_inputs": asymmetric,
    }
    model.operator("SVDF", [x, *constants, bias, state], [y], 3, **options)
    feeds = [made.real((batch, inputs), 1.5) for _ in range(memory + 1)]
    feeds[-1][...] = 0.0 if draw.pick(True, False) else feeds[-1]
    return made.finish(x, y, feeds)


@generator("RNN")
def rnn(draw: Draw) -> OneOperator:
    """One step, a sequence, or one in both directions, with float or 8-bit weights."""
    made, (batch, inputs, time) = (
        Recurrent(draw),
        (draw.pick(1, 2, 3), draw.pick(1, 3, 4, 10), draw.pick(1, 4)),
    )
    builtin = draw.pick("RNN", "UNIDIRECTIONAL_SEQUENCE_RNN", "BIDIRECTIONAL_SEQUENCE_RNN")
    hybrid, time_major, merged = (draw.pick(True, False) for _ in range(3))
    both = builtin.startswith("BI")
    ends = both and hybrid and merged and time_major and batch > 1  # the interpreter, unless asymmetric
    leading = (time, batch) if time_major else (batch, time)
    leading = (batch,) if builtin == "RNN" else leading
    model = made.model
    x = model.tensor((*leading, inputs), "float32")
    operands, sizes = [x], [draw.pick(1, 2, 4, 7, 17) for _ in range(2 if both else 1)]
    for units in sizes:
        for depth in (inputs, units):
            operands.append(made.weights((units, depth)) if hybrid else made.floats((units, depth)))
        operands.append(made.floats((units,)))
        operands.append(model.tensor((batch, units), "float32", is_variable=True))
    shapes = [(*leading, sum(sizes))] if both and merged else [(*leading, units) for units in sizes]
    results = [model.tensor(shape, "float32") for shape in shapes]
    options = {
        "fused_activation_function": draw.pick("NONE", "RELU", "RELU6", "RELU_N1_TO_1", "TANH", "TANH"),
        "asymmetric_quantize_inputs": draw.pick(True, False) or ends,
    }
    options |= {"time_major": time_major} if builtin != "RNN" else {}
    options |= {"merge_outputs": merged} if both else {}
    made.notes.append(str((builtin, batch, inputs, time, sizes, hybrid, options)))
    model.operator(builtin, operands + [-1] * 3 if both else operands, results, 3, **options)
    feeds = [made.real((*leading, inputs), 1.5) for _ in range(INVOCATIONS)]
    return made.finish(x, results, feeds)


@generator("BIDIRECTIONAL LSTM")
def bidirectional_lstm(draw: Draw) -> OneOperator:
    """Two layers of the same form with float or 8-bit weights."""
    made, sizes = Recurrent(draw), LstmSizes.of(draw)
    model, hybrid, merged = made.model, draw.pick(True, False), draw.pick(True, False)
    time_major = True if merged and sizes.batch > 1 else sizes.time_major
    sizes = replace(sizes, sequence=True, norm=False, time_major=time_major)
    x = model.tensor((*sizes.leading, sizes.inputs), "float32")
    cells, outputs, states, operands = sizes.cells, sizes.outputs, [], [x]
    matrix = made.weights if hybrid else made.floats
    for _ in range(2):
        for shape in ((cells, sizes.inputs), (cells, outputs)):
            operands += [matrix(shape) if sizes.gates(i) else -1 for i in range(4)]
        operands += [matrix((cells,)) if sizes.peephole and sizes.gates(i) else -1 for i in range(3)]
        operands += [made.floats((cells,)) if sizes.gates(i) else -1 for i in range(4)]
        operands += [matrix((outputs, cells)) if sizes.projection else -1]
        operands += [made.floats((outputs,)) if sizes.projection and draw.pick(True, False) else -1]
        states += [
            model.tensor((sizes.batch, count), "float32", is_variable=True) for count in (outputs, cells)
        ]
    shapes = [(*sizes.leading, 2 * outputs)] if merged else [(*sizes.leading, outputs)] * 2
    results = [model.tensor(shape, "float32") for shape in shapes]
    options = sizes.options(draw) | {
        "merge_outputs": merged,
        "asymmetric_quantize_inputs": draw.pick(True, False),
    }
    made.notes.append(str((sizes, hybrid, options)))
    operands += [*states, *[-1] * 9]
    model.operator("BIDIRECTIONAL_SEQUENCE_LSTM", operands, results, 3, **options)
    feeds = [made.real((*sizes.leading, sizes.inputs), 1.5) for _ in range(INVOCATIONS)]
    return made.finish(x, results, feeds)


@generator("LSTM BASIC")
def lstm_basic(draw: Draw) -> OneOperator:
    """The kernel with all gates in one matrix, uint8; all four results are looked at."""
    made, batch = Recurrent(draw), draw.pick(1, 2, 3)
    inputs, cells = draw.pick(1, 3, 8, 17), draw.pick(1, 2, 4, 8, 9, 19)
    model, depth = made.model, inputs + cells
    x = model.tensor((batch, inputs), "uint8", 1 / 128, 128)
    h = model.tensor((batch, cells), "uint8", 1 / 128, 128, is_variable=True)
    codes = draw.rng.integers(0, 256, (4 * cells, depth)).astype(np.uint8)
    w = model.tensor((4 * cells, depth), "uint8", draw.scale(), draw.zero_point("uint8"), data=codes)
    b_scale = draw.scale(1e-6, 1e-3)
    b = model.tensor((4 * cells,), "int32", b_scale, data=made.ints((4 * cells,), "int32", 30000))
    c = model.tensor((batch, cells), "int16", 2.0**-11, is_variable=True)
    results = [
        model.tensor((batch, cells), "uint8", 1 / 128, 128),
        model.tensor((batch, cells), "int16", 2.0**-11),
        model.tensor((batch, depth), "uint8", 1 / 128, 128),
        model.tensor((batch, 4 * cells), "int16", 2.0**-12),
    ]
    made.notes.append(str((batch, inputs, cells, b_scale)))
    model.operator("LSTM", [x, h, w, b, c], results, 2, kernel_type="BASIC")
    feeds = [draw.rng.integers(0, 256, (batch, inputs)).astype(np.uint8) for _ in range(INVOCATIONS)]
    return made.finish(x, results, feeds)
