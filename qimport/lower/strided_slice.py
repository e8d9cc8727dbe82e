"""Strided slices."""

from __future__ import annotations

from qimport.ir.graph import Value
from qimport.lower.rule import Emitter, Use, rule
from qimport.qnn.strided_slice import StridedSlice


@rule(StridedSlice)
def lower_strided_slice(emit: Emitter, op: StridedSlice, use: Use) -> Value:
    """``prim.slice``, then a reshape that drops or adds dimensions."""
    return emit.reshape(emit.slice(use.operand(0), op.begin, op.size, op.stride), use.output.shape)
