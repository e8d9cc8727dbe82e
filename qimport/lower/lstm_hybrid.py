"""The steps of a float LSTM with 8-bit weights; :class:`qimport.qnn.lstm_hybrid.HybridLstm` says how."""

from __future__ import annotations

import numpy as np

from qimport.errors import CompilerBug
from qimport.ir.graph import Array, Value
from qimport.lower.lstm_float import FloatSteps
from qimport.lower.row_quantization import emit_row_product, emit_row_quantization
from qimport.qnn.lstm_hybrid import HybridLstm
from qimport.qnn.lstm_shape import GATES, gate_operand


class HybridSteps(FloatSteps):
    """Products of all gates at once, those with x for all steps before the first."""

    lstm: HybridLstm

    def input_products(self, x: Value) -> Value:
        """float32 [rows, gates * cells]."""
        return self._weighted(x, self._positions("input"))

    def of_gates(self, x: Value, kind: str) -> dict[str, Value]:
        """Each gate's part of the products; those with x are there already."""
        joined = x if kind == "input" else self._weighted(x, self._positions(kind))
        batch, cells = self.lstm.shape.batch, self.lstm.shape.cells
        return {
            gate: self.emit.slice(joined, (0, number * cells), (batch, cells), (1, 1))
            for number, gate in enumerate(self._gates)
        }

    def product(self, x: Value, position: int) -> Value:
        """x [batch, K] times the weights at one position."""
        return self._weighted(x, [position])

    def peephole(self, position: int) -> Value:
        """Codes times their scale."""
        return self.emit.constant(self.lstm.peephole(self._codes(position), position))

    @property
    def _gates(self) -> tuple[str, ...]:
        return GATES if self.lstm.input_gate else GATES[1:]

    def _positions(self, kind: str) -> list[int]:
        return [gate_operand(gate, kind) for gate in self._gates]

    def _weighted(self, x: Value, positions: list[int]) -> Value:
        """x [rows, K] times weights one below the other."""
        matrices, scales = [], []
        for position in positions:
            matrices.append(self._codes(position).view(np.int8))
            scales.append(np.full(len(matrices[-1]), self.lstm.scales[position], np.float32))
        rows = emit_row_quantization(self.emit, x, asymmetric=self.lstm.asymmetric)
        return emit_row_product(self.emit, rows, np.concatenate(matrices), np.concatenate(scales))

    def _codes(self, position: int) -> Array:
        data = self.use.operand(position).data
        if data is None:
            raise CompilerBug(f"the weights at {position} are not constant")
        return data
