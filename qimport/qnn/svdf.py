"""``qnn.svdf``: a low-rank fully connected layer over a window of time, its memory operand and result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from qimport import fixedpoint as fp
from qimport import real
from qimport.fixedpoint import INT16_MAX, INT16_MIN, f32, quantize_multiplier
from qimport.ir.check import require
from qimport.ir.graph import Array, Call, operation
from qimport.qnn.base import QnnOperation
from qimport.qnn.checks import require_per_tensor
from qimport.qnn.row_quantization import quantize_rows
from qimport.summation import matrix_product

Factor = tuple[int, int]
Numbers = npt.NDArray[Any]

FLOAT_BOUNDS: dict[str, tuple[float, float]] = {
    "NONE": (-np.inf, np.inf),
    "RELU": (0.0, np.inf),
    "RELU6": (0.0, 6.0),
    "RELU_N1_TO_1": (-1.0, 1.0),
    "TANH": (-np.inf, np.inf),
}
"""Activations of floats, with the bounds of those that only bound."""

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
    The kernel demands the activation RELU and does not apply it.

        float32 (``EvalFloatSVDF``): new = sum x * w; y = activation(sum over rank (sum of time weights *
        state) + bias), every sum of n numbers in the order ``in_turn`` of :mod:`qimport.summation`.

        float32 with 8-bit weights (``EvalHybridSVDF``), one scale each: rows of x are quantized to int8
        (:func:`qimport.qnn.row_quantization.quantize_rows`, ``asymmetric`` or not), new = float32(integer
        sum) * float32(scale of the row * scale of w); the time weights become float32(code * scale). Codes
        of uint8 weights are read as int8.

    All modes run the same kernel.

    C1 ranks are 2 (bias 1) and shapes as above, the rank divides the filters. C2 element types are those of
    one of the three forms. C3 the activation is RELU in integers; NONE, RELU, RELU6, RELU_N1_TO_1 or TANH in
    floats.
    """

    NAME = "qnn.svdf"
    ARM64_FLOATS = ()
    TFLITE: ClassVar[tuple[str, ...]] = ("SVDF",)

    rank: int
    activation: str = "RELU"
    asymmetric: bool = False

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
        if call.input(INPUT).dtype == "float32":
            self._verify_floats(call)
            return
        expected = ("int8", "int8", "int16", "int32", "int16")
        for type_, dtype in zip(call.inputs, expected, strict=True):
            require(type_ is None or type_.dtype == dtype, "C2", f"{type_} must be {dtype}")
        require(y.dtype == "int8", "C2", f"{y} must be int8")
        require_per_tensor("C2", *(call.input(i) for i in (INPUT, FEATURE, TIME, STATE)), y)
        require(self.activation == "RELU", "C3", f"the activation is {self.activation}, not RELU")

    def _verify_floats(self, call: Call) -> None:
        weights = (call.input(FEATURE), call.input(TIME))
        for type_ in (call.inputs[BIAS], call.input(STATE), call.outputs[0]):
            require(type_ is None or type_.dtype == "float32", "C2", f"{type_} must be float32")
        if self.is_hybrid(call):
            require_per_tensor("C2", *weights)
            require(all(t.dtype in ("int8", "uint8") for t in weights), "C2", "weights must be 8-bit")
        else:
            require(weights[1].dtype == "float32", "C2", f"{weights[1]} must be float32")
        require(self.activation in FLOAT_BOUNDS, "C3", f"no activation {self.activation}")

    @staticmethod
    def is_hybrid(call: Call) -> bool:
        """Whether floats meet 8-bit weights."""
        return call.input(INPUT).dtype == "float32" != call.input(FEATURE).dtype

    def factors(self, call: Call) -> tuple[Factor, Factor]:
        """(multiplier, exponent) of the filters and of the results."""
        x, feature, time, state = (call.input(i).quant.scale for i in (INPUT, FEATURE, TIME, STATE))
        first = f32(f32(x * feature) / state)
        return quantize_multiplier(first), quantize_multiplier(
            f32(f32(state * time) / call.outputs[0].quant.scale)
        )

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """The formulas."""
        return self._floats(call) if call.input(INPUT).dtype == "float32" else self._integers(call)

    def _integers(self, call: Call) -> tuple[Array, ...]:
        shape, (first, second) = self.shape(call), self.factors(call)
        x, feature, time = (call.array(i).astype(np.int64) for i in (INPUT, FEATURE, TIME))
        sums = fp.wrap32((x - call.input(INPUT).quant.zero_point) @ feature.T)
        new = np.clip(fp.multiply_by_quantized_multiplier(sums, *first), INT16_MIN, INT16_MAX)
        memory = remember(call.array(STATE).astype(np.int64), new, shape)
        acc = (memory * time).reshape(shape.batch, shape.units, shape.window).sum(-1)
        if call.inputs[BIAS] is not None:
            acc = acc + call.array(BIAS)
        scaled = fp.multiply_by_quantized_multiplier(fp.wrap32(acc), *second)
        y = np.clip(fp.wrap32(scaled + call.outputs[0].quant.zero_point), -128, 127)
        return y.astype(np.int8), memory.reshape(call.input(STATE).shape).astype(np.int16)

    def _floats(self, call: Call) -> tuple[Array, ...]:
        shape, x, feature = self.shape(call), call.array(INPUT), call.array(FEATURE)
        if self.is_hybrid(call):
            rows = quantize_rows(x, asymmetric=self.asymmetric)
            new = rows.product(feature.view(np.int8), call.input(FEATURE).quant.scale)
        else:
            zeros = np.zeros(shape.filters, np.float32)
            new = matrix_product(x, feature.T, zeros, "in_turn")
        memory = remember(call.array(STATE), new, shape)
        weighted = (memory * self.time_weights(call, call.array(TIME))).reshape(-1, shape.memory)
        filters = sum_in_turn(weighted).reshape(-1, self.rank)
        y = sum_in_turn(filters).reshape(shape.batch, shape.units)
        if call.inputs[BIAS] is not None:
            y = y + call.array(BIAS)
        return self._activated(y), memory.reshape(call.input(STATE).shape)

    def time_weights(self, call: Call, weights: Numbers) -> Numbers:
        """Time weights of floats as real numbers."""
        if not self.is_hybrid(call):
            return weights
        return np.asarray(weights.view(np.int8).astype(np.float32) * np.float32(call.input(TIME).quant.scale))

    def _activated(self, y: Numbers) -> Numbers:
        if self.activation == "TANH":
            return real.apply("tanh_rational", y)
        low, high = FLOAT_BOUNDS[self.activation]
        return np.asarray(np.clip(y, np.float32(low), np.float32(high)))


def remember(state: Numbers, new: Numbers, shape: SvdfShape) -> Numbers:
    """The next state as [batch, filters, memory]: the oldest values leave, ``new`` [batch, filters] enter."""
    memory = state.reshape(shape.batch, shape.filters, shape.memory)
    return np.concatenate([memory[..., 1:], new[..., None]], axis=-1)


def sum_in_turn(x: Numbers) -> Numbers:
    """Sums of rows in the order of ``tensor_utils``."""
    count = x.shape[-1]
    return matrix_product(x, np.ones((count, 1), np.float32), np.zeros(1, np.float32), "in_turn")
