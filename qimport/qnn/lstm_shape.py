"""Sizes and operand positions that all arithmetics of the LSTM operators share."""

from __future__ import annotations

from dataclasses import dataclass

from qimport.ir.graph import Array

GATES = ("input", "forget", "cell", "output")
"""The gates in the order of their operands."""

_POSITIONS = {
    "input": (1, 2, 3, 4),
    "recurrent": (5, 6, 7, 8),
    "peephole": (9, 10, -1, 11),
    "bias": (12, 13, 14, 15),
    "norm": (20, 21, 22, 23),
}


def gate_operand(gate: str, kind: str) -> int:
    """Position of an operand of a gate: ``kind`` is input, recurrent, peephole, bias or norm; -1 for none."""
    return _POSITIONS[kind][GATES.index(gate)]


@dataclass(frozen=True)
class LstmShape:
    """Sizes of one use; ``time_major`` says which of time and batch comes first in x and y."""

    time: int
    batch: int
    inputs: int
    cells: int
    outputs: int
    time_major: bool

    def steps(self, x: Array) -> list[Array]:
        """x as one [batch, inputs] array per step."""
        first, second = (self.time, self.batch) if self.time_major else (self.batch, self.time)
        cube = x.reshape(first, second, self.inputs)
        return list(cube if self.time_major else cube.transpose(1, 0, 2))

    def sequence(self, y: Array) -> Array:
        """[time, batch, outputs] in the order of the result."""
        return y if self.time_major else y.transpose(1, 0, 2)
