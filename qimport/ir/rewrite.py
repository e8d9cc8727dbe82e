"""Making a new graph from an old one: the walk that every pass uses, and the passes that know no operation.

Nothing changes a graph in place. A pass walks the nodes in order, replaces some, and shares the others with
the old graph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, TypeVar

import numpy as np

from qimport.errors import CompilerBug
from qimport.ir.graph import Builder, Graph, Node, State, Value
from qimport.ir.types import TensorType


@dataclass(frozen=True)
class Site:
    """A node that a rule may replace: ``operands`` are its operands in the new graph."""

    node: Node
    operands: tuple[Value | None, ...]
    producers: Mapping[Value, Node]

    def operand(self, index: int) -> Value:
        """A mandatory operand in the new graph."""
        found = self.operands[index]
        if found is None:
            raise CompilerBug(f"{self.node.op.NAME} lacks operand {index}")
        return found

    def producer(self, value: Value | None) -> Node | None:
        """The node of the new graph that computes ``value``; None for inputs and constants."""
        return None if value is None else self.producers.get(value)


B = TypeVar("B", bound=Builder)
RewriteRule = Callable[[B, Site], Sequence[Value] | None]
"""Returns the values that replace the node's results, or None to keep the node."""


def rewrite(
    graph: Graph, builder: B, rule: RewriteRule[B], start: Mapping[Value, Value] | None = None
) -> Graph:
    """Give every node to ``rule`` in order and return the graph of what it left and made.

    ``builder`` collects the nodes; what a rule emits with it carries the origin of the node it replaces, and
    results without a name get the name of the one they stand for. ``start`` replaces inputs, states and
    constants beforehand. Bodies of nodes stay as they are.
    """
    replaced = dict(start or {})
    producers: dict[Value, Node] = {}
    for node in graph.nodes:
        operands = tuple(None if value is None else replaced.get(value, value) for value in node.inputs)
        builder.origin, first = node.origin, len(builder.nodes)
        results = rule(builder, Site(node, operands, producers))
        if results is None:
            kept = node if operands == node.inputs else replace(node, inputs=operands)
            builder.nodes.append(kept)
        else:
            replaced.update(zip(node.outputs, results, strict=True))
        made = {value: new for new in builder.nodes[first:] for value in new.outputs}
        producers.update(made)
        for old in node.outputs:
            new = replaced.get(old, old)
            if new in made and not new.name:
                new.name = old.name
    return Graph(
        graph.name,
        tuple(replaced.get(value, value) for value in graph.inputs),
        tuple(replaced.get(value, value) for value in graph.outputs),
        tuple(builder.nodes),
        tuple(
            State(
                replaced.get(state.before, state.before),
                replaced.get(state.after, state.after),
                state.initial,
            )
            for state in graph.states
        ),
    )


def remove_dead_nodes(graph: Graph) -> Graph:
    """The graph without nodes whose results nobody reads."""
    needed = set(graph.results)
    kept: list[Node] = []
    for node in reversed(graph.nodes):
        if needed.isdisjoint(node.outputs):
            continue
        kept.append(node)
        needed.update(value for value in node.inputs if value is not None)
    return replace(graph, nodes=tuple(reversed(kept)))


def merge_duplicates(graph: Graph) -> Graph:
    """The graph with one node for all of equal operation, operands and result types; constants likewise."""
    constants: dict[tuple[TensorType, bytes], Value] = {}
    start = {value: constants.setdefault(_content(value), value) for value in graph.constants()}
    seen: dict[tuple[Any, ...], Node] = {}

    def merge(_: Builder, site: Site) -> Sequence[Value] | None:
        node = site.node
        # repr tells 0.0 from -0.0 and 1 from 1.0, which compare equal but fill differently.
        key = (repr(node.op), site.operands, tuple(value.type for value in node.outputs), node.bodies)
        first = seen.setdefault(key, node)
        return None if first is node else first.outputs

    return rewrite(graph, Builder(), merge, start)


def _content(value: Value) -> tuple[TensorType, bytes]:
    """A key that is equal for constants of one type and content."""
    data = np.ascontiguousarray(value.data)
    return value.type, blake2b(data.tobytes(), digest_size=16).digest()
