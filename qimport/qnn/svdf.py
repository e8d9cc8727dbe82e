"""``qnn.svdf``: a low-rank fully connected layer over a window of time, its memory operand and result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from qimport import fixedpoint as fp
from qimport.fixedpoint import INT16_MAX, INT16_MIN, f32, quantize_multiplier
from qimport.ir.check import require
from qimport.ir.graph import Array, Call, operation
from qimport.qnn.base import QnnOperation
from qimport.qnn.checks import require_per_tensor

Factor = tuple[int, int]

INPUT, FEATURE, TIME, BIAS, STATE = range(5)
"""Positions of the operands."""


@dataclass(frozen=True)
class SvdfShape:
    """Sizes of one use: ``filters`` are ``units`` times the rank."""

    batch: int
    inputs: int
    filters: int
    units: int
    memory: int

    @property
    def window(self) -> int:
        """Products per unit: rank * memory."""
        return self.filters // self.units * self.memory


@operation
@dataclass(frozen=True)
class Svdf(QnnOperation):
    """Filters of the input, remembered for some calls, weighted over time and summed over the rank.

    Operands: x [batch, inputs], feature weights [units * rank, inputs], time weights [units * rank, memory],
    bias [units] or None, state [batch, units * rank * memory]. Results: y [batch, units], the next state.

    In the next state every filter's memory moves by one, the oldest value leaves, the newest comes last:

        int8 (``EvalIntegerSVDF``), state int16 with zero point 0, time weights int16, bias int32:
        new = sat16(mbqm(sum (x - z_x) * w))                        s_x s_w / s_state
        y   = clamp8(mbqm(bias + sum of time weights * state) + z_y)    s_state s_time / s_y

    with mbqm = ``multiply_by_quantized_multiplier`` (ties away), scales formed in float32, sums modulo 2^32.
    The kernel demands the activation RELU and does not apply it. All modes run the same kernel.

    C1 ranks are 2 (bias 1) and shapes as above, the rank divides the filters. C2 element types as above.
    C3 the activation is RELU.
    """

    NAME = "qnn.svdf"
    TFLITE: ClassVar[tuple[str, ...]] = ("SVDF",)

    rank: int
    activation: str = "RELU"

    def shape(self, call: Call) -> SvdfShape:
        """The sizes of this use."""
        x, feature, time = (call.input(position) for position in (INPUT, FEATURE, TIME))
        matrices = all(len(type_.shape) == 2 for type_ in (x, feature, time))
        require(matrices, "C1", "the input and both weights must have rank 2")
        filters = feature.shape[0]
        divides = self.rank > 0 and filters % self.rank == 0
        require(divides, "C1", f"{filters} filters are not divisible by the rank {self.rank}")
        return SvdfShape(x.shape[0], x.shape[1], filters, filters // self.rank, time.shape[1])

    def verify(self, call: Call) -> None:
        """Check C1-C3."""
        shape = self.shape(call)
        bias, state, y = call.inputs[BIAS], call.input(STATE), call.outputs[0]
        require(
            call.input(FEATURE).shape[1] == shape.inputs, "C1", "the feature weights do not fit the input"
        )
        require(call.input(TIME).shape[0] == shape.filters, "C1", "the time weights do not fit the filters")
        require(bias is None or bias.shape == (shape.units,), "C1", f"{bias} is no bias of {shape.units}")
        wanted = (shape.batch, shape.filters * shape.memory)
        require(state.shape == wanted, "C1", f"the state {state} must have shape {wanted}")
        require(y.shape == (shape.batch, shape.units), "C1", f"the result {y} does not fit")
        require(call.outputs[1] == state, "C1", "the state keeps its type")
        expected = ("int8", "int8", "int16", "int32", "int16")
        for type_, dtype in zip(call.inputs, expected, strict=True):
            require(type_ is None or type_.dtype == dtype, "C2", f"{type_} must be {dtype}")
        require(y.dtype == "int8", "C2", f"{y} must be int8")
        require_per_tensor("C2", *(call.input(i) for i in (INPUT, FEATURE, TIME, STATE)), y)
        require(self.activation == "RELU", "C3", f"the activation is {self.activation}, not RELU")

    def factors(self, call: Call) -> tuple[Factor, Factor]:
        """(multiplier, exponent) of the filters and of the results."""
        x, feature, time, state = (call.input(i).quant.scale for i in (INPUT, FEATURE, TIME, STATE))
        first = f32(f32(x * feature) / state)
        return quantize_multiplier(first), quantize_multiplier(
            f32(f32(state * time) / call.outputs[0].quant.scale)
        )

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """The formulas."""
        shape, (first, second) = self.shape(call), self.factors(call)
        x, feature, time, state = (call.array(i).astype(np.int64) for i in (INPUT, FEATURE, TIME, STATE))
        sums = fp.wrap32((x - call.input(INPUT).quant.zero_point) @ feature.T)
        new = np.clip(fp.multiply_by_quantized_multiplier(sums, *first), INT16_MIN, INT16_MAX)
        memory = state.reshape(shape.batch, shape.filters, shape.memory)
        memory = np.concatenate([memory[..., 1:], new[..., None]], axis=-1)
        acc = (memory * time).reshape(shape.batch, shape.units, shape.window).sum(-1)
        if call.inputs[BIAS] is not None:
            acc = acc + call.array(BIAS)
        scaled = fp.multiply_by_quantized_multiplier(fp.wrap32(acc), *second)
        y = np.clip(fp.wrap32(scaled + call.outputs[0].quant.zero_point), -128, 127)
        return y.astype(np.int8), memory.reshape(state.shape).astype(np.int16)
