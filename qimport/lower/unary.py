"""8-bit functions become table lookups."""

from __future__ import annotations

from qimport.ir.graph import Value
from qimport.lower.rule import Emitter, Use, rule
from qimport.lower.tables import emit_table
from qimport.qnn.unary import UNARY, UnaryOperation


def lower_unary(emit: Emitter, op: UnaryOperation, use: Use) -> Value:
    """One ``prim.lut``."""
    return emit_table(emit, op, use)


for _operation in UNARY:
    rule(_operation)(lower_unary)
