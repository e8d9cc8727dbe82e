"""What has no bytes to equal: uses that the interpreter itself does not run, or runs wrongly, in a mode."""

from __future__ import annotations

import re

from qimport.errors import Reason, UnsupportedError
from qimport.ir.graph import Graph, Node
from qimport.ir.rewrite import remove_dead_nodes
from qimport.numerics import Numerics
from qimport.qnn.base import QnnOperation


def refusals(graph: Graph, numerics: Numerics) -> tuple[Reason, ...]:
    """Every reason why a qnn graph cannot be compiled in this mode; none in most.

    Nodes that no result needs are no reason: the delegate leaves them out, too.
    """
    found = []
    for node in remove_dead_nodes(graph).nodes:
        if isinstance(node.op, QnnOperation):
            call = node.call(numerics)
            sentence = node.op.unsupported(call) or node.op.unknown(call)
            if sentence is not None:
                found.append(_reason(node, f"{sentence} (numerics {numerics})"))
        for body in node.bodies:
            found += refusals(body, numerics)
    return tuple(found)


def require_supported(graph: Graph, numerics: Numerics) -> None:
    """Raise :class:`UnsupportedError` with all reasons at once, if there are any."""
    reasons = refusals(graph, numerics)
    if reasons:
        raise UnsupportedError(reasons)


def _reason(node: Node, sentence: str) -> Reason:
    """The origin of a node, as the importer writes it, taken apart again."""
    parts = re.fullmatch(r"operator (\d+) \(([^()]+)\) '(.*)'", node.origin)
    if parts is None:
        return Reason(None, node.origin or node.op.NAME, None, sentence)
    return Reason(int(parts[1]), parts[2], parts[3], sentence)
