"""BITCAST."""

from __future__ import annotations

from qimport import prim
from qimport.ir.graph import Value
from qimport.lower.rule import Emitter, Use, plain, rule
from qimport.qnn.bitcast import Bitcast


@rule(Bitcast)
def lower_bitcast(emit: Emitter, _op: Bitcast, use: Use) -> Value:
    """``prim.bitcast``, or nothing where the element type stays."""
    x, out = use.operand(0), plain(use.output)
    return x if x.type == out else emit.emit(prim.Bitcast(), (x,), out)
