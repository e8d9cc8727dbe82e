"""The int8 arithmetic of the LSTM operators: 8-bit tensors, 16-bit gates and cell state."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from qimport import fixedpoint as fp
from qimport.fixedpoint import INT16_MAX, INT16_MIN, Int, f32, quantize_multiplier
from qimport.ir.check import require
from qimport.ir.graph import Array, Call
from qimport.ir.types import TensorType
from qimport.qnn.checks import require_per_tensor
from qimport.qnn.lstm_shape import GATES, LstmShape, gate_operand
from qimport.qnn.quantize import in_blocks

Factor = tuple[int, int]
"""A fixed-point factor: (multiplier, exponent)."""

GATE_SCALE = 2.0**-12
"""Scale of the gates before their activation where layer normalization does not choose another: Q3.12."""

PEEPHOLE_BLOCK = 16
"""Peephole products in whole blocks of this many are shifted with ties up, the others with ties away."""

PROJECTION_BLOCK = 16
"""Elements of the flat projection that the ARM build shifts at a time, with ties up."""


@dataclass(frozen=True)
class IntegerGate:
    """Factors of one gate: input and recurrent products, peephole, layer normalization (None: absent).

    ``guard`` stands in for a variance below 1.
    """

    name: str
    input_factor: Factor
    recurrent_factor: Factor
    peephole_factor: Factor | None
    norm_factor: Factor | None
    guard: int

    def position(self, kind: str) -> int:
        """Position of one of the gate's operands."""
        return gate_operand(self.name, kind)


