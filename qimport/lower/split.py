"""Several results cut from one operand."""

from __future__ import annotations

from qimport.ir.graph import Value
from qimport.lower.rule import Emitter, Use, rule
from qimport.qnn.split import Split, Unpack


@rule(Split)
def lower_split(emit: Emitter, op: Split, use: Use) -> tuple[Value, ...]:
    """One ``prim.slice`` per result."""
    pieces = zip(op.starts(use.call), use.call.outputs, strict=True)
    return tuple(_cut(emit, use.operand(0), op.axis, start, out.shape) for start, out in pieces)


@rule(Unpack)
def lower_unpack(emit: Emitter, op: Unpack, use: Use) -> tuple[Value, ...]:
    """One ``prim.slice`` per result, and a reshape that drops its dimension of 1."""
    results = []
    for number, out in enumerate(use.call.outputs):
        unit = (*out.shape[: op.axis], 1, *out.shape[op.axis :])
        results.append(emit.reshape(_cut(emit, use.operand(0), op.axis, number, unit), out.shape))
    return tuple(results)


def _cut(emit: Emitter, x: Value, axis: int, start: int, shape: tuple[int, ...]) -> Value:
    begin = [start if dimension == axis else 0 for dimension in range(len(shape))]
    return emit.slice(x, begin, shape, [1] * len(shape))
