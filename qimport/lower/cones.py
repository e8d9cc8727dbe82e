"""Elementwise cones: what a value is, element by element, as a function of a few values before it.

A cone is the set of elementwise nodes (and reshapes, which move no element) between some sources and a
result. Where every element is computed alike, a few hundred elements show what all of them will be: passes
evaluate cones on all 8-bit codes and put something cheaper in their place.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from qimport import prim
from qimport.ir.graph import Array, Call, Graph, Node, Value
from qimport.lower.fuse import ELEMENTWISE
from qimport.prim.tables import TABLES, tensors


class Cones:
    """Questions about the cones of one graph."""

    def __init__(self, graph: Graph) -> None:
        self.producers = graph.producers()
        self._position = {node: index for index, node in enumerate(graph.nodes)}
        self._uniform: dict[Value, bool] = {}

    def operands(self, node: Node) -> tuple[Value, ...] | None:
        """The operands that an element of the only result depends on; None if it depends on its position."""
        if isinstance(node.op, prim.Reshape):
            return (_present(node)[0],)
        if not isinstance(node.op, ELEMENTWISE) or _by_position(node):
            return None
        values = [value for value in tensors(node) if value is not None]
        if any(value.is_constant and not self.is_uniform(value) for value in values):
            return None
        return tuple(value for value in values if not value.is_constant) or None

    def is_uniform(self, constant: Value) -> bool:
        """Whether all elements of a constant have the same bits."""
        if constant not in self._uniform:
            assert constant.data is not None
            flat = np.ascontiguousarray(constant.data).reshape(-1)
            bits = flat.view(f"u{flat.itemsize}")
            self._uniform[constant] = bool(flat.size) and bool(np.all(bits == bits[0]))
        return self._uniform[constant]

    def nodes(self, result: Value, sources: Collection[Value]) -> list[Node]:
        """The nodes between ``sources`` and ``result``, in order."""
        found: set[Node] = set()
        pending = [result]
        while pending:
            value = pending.pop()
            node = self.producers.get(value)
            if value in sources or node is None or node in found:
                continue
            found.add(node)
            pending += self.operands(node) or ()
        return sorted(found, key=self._position.__getitem__)

    def evaluate(self, result: Value, sources: Mapping[Value, Array]) -> Array:
        """What ``result`` has where ``sources`` have the given elements; their shapes broadcast."""
        known = dict(sources)
        for node in self.nodes(result, sources):
            arrays = tuple(known[v] if v in known else _content(node, v) for v in _present(node))
            known[node.outputs[0]] = arrays[0]
            if not isinstance(node.op, prim.Reshape):
                known[node.outputs[0]] = _evaluate(node, arrays)
        return known[result]


def _present(node: Node) -> tuple[Value, ...]:
    return tuple(value for value in node.inputs if value is not None)


def _by_position(node: Node) -> bool:
    """Whether the last channels are rounded differently."""
    return isinstance(node.op, prim.Rescale) and node.op.leftover not in (None, node.op.rounding)


def _content(node: Node, constant: Value) -> Array:
    """A table as it is, one element of a constant that is uniform."""
    assert constant.data is not None
    if type(node.op) in TABLES:
        return constant.data
    return constant.data.reshape(-1)[:1]


def _evaluate(node: Node, arrays: tuple[Array, ...]) -> Array:
    elements = arrays[: len(arrays) - TABLES.get(type(node.op), 0)]
    shape = np.broadcast_shapes(*(array.shape for array in elements))
    types = tuple(v.type.with_shape(a.shape) for v, a in zip(_present(node), arrays, strict=True))
    return node.op.evaluate(Call(types, (node.outputs[0].type.with_shape(shape),), arrays))[0]
