"""The float32 arithmetic of the LSTM operators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from qimport import real
from qimport.ir.check import require
from qimport.ir.graph import Call
from qimport.qnn.lstm_shape import LstmShape, gate_operand
from qimport.qnn.optimized_product import optimized_product
from qimport.summation import Float32

PACKET = 4
"""Elements that Eigen's loops take at once."""

ACTIVATIONS: dict[str, tuple[float, float]] = {
    "TANH": (-np.inf, np.inf),
    "RELU": (0.0, np.inf),
    "RELU6": (0.0, 6.0),
    "RELU_N1_TO_1": (-1.0, 1.0),
}
"""Activations of the cell gate and of the cell state, with the bounds of those that only bound."""

PROJECTION = 16
"""Position of the projection weights; their bias follows."""

NORM_EPSILON = float(np.float32(1e-8))
"""Added to the variance in layer normalization."""

_SCRATCH = {True: ("input", "cell", "forget", "output"), False: ("cell", "forget", "output")}
"""Order of the gates in the kernel's scratch memory, with and without input gate."""


@dataclass(frozen=True)
class FloatLstm:
    """What ``lstm_eval.cc`` computes for float32, in each mode: the optimized kernels, whatever the mode.

        a = b, or 0 with layer normalization
        a = W x + a, then a = R h + a       Eigen's products, see ``qnn.optimized_product``
        a = a + p * c                       peepholes; two roundings, like all that follows
        a = (a - mean) * rsqrt(mean of squared differences + 1e-8) * L + b      layer normalization,
                                            sums one after the other
        i, f, o = logistic(a); g = activation(a)
        c = f * c + g * i, clipped to cell_clip; CIFG: i = 1 - f
        v = o * activation(c); h = v, or P v + b_p, clipped to proj_clip

    Products are formed of all batches at once in time-major order, of one batch at a time otherwise.
    Logistic and tanh are those of ``qimport.real.eigen``; elements of logistic that lie outside whole packets
    of four in the kernel's scratch memory take its other form.

    C3 all tensors are float32. C4 the activation is TANH, RELU, RELU6 or RELU_N1_TO_1.
    """

    shape: LstmShape
    activation: str
    cell_clip: float
    proj_clip: float
    input_gate: bool

    def verify(self, call: Call) -> None:
        """Check C3, C4."""
        for type_ in (*call.inputs, *call.outputs):
            require(type_ is None or type_.dtype == "float32", "C3", f"{type_} is not float32")
        require(self.activation in ACTIVATIONS, "C4", f"the activation {self.activation} has no kernel")

    @property
    def rows(self) -> int:
        """How many batches one matrix product takes."""
        return self.shape.batch if self.shape.time_major else 1

    def lone_elements(self, gate: str) -> npt.NDArray[np.bool_]:
        """Which of [batch, cells] results of a gate's logistic are computed outside packets."""
        cells, batch = self.shape.cells, self.shape.batch
        base = _SCRATCH[self.input_gate].index(gate) * batch * cells
        size = batch * cells if self.shape.time_major else cells
        lone = np.ones(batch * cells, bool)
        for start in range(0, batch * cells, size):
            first = start + -(base + start) % PACKET
            whole = max(start + size - first, 0) // PACKET * PACKET
            lone[first : first + whole] = False
        return lone.reshape(batch, cells)

    def run(
        self, steps: Sequence[Float32], arrays: Sequence[Float32 | None]
    ) -> tuple[list[Float32], Float32, Float32]:
        """h after every step, then the last h and c."""
        batch, cells = self.shape.batch, self.shape.cells
        h, c = arrays[18], arrays[19]
        assert h is not None and c is not None
        h, c = h.reshape(batch, self.shape.outputs), c.reshape(batch, cells)
        outputs: list[Float32] = []
        with np.errstate(all="ignore"):
            for x in steps:
                h, c = self._step(x, h, c, arrays)
                outputs.append(h)
        return outputs, h, c

    def _step(
        self, x: Float32, h: Float32, c: Float32, arrays: Sequence[Float32 | None]
    ) -> tuple[Float32, Float32]:
        forget = self._logistic("forget", self._gate("forget", x, h, c, arrays))
        update = self._activate(self._gate("cell", x, h, c, arrays))
        if self.input_gate:
            admit = self._logistic("input", self._gate("input", x, h, c, arrays))
        else:
            admit = np.float32(1) - forget
        c = forget * c + update * admit
        if self.cell_clip > 0:
            c = np.clip(c, -np.float32(self.cell_clip), np.float32(self.cell_clip))
        opening = self._logistic("output", self._gate("output", x, h, c, arrays))
        hidden = opening * self._activate(c)
        bias = arrays[PROJECTION + 1]
        if arrays[PROJECTION] is None:
            return hidden, c
        h = self.product(hidden, PROJECTION, arrays) + (np.float32(0) if bias is None else bias)
        if self.proj_clip > 0:
            h = np.clip(h, -np.float32(self.proj_clip), np.float32(self.proj_clip))
        return h, c

    def _gate(
        self, gate: str, x: Float32, h: Float32, c: Float32, arrays: Sequence[Float32 | None]
    ) -> Float32:
        b, norm = (arrays[gate_operand(gate, kind)] for kind in ("bias", "norm"))
        assert b is not None
        first = np.float32(0) if norm is not None else b
        a = self.product(x, gate_operand(gate, "input"), arrays) + first
        a = self.product(h, gate_operand(gate, "recurrent"), arrays) + a
        position = gate_operand(gate, "peephole")
        peephole = arrays[position] if position >= 0 else None
        if peephole is not None:
            a = a + self.peephole(peephole, position) * c
        return np.asarray(a if norm is None else layer_norm(a) * norm + b)

    def product(self, x: Float32, position: int, arrays: Sequence[Float32 | None]) -> Float32:
        """x [batch, K] times the transposed weights at ``position``."""
        w = arrays[position]
        assert w is not None
        if self.rows == 1:
            return np.concatenate([optimized_product(row[None], w.T) for row in x])
        return optimized_product(x, w.T)

    def peephole(self, weights: Float32, position: int) -> Float32:
        """Peephole weights as real numbers."""
        return weights

    def _logistic(self, gate: str, a: Float32) -> Float32:
        lone = self.lone_elements(gate)
        apart = real.apply("logistic_by_element", a)
        return np.where(lone, apart, real.apply("logistic_in_packets", a))

    def _activate(self, a: Float32) -> Float32:
        if self.activation == "TANH":
            return real.apply("tanh_rational", a)
        low, high = ACTIVATIONS[self.activation]
        return np.clip(a, np.float32(low), np.float32(high))


def layer_norm(a: Float32) -> Float32:
    """``PortableMeanStddevNormalization`` of rows."""
    count = np.float32(a.shape[-1])
    centered = a - np.cumsum(a, axis=-1, dtype=np.float32)[..., -1:] / count
    squares = np.cumsum(centered * centered, axis=-1, dtype=np.float32)[..., -1:] / count
    return np.asarray(centered * (np.float32(1) / np.sqrt(squares + np.float32(NORM_EPSILON))))