@dataclass(frozen=True)
class IntegerLstm:
    """What ``lstm_eval.cc`` computes as 8x8_16, in each mode.

    With mbqm = ``multiply_by_quantized_multiplier`` (ties away), all gates as int16 in Q3.12:

        a = sat16(mbqm(sum W (x - z_x) + b))        s_x s_W / 2^-12
        a = sat16(a + mbqm(sum R (h - z_h)))        s_h s_R / 2^-12
        a = sat16(a + mbqm(p * c))                  2^l s_p / 2^-12, peepholes
        i, f, o = logistic(a); g = tanh(a)          the 16-bit functions of gemmlowp, Q0.15
        c = sat16(rdbpot(f * c, 15) + rdbpot(i * g, 30 + l)), clipped to cell_clip / 2^l, cut off
        v = clamp8(mbqm(o * tanh(c)) + z_hidden)    2^-15 / s_hidden * 2^-15; h = v

    2^l is the scale of the cell state. CIFG: i = 32767 - f. Scales are formed in float32.

    Projection: v is formed with MINUS z_hidden, then h = clamp8(mbqm(sum P (v + z_hidden) + b_p) + z_h),
    factor s_P s_hidden / s_h, clipped to proj_clip / s_y, cut off, as a code without zero point.

    Peepholes: whole blocks of 16 cells are shifted with ties up. They cover as many cells as there are
    outputs: of all batches together in time-major order, of each batch otherwise.

    Layer normalization: the gate scale is that of the intermediate tensor, b is left out of the first sum,
    and before its activation a gate becomes, over the cells of a batch,

        mean = trunc(1024 sum(a) / cells); v = trunc((sum(a^2) (2^20 div cells) - mean^2) / 2^20)
        r = mbqm(1024 a - mean, 1 / sqrt(v)), the guard max(1, trunc(10000 s_L)) for a v below 1
        a = sat16(mbqm(round_away((r L + b) / 1024), s_L 2^12))
    """

    shape: LstmShape
    gates: tuple[IntegerGate, ...]
    input_zero: int
    state_zero: int
    cell_exponent: int
    hidden_factor: Factor
    hidden_zero: int
    projection_factor: Factor | None
    cell_clip: int
    proj_clip: int
    arm64: bool

    @classmethod
    def of(
        cls,
        shape: LstmShape,
        inputs: Sequence[TensorType | None],
        output: TensorType,
        gate_scales: Sequence[float],
        hidden: tuple[float, int],
        clips: tuple[float, float],
        arm64: bool,
    ) -> IntegerLstm:
        """Parameters from types; the caller has checked which operands are there."""
        x, h, c, projection = (_found(inputs, position) for position in (0, 18, 19, 16))
        assert x is not None and h is not None and c is not None
        exponent = _log2(c.quant.scale)
        gates = []
        for name in GATES:
            if inputs[gate_operand(name, "input")] is not None:
                gates.append(_gate(name, inputs, gate_scales, exponent))
        one = 2.0**-15 / f32(hidden[0]) * 2.0**-15
        factor = None if projection is None else _product(projection.quant.scale, hidden[0], h.quant.scale)
        cell_clip = np.clip(np.float32(clips[0]) / np.float32(c.quant.scale), INT16_MIN, INT16_MAX)
        proj_clip = np.clip(np.float32(clips[1]) / np.float32(output.quant.scale), -128, 127)
        return cls(
            shape,
            tuple(gates),
            x.quant.zero_point,
            h.quant.zero_point,
            exponent,
            quantize_multiplier(f32(one)),
            hidden[1],
            factor,
            int(cell_clip) if clips[0] > 0 else 0,
            int(proj_clip) if clips[1] > 0 else 0,
            arm64,
        )

    def verify(self, call: Call) -> None:
        """Check element types and what the kernel cannot compute (C3)."""
        kinds = {"input": "int8", "recurrent": "int8", "peephole": "int16", "bias": "int32", "norm": "int16"}
        expected = {0: "int8", 16: "int8", 17: "int32", 18: "int8", 19: "int16"}
        for kind, dtype in kinds.items():
            expected.update({gate_operand(gate, kind): dtype for gate in GATES})
        for position, dtype in expected.items():
            found = call.inputs[position] if position >= 0 else None
            if found is not None:
                require(found.dtype == dtype, "C3", f"operand {position} is {found}, not {dtype}")
                require(found.quantization is not None or dtype == "int32", "C3", f"{found} has no scale")
        require_per_tensor("C3", call.input(0), call.input(18), call.input(19), call.outputs[0])
        require(call.outputs[0].dtype == "int8", "C3", f"the result is {call.outputs[0]}, not int8")
        require(-15 <= self.cell_exponent <= -9, "C3", "the cell state's scale must be 2^-15 to 2^-9")
        reaches = self.gates[-1].peephole_factor is None or self.shape.outputs <= self.shape.cells
        require(reaches, "C3", "peepholes with more outputs than cells read beyond their weights")

    def run(self, steps: Sequence[Array], arrays: Sequence[Array | None]) -> tuple[list[Int], Int, Int]:
        """h after every step, then the last h and c."""
        batch, cells = self.shape.batch, self.shape.cells
        operands = [None if array is None else array.astype(np.int64) for array in arrays]
        h, c = operands[18], operands[19]
        assert h is not None and c is not None
        h, c = h.reshape(batch, self.shape.outputs), c.reshape(batch, cells)
        outputs = []
        for x in steps:
            h, c = self._step(x.astype(np.int64), h, c, operands)
            outputs.append(h)
        return outputs, h, c

    def _step(self, x: Int, h: Int, c: Int, operands: Sequence[Int | None]) -> tuple[Int, Int]:
        before = {gate.name: self._gate(gate, x, h, operands) for gate in self.gates if gate.name != "output"}
        forget = fp.logistic_int16(self._finish(self.gates[-3], before["forget"], c, operands))
        update = fp.tanh_int16(self._finish(self.gates[-2], before["cell"], None, operands), 3)
        admit: Int = INT16_MAX - forget
        if "input" in before:
            admit = fp.logistic_int16(self._finish(self.gates[0], before["input"], c, operands))
        kept = fp.rounding_divide_by_pot(forget * c, 15)
        added = fp.rounding_divide_by_pot(admit * update, 30 + self.cell_exponent)
        c = _sat16(kept + added)
        if self.cell_clip > 0:
            c = np.clip(c, -self.cell_clip, self.cell_clip)
        opening = self._finish(self.gates[-1], self._gate(self.gates[-1], x, h, operands), c, operands)
        product = fp.logistic_int16(opening) * fp.tanh_int16(c, 15 + self.cell_exponent)
        hidden = _mbqm(product, self.hidden_factor)
        projection, bias = operands[16], operands[17]
        if projection is None or self.projection_factor is None:
            return _sat8(hidden + self.hidden_zero), c
        hidden = _sat8(hidden - self.hidden_zero) + self.hidden_zero
        acc = fp.wrap32(hidden @ projection.T + (0 if bias is None else bias))
        scaled = _mbqm(acc, self.projection_factor)
        if self.arm64:
            up = fp.multiply_by_quantized_multiplier(acc, *self.projection_factor, "double_up")
            scaled = in_blocks(PROJECTION_BLOCK, up, scaled)
        h = _sat8(fp.wrap32(scaled + self.state_zero))
        return (np.clip(h, -self.proj_clip, self.proj_clip) if self.proj_clip > 0 else h), c

    def _gate(self, gate: IntegerGate, x: Int, h: Int, operands: Sequence[Int | None]) -> Int:
        """Input and recurrent products."""
        w, r, b = (operands[gate.position(kind)] for kind in ("input", "recurrent", "bias"))
        assert w is not None and r is not None and b is not None
        bias = b if gate.norm_factor is None else 0
        a = _sat16(_mbqm(fp.wrap32((x - self.input_zero) @ w.T + bias), gate.input_factor))
        recurrent = fp.wrap32((h - self.state_zero) @ r.T)
        return _sat16(fp.wrap32(a + _mbqm(recurrent, gate.recurrent_factor)))

    def _finish(self, gate: IntegerGate, a: Int, c: Int | None, operands: Sequence[Int | None]) -> Int:
        """Peephole and layer normalization."""
        weights = operands[gate.position("peephole")] if gate.position("peephole") >= 0 else None
        if weights is not None and c is not None and gate.peephole_factor is not None:
            a = self._peephole(a, c, weights, gate.peephole_factor)
        norm, bias = operands[gate.position("norm")], operands[gate.position("bias")]
        if norm is None or bias is None or gate.norm_factor is None:
            return a
        return fp.layer_norm_int16(a, norm, bias, gate.norm_factor, gate.guard)

    def _peephole(self, a: Int, c: Int, weights: Int, factor: Factor) -> Int:
        """``NeonVectorBatchVectorCwiseProductAccumulate`` over as many cells as there are outputs."""
        outputs, batch = self.shape.outputs, self.shape.batch
        product = self._leading(c) * weights[:outputs]
        scaled = fp.multiply_by_quantized_multiplier(product, *factor)
        whole = outputs - outputs % PEEPHOLE_BLOCK
        up = fp.multiply_by_quantized_multiplier(product[:, :whole], *factor, "double_up")
        scaled[:, :whole] = up
        seen = _sat16(self._leading(a) + scaled)
        a = a.copy()
        if self.shape.time_major:
            a.reshape(-1)[: batch * outputs] = seen.reshape(-1)
        else:
            a[:, :outputs] = seen
        return a

    def _leading(self, state: Int) -> Int:
        """The part of a [batch, cells] array that peepholes see, as [batch, outputs]."""
        outputs, batch = self.shape.outputs, self.shape.batch
        if self.shape.time_major:
            return state.reshape(-1)[: batch * outputs].reshape(batch, outputs)
        return state[:, :outputs]


