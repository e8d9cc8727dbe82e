"""Groups prim nodes into kernels: a root with the elementwise nodes that follow it, or such nodes alone.

Fusion changes no byte: every node keeps its meaning, only intermediate tensors stop existing. A tensor
that must exist (a graph result, an operand of a root, a value with readers elsewhere, bytes with several
readers) ends a group, and so do single bytes and lookups that broadcasting repeats: they are computed once.
Where two roots meet in one elementwise tree (a residual addition of two convolutions), the later one keeps
the tree and the other is cut at its narrowest element type.
"""

from __future__ import annotations

from dataclasses import dataclass

from qimport import prim
from qimport.ir.graph import Graph, Node, Value

ELEMENTWISE = (
    prim.Activation16,
    prim.Binary,
    prim.Cast,
    prim.Clamp,
    prim.Compare,
    prim.DivRound,
    prim.Fma,
    prim.LeadingZeros,
    prim.Lut,
    prim.Lut16,
    prim.Math,
    prim.PairSum,
    prim.Rescale,
    prim.ScaleCodes,
    prim.Select,
    prim.ToInt,
)
"""Primitives that compute each element from the same element of their operands."""

FUSING_ROOTS = (prim.FloatMac, prim.Mac, prim.Reduce, prim.Window)
"""Primitives whose kernels can apply elementwise nodes to their result before it is stored."""

MAX_FUSED = 64
"""Nodes after which a group begins at the next tensor of single bytes or of several readers: compile time
grows with the square."""


@dataclass(frozen=True)
class Group:
    """Nodes of one kernel in execution order, and the only value that leaves it."""

    nodes: tuple[Node, ...]
    result: Value

    @property
    def root(self) -> Node:
        """The first node."""
        return self.nodes[0]


def fuse(graph: Graph) -> list[Group]:
    """Partition the nodes of ``graph`` into groups, in an order in which they can run."""
    return _Fusion(graph).groups()


class _Fusion:
    """The state of one run of :func:`fuse`."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.users = graph.users()
        self.producers = graph.producers()
        self.position = {node: index for index, node in enumerate(graph.nodes)}
        self.stored = self._stored_values()

    def _stored_values(self) -> set[Value]:
        """Values that exist in memory whatever is fused."""
        stored = set(self.graph.results)
        for node in self.graph.nodes:
            if not isinstance(node.op, ELEMENTWISE):
                stored.update(value for value in node.inputs if value is not None)
            if node.bodies:
                stored.update(node.outputs)
        stored.update(value for value in self.users if value.type.itemsize == 1 and self._shared(value))
        return stored

    def _shared(self, value: Value) -> bool:
        """Whether several nodes read ``value``."""
        return len(set(self.users[value])) > 1

    def groups(self) -> list[Group]:
        """Cut groups from the results backwards."""
        found: list[Group] = []
        absorbed: set[Node] = set()
        for node in reversed(self.graph.nodes):
            if node in absorbed:
                continue
            nodes = self._tree(node) if isinstance(node.op, ELEMENTWISE) else [node]
            absorbed.update(nodes)
            found.append(Group(tuple(nodes), node.outputs[0]))
        return sorted(found, key=lambda group: self.position[group.nodes[-1]])

    def _tree(self, last: Node) -> list[Node]:
        """The nodes to run together with ``last``: its elementwise producers and at most one root."""
        while True:
            nodes, roots = self._pull(last)
            fitting = [root for root in roots if self._fits(root, nodes, last)]
            keep = max(fitting, key=self.position.__getitem__, default=None)
            others = [root for root in roots if root is not keep]
            if not others:
                ordered = sorted(nodes, key=self.position.__getitem__)
                return [keep, *ordered] if keep is not None else ordered
            for root in others:
                self.stored.add(self._narrowest(root, nodes, last))

    def _pull(self, last: Node) -> tuple[set[Node], list[Node]]:
        """Elementwise nodes reachable backwards from ``last`` over private values, and their roots."""
        nodes, roots, pending = {last}, [], [last]
        while pending:
            for value in pending.pop().inputs:
                producer = None if value is None else self.producers.get(value)
                if value is None or producer is None or value in self.stored or producer in nodes:
                    continue
                repeated = value.type.size < last.outputs[0].type.size
                private = nodes.issuperset(self.users[value])
                if self._shared(value) and (repeated or not private or len(nodes) >= MAX_FUSED):
                    continue
                byte = value.type.itemsize == 1
                looked_up = isinstance(producer.op, prim.Lut)
                if (repeated and (byte or looked_up)) or (byte and len(nodes) >= MAX_FUSED):
                    self.stored.add(value)
                elif isinstance(producer.op, ELEMENTWISE):
                    nodes.add(producer)
                    pending.append(producer)
                elif producer not in roots:
                    roots.append(producer)
        return nodes, roots

    def _fits(self, root: Node, nodes: set[Node], last: Node) -> bool:
        """Whether ``root``'s kernel can run ``nodes``: operands of its shape, or per channel."""
        shape = last.outputs[0].type.shape
        if not isinstance(root.op, FUSING_ROOTS) or root.outputs[0].type.shape != shape:
            return False
        inside = {value for node in nodes for value in node.outputs} | set(root.outputs)
        for node in nodes:
            for value in node.inputs:
                if value is None or value in inside:
                    continue
                leading = value.type.shape[:-1]
                if value.type.shape != shape and any(size != 1 for size in leading):
                    uniform_divisor = isinstance(node.op, prim.DivRound) and value.is_constant
                    if not uniform_divisor:
                        return False
        return True

    def _narrowest(self, root: Node, nodes: set[Node], last: Node) -> Value:
        """The value of smallest element size, nearest to ``root``, on the way from it to ``last``."""
        best = value = root.outputs[0]
        while True:
            reader = self.users[value][0]
            if reader is last or reader not in nodes or self._shared(value):
                return best
            value = reader.outputs[0]
            if value.type.itemsize < best.type.itemsize:
                best = value
