"""Opposite order."""

from __future__ import annotations

import numpy as np

from qimport.ir.graph import Value
from qimport.lower.rule import Emitter, Use, rule
from qimport.qnn.reverse import Reverse, ReverseSequence


@rule(Reverse)
def lower_reverse(emit: Emitter, op: Reverse, use: Use) -> Value:
    """``prim.slice`` with negative strides."""
    shape = use.output.shape
    begin = [shape[axis] - 1 if axis in op.axes else 0 for axis in range(len(shape))]
    stride = [-1 if axis in op.axes else 1 for axis in range(len(shape))]
    return emit.slice(use.operand(0), begin, shape, stride)


@rule(ReverseSequence)
def lower_reverse_sequence(emit: Emitter, op: ReverseSequence, use: Use) -> Value:
    """``prim.gather`` of places that run backwards below each length; the two dimensions come first."""
    x, lengths = use.operand(0), use.operand(1)
    rank, size = len(x.type.shape), x.type.shape[op.seq_dim]
    front = (op.batch_dim, op.seq_dim)
    order = (*front, *(axis for axis in range(rank) if axis not in front))
    counts = emit.reshape(lengths, (lengths.type.size, 1))
    forwards = emit.constant(np.arange(size, dtype=counts.type.numpy)[None])
    backwards = emit.binary("sub", emit.binary("sub", emit.binary("min", counts, size), 1), forwards)
    places = emit.select(emit.compare("less", forwards, counts), backwards, forwards)
    picked = emit.gather(emit.transpose(x, order), places, 1, batch_dims=1)
    return emit.transpose(picked, tuple(int(axis) for axis in np.argsort(order)))
