"""ARG_MAX, ARG_MIN, TOPK_V2 and CUMSUM: one primitive on a view of up to three dimensions."""

from __future__ import annotations

import math
from typing import Literal

from qimport import prim
from qimport.ir.graph import Value
from qimport.ir.types import TensorType
from qimport.lower.rule import Emitter, Use, rule
from qimport.qnn.ordering import ArgExtremum, ArgMax, ArgMin, Cumsum, TopK, around


@rule(ArgMax, ArgMin)
def lower_arg_extremum(emit: Emitter, op: ArgExtremum, use: Use) -> Value:
    """Place of the largest or the smallest."""
    kind: Literal["max", "min"] = "max" if isinstance(op, ArgMax) else "min"
    x, out = use.operand(0), use.output
    outer, count, inner = around(x.type.shape, op.axis)
    view = emit.reshape(x, (outer, count, inner))
    place = emit.emit(prim.ArgReduce(kind), (view,), TensorType(out.dtype, (outer, inner)))
    return emit.reshape(place, out.shape)


@rule(TopK)
def lower_top_k(emit: Emitter, op: TopK, use: Use) -> tuple[Value, ...]:
    """Values and places, each by a kernel of its own."""
    x = use.operand(0)
    rows = math.prod(x.type.shape[:-1])
    view = emit.reshape(x, (rows, x.type.shape[-1]))
    results = []
    for out, places in zip(use.call.outputs, (False, True), strict=True):
        found = emit.emit(prim.TopK(places), (view,), TensorType(out.dtype, (rows, op.k)))
        results.append(emit.reshape(found, out.shape))
    return tuple(results)


@rule(Cumsum)
def lower_cumsum(emit: Emitter, op: Cumsum, use: Use) -> Value:
    """Running sums."""
    x = use.operand(0)
    view = emit.reshape(x, around(x.type.shape, op.axis))
    sums = emit.emit(prim.Cumulate(op.exclusive, op.reverse), (view,), view.type)
    return emit.reshape(sums, use.output.shape)
