"""Transposition."""

from __future__ import annotations

from qimport.ir.graph import Value
from qimport.lower.rule import Emitter, Use, rule
from qimport.qnn.transpose import Transpose


@rule(Transpose)
def lower_transpose(emit: Emitter, op: Transpose, use: Use) -> Value:
    """``prim.transpose``."""
    return emit.transpose(use.operand(0), op.permutation)
