"""Functions of one 8-bit value become tables.

Whatever an elementwise cone computes from one 8-bit value, by integers or by floats, 256 entries say as well,
and looking them up costs less than most arithmetic. x * sigmoid(x), rescaled, is one lookup, and a
convolution whose only reader it is ends with it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from qimport import prim
from qimport.ir.graph import Graph, Node, Value
from qimport.ir.rewrite import Site, rewrite
from qimport.lower.cones import Cones
from qimport.lower.rule import Emitter
from qimport.numerics import Numerics
from qimport.prim.pair import CODES
from qimport.qnn.unary import code_range

EXPENSIVE = (prim.Activation16, prim.DivRound, prim.Lut, prim.Lut16, prim.Math)
"""Operations for which a wide result is looked up: element by element, which arithmetic on vectors beats."""


def tabulate(graph: Graph, _: Numerics) -> Graph:
    """Replace values that are functions of one 8-bit value by ``prim.lut`` of it, where that pays.

    A table that gives every code back is replaced by its operand. Nodes that nobody reads any more stay.
    """
    return _Tabulation(graph).run()


class _Tabulation:
    """``origins`` of a value: the 8-bit values of which it is a function, nearest first, possibly itself."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.cones = Cones(graph)
        self.origins: dict[Value, tuple[Value, ...]] = {}
        self._find_origins()
        self.chosen = self._choose()

    def _find_origins(self) -> None:
        for value in self.graph.sources:
            self.origins[value] = _itself(value)
        for node in self.graph.nodes:
            shared = self._shared_origins(node)
            for value in node.outputs:
                self.origins[value] = (*_itself(value), *shared)

    def _shared_origins(self, node: Node) -> tuple[Value, ...]:
        """The origins that all operands have in common, none of which is stretched."""
        operands = self.cones.operands(node) or ()
        if any(value.type.size != node.outputs[0].type.size for value in operands):
            return ()
        first, *others = [self.origins[value] for value in operands] or [()]
        return tuple(value for value in first if all(value in other for other in others))

    def _choose(self) -> dict[Value, Value]:
        """The operand of the table of every value that becomes one: the first that is stored in any case."""
        stored = self._stored()
        needed = set(self.graph.results)
        chosen: dict[Value, Value] = {}
        for node in reversed(self.graph.nodes):
            if needed.isdisjoint(node.outputs):
                continue
            value = node.outputs[0]
            origins = [origin for origin in reversed(self.origins[value]) if origin is not value]
            source = next((origin for origin in origins if origin in stored), origins[0] if origins else None)
            if source is not None and self._pays(value, source):
                chosen[value] = source
                needed.add(source)
            else:
                needed.update(operand for operand in node.inputs if operand is not None)
        return chosen

    def _stored(self) -> set[Value]:
        """Values that exist whatever becomes a table."""
        stored = {*self.graph.sources, *self.graph.results}
        for node in self.graph.nodes:
            if not self._shared_origins(node):
                stored.update(value for value in node.inputs if value is not None)
        return stored

    def _pays(self, value: Value, source: Value) -> bool:
        nodes = [n for n in self.cones.nodes(value, (source,)) if not isinstance(n.op, prim.Reshape)]
        if value.type.itemsize > 1:
            return any(isinstance(n.op, EXPENSIVE) and n.outputs[0].type.itemsize > 1 for n in nodes)
        return len(nodes) > 1 or any(isinstance(n.op, prim.Lut) for n in nodes)

    def run(self) -> Graph:
        """The graph with the chosen tables."""
        made: dict[Value, Value] = {}

        def apply(emit: Emitter, site: Site) -> Sequence[Value] | None:
            value = site.node.outputs[0]
            if value not in self.chosen:
                return None
            source = self.chosen[value]
            made[value] = self._lookup(emit, value, source, made.get(source, source))
            return (made[value],)

        return rewrite(self.graph, Emitter(), apply)

    def _lookup(self, emit: Emitter, value: Value, source: Value, operand: Value) -> Value:
        codes = code_range(source.type.dtype).astype(source.type.numpy)
        table = self.cones.evaluate(value, {source: codes})
        same = table.dtype == codes.dtype and np.array_equal(table, codes)
        return emit.reshape(operand if same else emit.lut(operand, table), value.type.shape)


def _itself(value: Value) -> tuple[Value, ...]:
    return (value,) if value.type.dtype in CODES else ()
