"""One-hot vectors."""

from __future__ import annotations

from qimport.ir.graph import Value
from qimport.lower.rule import Emitter, Use, rule
from qimport.qnn.one_hot import OneHot


@rule(OneHot)
def lower_one_hot(emit: Emitter, op: OneHot, use: Use) -> Value:
    """Indices compared with the numbers along the new dimension, and a choice between the two values."""
    indices, shape = use.operand(0), use.output.shape
    unit = emit.reshape(indices, (*shape[: op.axis], 1, *shape[op.axis + 1 :]))
    hot = emit.compare("equal", unit, emit.constant(op.counting(use.call)))
    on, off = (emit.reshape(use.operand(i), (1,) * len(shape)) for i in (1, 2))
    return emit.select(hot, on, off)
