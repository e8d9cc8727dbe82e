"""Concatenation: uint8 operands of another scale go through a table first."""

from __future__ import annotations

from qimport.ir.graph import Value
from qimport.lower.rule import Emitter, Use, rule
from qimport.qnn.concat import Concat


@rule(Concat)
def lower_concat(emit: Emitter, op: Concat, use: Use) -> Value:
    """One ``prim.lut`` per operand that changes codes, then ``prim.concat``."""
    parts = []
    for index in range(len(use.operands)):
        part, source = use.operand(index), use.call.input(index)
        if op.converts(source, use.output):
            part = emit.lut(part, op.conversion_table(source, use.output))
        parts.append(part)
    return emit.concat(parts, op.axis)
