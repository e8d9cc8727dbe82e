"""Local simplifications of prim graphs; each gives the same bytes by construction.

One function per operation, entered in :data:`SIMPLIFICATIONS`; it returns the value to use instead, or None.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from qimport import prim
from qimport.ir.graph import Array, Call, Graph, Numerics, Operation, Value
from qimport.ir.rewrite import Site, rewrite
from qimport.lower.rule import Emitter, plain
from qimport.prim.elementwise import Lut
from qimport.qnn.unary import code_range

Simplification = Callable[[Emitter, Any, Site], Value | None]


def simplify(graph: Graph, _: Numerics) -> Graph:
    """Apply :data:`SIMPLIFICATIONS` once to every node, operands first."""

    def apply(emit: Emitter, site: Site) -> Sequence[Value] | None:
        rule = SIMPLIFICATIONS.get(type(site.node.op))
        found = None if rule is None else rule(emit, site.node.op, site)
        return None if found is None else (found,)

    return rewrite(graph, Emitter(), apply)


def simplify_reshape(emit: Emitter, op: prim.Reshape, site: Site) -> Value | None:
    """Reshape to the same shape: nothing. Reshape of a reshape: one."""
    x, shape = site.operand(0), site.node.outputs[0].type.shape
    producer = site.producer(x)
    if producer is not None and isinstance(producer.op, prim.Reshape) and producer.inputs[0] is not None:
        return emit.reshape(producer.inputs[0], shape)
    return x if x.type.shape == shape else None


def simplify_slice(emit: Emitter, op: prim.Slice, site: Site) -> Value | None:
    """Slice of everything: nothing. Slice inside one part of a concatenation: slice of that part."""
    x, out = site.operand(0), site.node.outputs[0].type
    if _takes_all(op.begin, op.stride, x, out.shape):
        return x
    producer = site.producer(x)
    if producer is None or not isinstance(producer.op, prim.Concat):
        return None
    axis, offset = producer.op.axis, 0
    first = op.begin[axis]
    last = first + (out.shape[axis] - 1) * op.stride[axis]
    for part in producer.inputs:
        extent = 0 if part is None else part.type.shape[axis]
        if part is not None and offset <= min(first, last) <= max(first, last) < offset + extent:
            begin = (*op.begin[:axis], first - offset, *op.begin[axis + 1 :])
            if _takes_all(begin, op.stride, part, out.shape):
                return part
            return emit.slice(part, begin, out.shape, op.stride)
        offset += extent
    return None


def _takes_all(begin: Sequence[int], stride: Sequence[int], x: Value, shape: tuple[int, ...]) -> bool:
    return x.type.shape == shape and not any(begin) and set(stride) <= {1}


def simplify_concat(emit: Emitter, op: prim.Concat, site: Site) -> Value | None:
    """Concatenation of one part: that part."""
    return site.operand(0) if len(site.operands) == 1 else None


def simplify_pad(emit: Emitter, op: prim.Pad, site: Site) -> Value | None:
    """Pad by nothing: nothing. Pad of a pad with the same element: one."""
    x, out = site.operand(0), site.node.outputs[0].type
    if x.type.shape == out.shape:
        return x
    producer = site.producer(x)
    if producer is None or not isinstance(producer.op, prim.Pad) or repr(producer.op.value) != repr(op.value):
        return None
    before = tuple(a + b for a, b in zip(producer.op.before, op.before, strict=True))
    after = tuple(a + b for a, b in zip(producer.op.after, op.after, strict=True))
    return emit.emit(prim.Pad(before, after, op.value), producer.inputs, plain(out))


def simplify_elementwise(emit: Emitter, op: Operation, site: Site) -> Value | None:
    """An elementwise operation with scalar constants on a table lookup: a lookup in the table it makes of that table.

    A table that gives each code back: nothing.
    """
    table = _table(op, site)
    if table is not None:
        return emit.lut(table[0], table[1])
    if isinstance(op, Lut):
        x, codes = site.operand(0), site.operand(1).data
        identity = code_range(x.type.dtype)
        if codes is not None and codes.dtype == x.type.numpy and np.array_equal(codes, identity):
            return x
    return None


def _table(op: Operation, site: Site) -> tuple[Value, Array] | None:
    """Operand and table of the lookup that can stand for this node, if one can."""
    lookups = [value for value in site.operands if value is not None and not value.is_constant]
    producer = site.producer(lookups[0]) if len(lookups) == 1 else None
    if producer is None or not isinstance(producer.op, Lut):
        return None
    source, table = producer.inputs
    if source is None or table is None or table.data is None:
        return None
    operands = [table if value is lookups[0] else value for value in site.operands]
    others = [value for value in operands if value is not None and value is not table]
    whole = isinstance(op, Lut)
    if site.node.outputs[0].type.shape != source.type.shape or not (
        whole or all(value.type.size == 1 for value in others)
    ):
        return None
    shape = table.type.shape
    types = tuple(None if value is None else value.type for value in operands)
    arrays = tuple(None if value is None else value.data for value in operands)
    call = Call(types, (site.node.outputs[0].type.with_shape(shape),), arrays)
    return source, op.evaluate(call)[0]


ELEMENTWISE: tuple[type[Operation], ...] = (
    prim.Binary,
    prim.Cast,
    prim.Clamp,
    prim.DivRound,
    prim.Lut,
    prim.Rescale,
    prim.ToInt,
)

SIMPLIFICATIONS: dict[type[Operation], Simplification] = {
    prim.Reshape: simplify_reshape,
    prim.Slice: simplify_slice,
    prim.Concat: simplify_concat,
    prim.Pad: simplify_pad,
    **dict.fromkeys(ELEMENTWISE, simplify_elementwise),
}
