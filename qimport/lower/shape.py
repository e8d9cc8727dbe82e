"""Shapes."""

from __future__ import annotations

from qimport.ir.graph import Value
from qimport.lower.rule import Emitter, Use, rule
from qimport.qnn.shape import BroadcastArgs, Rank, Shape


@rule(Shape)
def lower_shape(emit: Emitter, op: Shape, use: Use) -> Value:
    """A constant."""
    return emit.constant(op.evaluate(use.call)[0])


@rule(Rank)
def lower_rank(emit: Emitter, op: Rank, use: Use) -> Value:
    """A constant."""
    return emit.constant(op.evaluate(use.call)[0])


@rule(BroadcastArgs)
def lower_broadcast_args(emit: Emitter, _op: BroadcastArgs, use: Use) -> Value:
    """The larger of two sizes each, the shorter operand having ones in front."""
    size = use.output.size
    a, b = (emit.pad(x, (size - x.type.size,), (0,), 1) for x in (use.operand(0), use.operand(1)))
    return emit.binary("max", a, b)
