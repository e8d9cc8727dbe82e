"""Which operands of elementwise operations are tables: constants as a whole, not element by element."""

from __future__ import annotations

from qimport.ir.graph import Node, Operation, Value
from qimport.prim.elementwise import Lut
from qimport.prim.lookup import Lut16
from qimport.prim.pair import PairSum

TABLES: dict[type[Operation], int] = {Lut: 1, Lut16: 1, PairSum: 1}
"""How many they are: the last operands. Operations that are not here have none."""


def tensors(node: Node) -> tuple[Value | None, ...]:
    """The operands of an elementwise node that broadcast to its result."""
    return node.inputs[: len(node.inputs) - TABLES.get(type(node.op), 0)]
