"""Shape."""

from __future__ import annotations

from qimport.ir.graph import Value
from qimport.lower.rule import Emitter, Use, rule
from qimport.qnn.shape import Shape


@rule(Shape)
def lower_shape(emit: Emitter, op: Shape, use: Use) -> Value:
    """A constant."""
    return emit.constant(op.evaluate(use.call)[0])
