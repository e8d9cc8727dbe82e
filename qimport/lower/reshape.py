"""Reshape."""

from __future__ import annotations

from qimport.ir.graph import Value
from qimport.lower.rule import Emitter, Use, rule
from qimport.qnn.reshape import Reshape


@rule(Reshape)
def lower_reshape(emit: Emitter, _op: Reshape, use: Use) -> Value:
    """``prim.reshape``."""
    return emit.reshape(use.operand(0), use.output.shape)
