"""Boxes whose place is computed at run time."""

from __future__ import annotations

from qimport import prim
from qimport.ir.graph import Value
from qimport.lower.rule import Emitter, Use, plain, rule
from qimport.qnn.dynamic_slice import DynamicSlice, DynamicUpdateSlice


@rule(DynamicSlice)
def lower_dynamic_slice(emit: Emitter, _op: DynamicSlice, use: Use) -> Value:
    """``prim.dynamic_slice``."""
    return emit.emit(prim.DynamicSlice(), use.operands, plain(use.output))


@rule(DynamicUpdateSlice)
def lower_dynamic_update_slice(emit: Emitter, _op: DynamicUpdateSlice, use: Use) -> Value:
    """``prim.update_slice``."""
    return emit.emit(prim.UpdateSlice(), use.operands, plain(use.output))
