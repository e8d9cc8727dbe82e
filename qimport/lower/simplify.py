"""Local simplifications of prim graphs; each gives the same bytes by construction.

One function per operation, entered in :data:`SIMPLIFICATIONS`; it returns the value to use instead, or None.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from qimport import prim
from qimport.ir.graph import Graph, Operation, Value
from qimport.ir.rewrite import Site, rewrite
from qimport.ir.types import TensorType
from qimport.lower.rule import Emitter, plain
from qimport.numerics import Numerics

Simplification = Callable[[Emitter, Any, Site], Value | None]


def simplify(graph: Graph, _: Numerics) -> Graph:
    """Apply :data:`SIMPLIFICATIONS` once to every node, operands first."""

    def apply(emit: Emitter, site: Site) -> Sequence[Value] | None:
        rule = SIMPLIFICATIONS.get(type(site.node.op))
        found = None if rule is None else rule(emit, site.node.op, site)
        return None if found is None else (found,)

    return rewrite(graph, Emitter(), apply)


def simplify_reshape(emit: Emitter, _op: prim.Reshape, site: Site) -> Value | None:
    """Reshape to the same shape: nothing. Reshape of a reshape: one."""
    x, shape = site.operand(0), site.node.outputs[0].type.shape
    source = _behind_reshape(site, x)
    if source is x and x.type.shape != shape:
        return None
    return emit.reshape(source, shape)


def _behind_reshape(site: Site, x: Value) -> Value:
    """The operand of the reshape that makes ``x``, or ``x``."""
    producer = site.producer(x)
    if producer is None or not isinstance(producer.op, prim.Reshape):
        return x
    return producer.inputs[0] or x


def simplify_slice(emit: Emitter, op: prim.Slice, site: Site) -> Value | None:
    """Slice of everything: nothing. Slice inside one part of a concatenation: slice of that part."""
    x, shape = site.operand(0), site.node.outputs[0].type.shape
    if _takes_all(op, x, shape):
        return x
    producer = site.producer(x)
    if producer is None or not isinstance(producer.op, prim.Concat):
        return None
    axis, offset = producer.op.axis, 0
    first = op.begin[axis]
    last = first + (shape[axis] - 1) * op.stride[axis]
    for part in producer.inputs:
        extent = 0 if part is None else part.type.shape[axis]
        if part is not None and offset <= min(first, last) <= max(first, last) < offset + extent:
            inner = prim.Slice((*op.begin[:axis], first - offset, *op.begin[axis + 1 :]), op.stride)
            whole = _takes_all(inner, part, shape)
            return part if whole else emit.slice(part, inner.begin, shape, inner.stride)
        offset += extent
    return None


def _takes_all(op: prim.Slice, x: Value, shape: tuple[int, ...]) -> bool:
    return x.type.shape == shape and not any(op.begin) and set(op.stride) <= {1}


def simplify_concat(_emit: Emitter, _op: prim.Concat, site: Site) -> Value | None:
    """Concatenation of one part: that part."""
    return site.operand(0) if len(site.operands) == 1 else None


def simplify_pad(emit: Emitter, op: prim.Pad, site: Site) -> Value | None:
    """Pad by nothing: nothing. Pad of a pad with the same element: one."""
    x, out = site.operand(0), site.node.outputs[0].type
    if x.type.shape == out.shape:
        return x
    producer = site.producer(x)
    # repr tells 0.0 from -0.0, which compare equal.
    if producer is None or not isinstance(producer.op, prim.Pad) or repr(producer.op.value) != repr(op.value):
        return None
    before = tuple(a + b for a, b in zip(producer.op.before, op.before, strict=True))
    after = tuple(a + b for a, b in zip(producer.op.after, op.after, strict=True))
    return emit.emit(prim.Pad(before, after, op.value), producer.inputs, plain(out))


def simplify_after_reshape(emit: Emitter, op: prim.Clamp | prim.Rescale, site: Site) -> Value | None:
    """Rescaling or clamping of reshaped sums: reshape afterwards, so that the sums are no tensor."""
    x, *factors = site.operands
    assert x is not None
    source = _behind_reshape(site, x)
    producer = site.producer(source)
    if source is x or producer is None or not isinstance(producer.op, prim.Mac | prim.Rescale):
        return None
    if x.type.shape[-1:] != source.type.shape[-1:]:  # factors are per channel
        return None
    out = site.node.outputs[0].type
    result = emit.emit(op, (source, *factors), TensorType(out.dtype, source.type.shape))
    return emit.reshape(result, out.shape)


SIMPLIFICATIONS: dict[type[Operation], Simplification] = {
    prim.Reshape: simplify_reshape,
    prim.Slice: simplify_slice,
    prim.Concat: simplify_concat,
    prim.Pad: simplify_pad,
    prim.Clamp: simplify_after_reshape,
    prim.Rescale: simplify_after_reshape,
}
