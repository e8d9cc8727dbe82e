"""Lowering of control flow: the bodies are lowered graphs already."""

from __future__ import annotations

from qimport import prim, qnn
from qimport.ir.graph import Value
from qimport.lower.rule import Emitter, Use, plain, rule


@rule(qnn.If)
def lower_if(emit: Emitter, _op: qnn.If, use: Use) -> tuple[Value, ...]:
    """The same with lowered bodies."""
    return _emit(emit, prim.If(), use)


@rule(qnn.While)
def lower_while(emit: Emitter, _op: qnn.While, use: Use) -> tuple[Value, ...]:
    """The same with lowered bodies."""
    return _emit(emit, prim.While(), use)


def _emit(emit: Emitter, op: prim.If | prim.While, use: Use) -> tuple[Value, ...]:
    types = [plain(type_) for type_ in use.call.outputs]
    return emit.emit_all(op, use.operands, types, [""] * len(types), use.bodies)