def _gate(
    name: str, inputs: Sequence[TensorType | None], gate_scales: Sequence[float], exponent: int
) -> IntegerGate:
    x, h = _found(inputs, 0), _found(inputs, 18)
    w, r, p, norm = (
        _found(inputs, gate_operand(name, kind)) for kind in ("input", "recurrent", "peephole", "norm")
    )
    assert x is not None and h is not None and w is not None and r is not None
    scale = GATE_SCALE if norm is None else gate_scales[GATES.index(name)]
    peephole = None if p is None else quantize_multiplier(f32(2.0**exponent * p.quant.scale / f32(scale)))
    return IntegerGate(
        name,
        _product(w.quant.scale, x.quant.scale, scale),
        _product(r.quant.scale, h.quant.scale, scale),
        peephole,
        None if norm is None else quantize_multiplier(norm.quant.scale),
        1 if norm is None else max(1, int(f32(10000 * norm.quant.scale))),
    )


def _found(inputs: Sequence[TensorType | None], position: int) -> TensorType | None:
    return inputs[position] if position >= 0 else None


def _product(a: float, b: float, divisor: float) -> Factor:
    """a * b / divisor in float32 steps."""
    return quantize_multiplier(f32(f32(a * b) / f32(divisor)))


def _log2(scale: float) -> int:
    """The exponent of a power of two within the kernel's tolerance, else 0, which no cell state has."""
    exponent = round(math.log2(scale))
    return exponent if abs(math.log2(scale) - exponent) < 1e-3 else 0


def _mbqm(value: Int, factor: Factor) -> Int:
    return fp.multiply_by_quantized_multiplier(value, *factor)


def _sat16(value: Int) -> Int:
    return np.clip(value, INT16_MIN, INT16_MAX)


def _sat8(value: Int) -> Int:
    return np.clip(value, -128, 127)
