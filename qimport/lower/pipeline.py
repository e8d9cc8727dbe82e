"""From a qnn graph to the prim graph that is planned and compiled: lowering between two rows of passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from qimport.errors import CompilerBug, QimportError
from qimport.ir.graph import Graph, Node, Value, verify_graph
from qimport.ir.rewrite import Site, merge_duplicates, remove_dead_nodes, rewrite
from qimport.lower.fold import fold_constants
from qimport.lower.padding import explicit_padding
from qimport.lower.pairs import combine_pairs
from qimport.lower.qdq import remove_conversions
from qimport.lower.rule import RULES, Emitter, Use, plain
from qimport.lower.simplify import simplify
from qimport.lower.supported import require_supported
from qimport.lower.tabulate import tabulate
from qimport.numerics import Numerics
from qimport.qnn.base import QnnOperation

Pass = Callable[[Graph, Numerics], Graph]


def eliminate_duplicates(graph: Graph, _: Numerics) -> Graph:
    """:func:`qimport.ir.rewrite.merge_duplicates` as a pass."""
    return merge_duplicates(graph)


def eliminate_dead(graph: Graph, _: Numerics) -> Graph:
    """:func:`qimport.ir.rewrite.remove_dead_nodes` as a pass."""
    return remove_dead_nodes(graph)


QNN_PASSES: tuple[Pass, ...] = (
    fold_constants,  # shape arithmetic and dequantized weights are constants for everything that follows
    remove_conversions,  # needs the quantization that lowering removes
    eliminate_dead,  # what fed only shapes or removed conversions is not lowered
)

PRIM_PASSES: tuple[Pass, ...] = (
    fold_constants,  # rules emit arithmetic on constants where an operand happens to be one
    explicit_padding,  # before simplify, which merges these pads with those of the graph
    simplify,  # reshapes of reshapes, pads of pads
    fold_constants,  # a slice of a concatenation may turn out to be one of a constant part
    eliminate_dead,  # so that every reader that is left counts
    tabulate,  # needs to see which values are stored anyway
    combine_pairs,  # of what tables have left
    eliminate_duplicates,  # equal branches, and equal constants that would be stored twice
    eliminate_dead,  # what the three before left without reader
)


def lower(graph: Graph, numerics: Numerics) -> Graph:
    """The prim graph that gives the bytes of ``graph`` in this numerics mode.

    Every intermediate graph is verified. Raises :class:`VerifyError` if ``graph`` itself breaks a rule,
    :class:`UnsupportedError` with every reason if the mode has no bytes for it, and :class:`CompilerBug`
    naming the pass if a result is broken.
    """
    verify_graph(graph)
    require_supported(graph, numerics)
    graph = run_passes(graph, QNN_PASSES, numerics)
    graph = run_passes(graph, (apply_rules,), numerics)
    return run_passes(graph, PRIM_PASSES, numerics)


def run_passes(graph: Graph, passes: Sequence[Pass], numerics: Numerics) -> Graph:
    """Apply ``passes`` in order and verify after each."""
    for function in passes:
        graph = function(graph, numerics)
        try:
            verify_graph(graph)
        except QimportError as error:
            raise CompilerBug(f"pass {function.__name__} broke the graph: {error}") from error
    return graph


def apply_rules(graph: Graph, numerics: Numerics) -> Graph:
    """Replace every qnn node by what its lowering rule emits; results of graphs lose their quantization.

    Bodies of control flow are lowered as graphs of their own.
    """

    def apply(emit: Emitter, site: Site) -> Sequence[Value]:
        node = site.node
        if not isinstance(node.op, QnnOperation) or type(node.op) not in RULES:
            raise CompilerBug(f"there is no lowering rule for {node.op.NAME}")
        bodies = tuple(lower(body, numerics) for body in node.bodies)
        made = RULES[type(node.op)](emit, node.op, Use(node.call(numerics), site.operands, bodies))
        results = made if isinstance(made, tuple) else (made,)
        _check_results(node, results)
        return results

    start = {value: Value(plain(value.type), value.name, value.data) for value in _sources(graph)}
    return rewrite(graph, Emitter(), apply, start)


def _sources(graph: Graph) -> list[Value]:
    return [*graph.sources, *graph.constants()]


def _check_results(node: Node, results: Sequence[Value]) -> None:
    wanted = [plain(value.type) for value in node.outputs]
    found = [value.type for value in results]
    if wanted != found:
        raise CompilerBug(f"the rule of {node.op.NAME} gave {found} instead of {wanted}")
    for value in results:
        if value.data is not None and np.asarray(value.data).shape != value.type.shape:
            raise CompilerBug(f"the rule of {node.op.NAME} gave a constant of another shape than its type")
