"""CAST: one primitive, or two by way of float32."""

from __future__ import annotations

from qimport.ir.graph import Value
from qimport.lower.rule import Emitter, Use, rule
from qimport.qnn.cast import Cast


@rule(Cast)
def lower_cast(emit: Emitter, op: Cast, use: Use) -> Value:
    """``prim.cast`` for every step; nothing where the type stays."""
    x = use.operand(0)
    for dtype in op.steps(x.type.dtype, use.output.dtype):
        x = x if x.type.dtype == dtype else emit.cast(x, dtype)
    return x
