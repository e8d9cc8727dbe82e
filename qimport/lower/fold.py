"""Constant folding."""

from __future__ import annotations

from collections.abc import Sequence

from qimport.ir.graph import Builder, Graph, Node, Value
from qimport.ir.rewrite import Site, rewrite
from qimport.numerics import Numerics
from qimport.qnn.shape import Shape

FREE_BYTES = 1 << 24
MAX_GROWTH = 8
"""A result above ``FREE_BYTES`` is folded only up to this many times the bytes of its operands."""


def fold_constants(graph: Graph, numerics: Numerics) -> Graph:
    """Evaluate the nodes whose operands are all constants, and ``qnn.shape`` whatever its operand is.

    A few bytes that broadcasting or padding makes a huge constant of stay a computation: neither compiling
    nor the code shall take more memory than the file accounts for. Nor does anything run that may not end.
    """

    def fold(_: Builder, site: Site) -> Sequence[Value] | None:
        operands, node = site.operands, site.node
        known = all(value is None or value.is_constant for value in operands)
        if not isinstance(node.op, Shape) and (not known or _explodes(operands, node.outputs)):
            return None
        if node.bodies:
            return None
        arrays = tuple(None if value is None else value.data for value in operands)
        call = Node(node.op, operands, node.outputs).call(numerics, arrays)
        results = node.op.evaluate(call)
        return [Value(old.type, old.name, new) for old, new in zip(node.outputs, results, strict=True)]

    return rewrite(graph, Builder(), fold)


def _explodes(operands: Sequence[Value | None], results: Sequence[Value]) -> bool:
    size = sum(value.type.nbytes for value in results)
    given = sum(value.type.nbytes for value in operands if value is not None)
    return size > max(FREE_BYTES, MAX_GROWTH * given)
