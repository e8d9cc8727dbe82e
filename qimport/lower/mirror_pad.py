"""Mirrored padding."""

from __future__ import annotations

from qimport.ir.graph import Value
from qimport.lower.rule import Emitter, Use, rule
from qimport.qnn.mirror_pad import MirrorPad


@rule(MirrorPad)
def lower_mirror_pad(emit: Emitter, op: MirrorPad, use: Use) -> Value:
    """One ``prim.gather`` with constant places per padded dimension, the first last: it moves whole rows."""
    x = use.operand(0)
    for axis in reversed(range(len(x.type.shape))):
        if op.before[axis] or op.after[axis]:
            x = emit.gather(x, emit.constant(op.places(axis, x.type.shape[axis])), axis)
    return x
