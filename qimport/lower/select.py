"""SELECT and SELECT_V2: one primitive."""

from __future__ import annotations

from qimport.ir.graph import Value
from qimport.lower.arithmetic import ranked
from qimport.lower.rule import Emitter, Use, rule
from qimport.qnn.select import Select


@rule(Select)
def lower_select(emit: Emitter, op: Select, use: Use) -> Value:
    """``prim.select``."""
    condition, a, b = (ranked(emit, use.operand(index)) for index in range(3))
    return emit.reshape(emit.select(condition, a, b), use.output.shape)
