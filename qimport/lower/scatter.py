"""Elements put where indices say."""

from __future__ import annotations

from qimport import prim
from qimport.ir.graph import Value
from qimport.lower.rule import Emitter, Use, plain, rule
from qimport.qnn.scatter import ScatterNd, SparseToDense


@rule(ScatterNd)
def lower_scatter_nd(emit: Emitter, _op: ScatterNd, use: Use) -> Value:
    """``prim.scatter_nd`` that adds to zeros."""
    operands = (None, use.operand(0), use.operand(1))
    return emit.emit(prim.ScatterNd("add"), operands, plain(use.output))


@rule(SparseToDense)
def lower_sparse_to_dense(emit: Emitter, op: SparseToDense, use: Use) -> Value:
    """``prim.scatter_nd`` that stores into the default everywhere."""
    shape = use.output.shape
    indices, values, default = use.operand(0), use.operand(1), use.operand(2)
    places = op.coordinates(indices.type.shape)
    values = emit.broadcast(emit.reshape(values, (values.type.size,)), places[:1])
    base = emit.broadcast(emit.reshape(default, (1,) * len(shape)), shape)
    return emit.emit(prim.ScatterNd("set"), (base, emit.reshape(indices, places), values), plain(use.output))
