"""Padding."""

from __future__ import annotations

import numpy as np

from qimport import prim
from qimport.ir.graph import Value
from qimport.lower.rule import Emitter, Use, plain, rule
from qimport.qnn.pad import Pad


@rule(Pad)
def lower_pad(emit: Emitter, op: Pad, use: Use) -> Value:
    """``prim.pad`` with the code to fill with; one known at run time is spread first, and x put into it."""
    if len(use.operands) > 1:
        shape = use.output.shape
        value = emit.reshape(use.operand(1), (1,) * len(shape))
        filled = emit.broadcast(_cleared(emit, value) if op.clears(use.call) else value, shape)
        begin = emit.constant(np.array(op.before, np.int32))
        return emit.emit(prim.UpdateSlice(), (filled, use.operand(0), begin), plain(use.output))
    return emit.pad(use.operand(0), op.before, op.after, op.fill(use.call))


def _cleared(emit: Emitter, value: Value) -> Value:
    """The value, but 0.0 for -0.0."""
    wide = emit.cast(value, "float32") if value.type.dtype == "float16" else value
    zero = emit.constant(np.zeros(value.type.shape, value.type.numpy))
    return emit.select(emit.compare("equal", wide, 0.0), zero, value)
