"""Ranges."""

from __future__ import annotations

from qimport.ir.graph import Value
from qimport.lower.rule import Emitter, Use, rule
from qimport.qnn.range import Range


@rule(Range)
def lower_range(emit: Emitter, op: Range, use: Use) -> Value:
    """A constant."""
    return emit.constant(op.evaluate(use.call)[0])
