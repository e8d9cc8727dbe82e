"""Stacking."""

from __future__ import annotations

from qimport.ir.graph import Value
from qimport.lower.rule import Emitter, Use, rule
from qimport.qnn.pack import Pack


@rule(Pack)
def lower_pack(emit: Emitter, op: Pack, use: Use) -> Value:
    """Each operand gets a dimension of 1, then they are concatenated."""
    shape = use.call.input(0).shape
    unit = (*shape[: op.axis], 1, *shape[op.axis :])
    parts = [emit.reshape(use.operand(index), unit) for index in range(len(use.operands))]
    return emit.concat(parts, op.axis)
