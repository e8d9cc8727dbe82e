"""Repetition."""

from __future__ import annotations

from qimport.ir.graph import Value
from qimport.lower.rule import Emitter, Use, rule
from qimport.qnn.tile import BroadcastTo, Tile


@rule(Tile)
def lower_tile(emit: Emitter, op: Tile, use: Use) -> Value:
    """Each dimension gets one of size 1 before it, which is stretched."""
    pairs = list(zip(op.multiples, use.operand(0).type.shape, strict=True))
    units = emit.reshape(use.operand(0), tuple(size for _, own in pairs for size in (1, own)))
    return emit.reshape(
        emit.broadcast(units, tuple(size for pair in pairs for size in pair)), use.output.shape
    )


@rule(BroadcastTo)
def lower_broadcast_to(emit: Emitter, _op: BroadcastTo, use: Use) -> Value:
    """``prim.broadcast``."""
    return emit.broadcast(use.operand(0), use.output.shape)
