"""Padding."""

from __future__ import annotations

from qimport import prim
from qimport.ir.graph import Value
from qimport.lower.rule import Emitter, Use, plain, rule
from qimport.qnn.pad import Pad


@rule(Pad)
def lower_pad(emit: Emitter, op: Pad, use: Use) -> Value:
    """``prim.pad`` with the code to fill with."""
    primitive = prim.Pad(op.before, op.after, op.fill(use.output))
    return emit.emit(primitive, (use.operand(0),), plain(use.output))
