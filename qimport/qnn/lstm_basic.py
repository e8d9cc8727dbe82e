"""``qnn.lstm_basic``: the LSTM operator's BASIC kernel on uint8."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from qimport import fixedpoint as fp
from qimport.fixedpoint import INT16_MAX, INT16_MIN, Int, Rounding, f32
from qimport.ir.check import require
from qimport.ir.graph import Array, Call, operation
from qimport.qnn.base import QnnOperation
from qimport.qnn.checks import require_per_tensor
from qimport.qnn.requantization import matrix_rounding

INPUT, STATE_H, WEIGHTS, BIAS, STATE_C = range(5)
"""Positions of the operands."""

ZERO_POINT = 128
"""Of x and h, whatever their quantization says."""

CELL_EXPONENT = -11
"""The cell state has the scale 2^-11: Q4.11."""


@operation
@dataclass(frozen=True)
class BasicLstm(QnnOperation):
    """One step of an LSTM whose gates are one matrix: input, update, forget, output.

    Operands: x uint8 [batch, inputs], h uint8 [batch, cells], w uint8 [4 cells, inputs + cells],
    b int32 [4 cells], c int16 [batch, cells]. Results: y, the next c, x beside h, the gates before their
    activation int16 [batch, 4 cells], and y and the next c once more, for the variables.

    With high_mul the rounding 16-bit product (``optimized_ops::LstmCell``, in all modes):

        a = sat16(mbqm_up(sum (w - z_w) ((x, h) - 128) + b, 4096 s_b))      ruy: see matrix_rounding
        i, f, o = logistic(a); g = tanh(a)                                  gemmlowp, Q3.12 to Q0.15
        c = sat16(rdbpot(high_mul(i, g), 4) + high_mul(f, c))
        y = clamp8(rdbpot(high_mul(o, tanh(sat16(2 c))), 8)) + 128

    C1 shapes are as above. C2 element types are as above; w has one scale. C3 the scale of the next c is
    2^-11.
    """

    NAME = "qnn.lstm_basic"
    TFLITE: ClassVar[tuple[str, ...]] = ("LSTM",)

    def verify(self, call: Call) -> None:
        """Check C1-C3."""
        x, h, w, b, c = (call.input(position) for position in range(5))
        require(len(x.shape) == len(h.shape) == 2 and x.shape[0] == h.shape[0], "C1", f"{x} beside {h}")
        (batch, cells), depth = h.shape, x.shape[1] + h.shape[1]
        require(w.shape == (4 * cells, depth), "C1", f"{w} must have shape {(4 * cells, depth)}")
        require(b.shape == (4 * cells,) and c.shape == h.shape, "C1", f"{b} or {c} does not fit")
        found = tuple(type_.shape for type_ in call.outputs)
        wanted = (h.shape, h.shape, (batch, depth), (batch, 4 * cells), h.shape, h.shape)
        require(found == wanted, "C1", f"results of shapes {found}, not {wanted}")
        dtypes = tuple(type_.dtype for type_ in (x, h, w, b, c, *call.outputs))
        kinds = (
            "uint8",
            "uint8",
            "uint8",
            "int32",
            "int16",
            "uint8",
            "int16",
            "uint8",
            "int16",
            "uint8",
            "int16",
        )
        require(dtypes == kinds, "C2", f"element types {dtypes}, not {kinds}")
        require_per_tensor("C2", w, b, call.outputs[1])
        exponent = math.log2(call.outputs[1].quant.scale)
        require(abs(exponent - CELL_EXPONENT) < 1e-3, "C3", f"{call.outputs[1]} needs the scale 2^-11")

    @staticmethod
    def factor(call: Call) -> tuple[int, int]:
        """(multiplier, exponent) of the gates."""
        return fp.quantize_multiplier(f32(4096 * call.input(BIAS).quant.scale))

    @staticmethod
    def rounding(call: Call) -> Rounding:
        """Of the gates' matrix product."""
        (batch, _), (outputs, depth) = call.input(INPUT).shape, call.input(WEIGHTS).shape
        return matrix_rounding(call.mode, batch, outputs, depth)

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """The formulas."""
        joined = np.concatenate([call.array(INPUT), call.array(STATE_H)], axis=1)
        w = call.array(WEIGHTS).astype(np.int64) - call.input(WEIGHTS).quant.zero_point
        acc = fp.wrap32((joined.astype(np.int64) - ZERO_POINT) @ w.T + call.array(BIAS))
        scaled = fp.rescale(acc, self.rounding(call), *map(np.array, self.factor(call)))
        gates = np.clip(scaled, INT16_MIN, INT16_MAX)
        admit, update, forget, opening = np.split(gates, 4, axis=1)
        added = fp.rounding_divide_by_pot(
            _high_mul(fp.logistic_int16(admit), fp.tanh_int16(update, 3)), 15 + CELL_EXPONENT
        )
        kept = _high_mul(fp.logistic_int16(forget), call.array(STATE_C).astype(np.int64))
        c = np.clip(added + kept, INT16_MIN, INT16_MAX)
        squashed = fp.tanh_int16(np.clip(2 * c, INT16_MIN, INT16_MAX), 3)
        code = fp.rounding_divide_by_pot(_high_mul(fp.logistic_int16(opening), squashed), 8)
        y = (np.clip(code, -128, 127) + ZERO_POINT).astype(np.uint8)
        state = c.astype(np.int16)
        return y, state, joined, gates.astype(np.int16), y, state


def _high_mul(a: Int, b: Int) -> Int:
    """gemmlowp's 16-bit product of numbers that are not both -2^15."""
    return np.asarray((a * b + 2**14) >> 15, np.int64)
