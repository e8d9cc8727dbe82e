"""Elements picked by indices."""

from __future__ import annotations

from qimport import prim
from qimport.ir.graph import Value
from qimport.lower.rule import Emitter, Use, plain, rule
from qimport.qnn.gather import EmbeddingLookup, Gather, GatherNd


@rule(Gather)
def lower_gather(emit: Emitter, op: Gather, use: Use) -> Value:
    """``prim.gather``."""
    return emit.gather(use.operand(0), use.operand(1), op.axis, op.batch_dims)


@rule(GatherNd)
def lower_gather_nd(emit: Emitter, _op: GatherNd, use: Use) -> Value:
    """``prim.gather_nd``."""
    return emit.emit(prim.GatherNd(), (use.operand(0), use.operand(1)), plain(use.output))


@rule(EmbeddingLookup)
def lower_embedding_lookup(emit: Emitter, op: EmbeddingLookup, use: Use) -> Value:
    """``prim.gather``; codes that become real are cast and multiplied by the scale of their row."""
    indices, table = use.operand(0), use.operand(1)
    rows = emit.gather(table, indices, 0)
    if not op.converts(use.call):
        return rows
    scales = emit.gather(emit.constant(op.row_scales(use.call)), indices, 0)
    shape = (*scales.type.shape, *[1] * (len(rows.type.shape) - 1))
    return emit.binary("mul", emit.cast(rows, "float32"), emit.reshape(scales, shape))
