"""Constant folding."""

from __future__ import annotations

from collections.abc import Sequence

from qimport.ir.graph import Builder, Graph, Node, Numerics, Value
from qimport.ir.rewrite import Site, rewrite
from qimport.qnn.shape import Shape


def fold_constants(graph: Graph, numerics: Numerics) -> Graph:
    """Evaluate the nodes whose operands are all constants, and ``qnn.shape`` whatever its operand is."""

    def fold(_: Builder, site: Site) -> Sequence[Value] | None:
        operands, node = site.operands, site.node
        known = all(value is None or value.is_constant for value in operands)
        if not known and not isinstance(node.op, Shape):
            return None
        arrays = tuple(None if value is None else value.data for value in operands)
        call = Node(node.op, operands, node.outputs).call(numerics, arrays)
        results = node.op.evaluate(call)
        return [Value(old.type, old.name, new) for old, new in zip(node.outputs, results, strict=True)]

    return rewrite(graph, Builder(), fold)
