"""Single indices known at run time."""

from __future__ import annotations

from qimport.ir.graph import Value
from qimport.lower.rule import Emitter, Use, rule
from qimport.qnn.index import Index


@rule(Index)
def lower_index(emit: Emitter, op: Index, use: Use) -> Value:
    """One ``prim.gather`` per axis, the first last: it then moves whole rows."""
    x, indices = use.operand(0), use.operand(1)
    for axis, entry in reversed(list(zip(op.axes, op.entries, strict=True))):
        number = emit.slice(indices, (entry,), (1,), (1,))
        size = x.type.shape[axis]
        wrapped = emit.select(emit.compare("less", number, 0), emit.binary("add", number, size), number)
        x = emit.gather(x, wrapped, axis)
    return emit.reshape(x, use.output.shape)
