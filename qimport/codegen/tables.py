"""The packed constants of one kernel call: what sections there are, where, and what is in them.

Generated code depends on constants only through this blob and the few facts in :func:`specialization`, so
equal layers share one function.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from qimport import prim
from qimport.codegen import factors, pair_sum
from qimport.codegen.sections import Section
from qimport.codegen.target import Target
from qimport.ir.graph import Array, Graph, Node, Value
from qimport.ir.types import INTEGER_RANGE
from qimport.prim.tables import tensors

ALIGNMENT = 64
"""Bytes; every section starts at a multiple, if the blob does."""

LANES = 64
"""Sections with more than one element are padded to a multiple, so that full vectors never leave them."""


class TableLayout:
    """Sections of one kernel's constants, except the operands of a ``prim.mac`` root.

    ``start`` bytes at the front are left to the caller (weights, for example). Kernels with equal
    :func:`specialization` that differ in the content of constants only have equal layouts.
    """

    def __init__(self, graph: Graph, target: Target, start: int = 0) -> None:
        self.start = start
        self.facts = dict(zip(graph.nodes, specialization(graph), strict=True))
        self.clamps = factors.clamps_of_rescales(graph)
        self._sections: dict[tuple[Node | Value, str], Section] = {}
        self._arrays: list[Array] = []
        self.size = start
        for key, array in _entries(graph, target, self.clamps):
            self._append(key, array)

    def _append(self, key: tuple[Node | Value, str], array: Array) -> None:
        padded = array.size if array.size == 1 else -(-array.size // LANES) * LANES
        room = np.zeros(-(-padded * array.itemsize // ALIGNMENT) * ALIGNMENT // array.itemsize, array.dtype)
        room[: array.size] = array.ravel()
        self._sections[key] = Section(self.size, array.dtype.name, array.size)
        self._arrays.append(room)
        self.size += room.nbytes

    def section(self, owner: Node | Value, role: str = "") -> Section:
        """The section of a node's derived table, or (without ``role``) of a constant as it is."""
        return self._sections[owner, role]

    @property
    def per_channel(self) -> bool:
        """Whether some derived table has one entry per channel."""
        return any(role and section.count > 1 for (_, role), section in self._sections.items())

    def pack(self) -> bytes:
        """The blob from ``start`` on."""
        return b"".join(array.tobytes() for array in self._arrays)


def specialization(graph: Graph) -> tuple[Hashable, ...]:
    """What generated code may take from the content of constants: one entry per node, None for most."""
    return tuple(_fact(graph, node) for node in graph.nodes)


def _fact(graph: Graph, node: Node) -> Hashable:
    if isinstance(node.op, prim.Rescale) and node.op.fixed_point:
        return factors.FixedPointFactors.of(node).facts
    if isinstance(node.op, prim.DivRound):
        return DivisionFacts(exact_in_float32(graph, node), divides_by_taps(graph, node))
    return None


@dataclass(frozen=True)
class DivisionFacts:
    """Of a ``prim.div_round``: whether it is :func:`exact_in_float32`, and whether it is an average pool."""

    in_float32: bool
    by_taps: bool


def divides_by_taps(graph: Graph, node: Node) -> bool:
    """Whether a ``prim.div_round`` divides the sums of a window by the number of their taps."""
    x, divisor = node.inputs
    assert x is not None and divisor is not None and divisor.data is not None
    window = next((producer for producer in graph.nodes if x in producer.outputs), None)
    if window is None or not isinstance(window.op, prim.Window) or window.inputs[0] is None:
        return False
    taps = window.op.taps(window.inputs[0].type.shape, x.type.shape)[None, :, :, None]
    return bool(np.all(np.broadcast_to(divisor.data, x.type.shape) == taps))


def exact_in_float32(graph: Graph, node: Node) -> bool:
    """Whether a ``prim.div_round`` may divide in float32: numerator plus divisor stay within 2^24.

    The true quotient then never comes closer to the next integer than float32 can tell apart.
    """
    x, divisor = node.inputs
    assert x is not None and divisor is not None and divisor.data is not None
    return _bound(graph, x) + 2 * int(np.max(divisor.data)) <= 2**24


def _bound(graph: Graph, value: Value) -> int:
    """An upper bound of |value|."""
    low, high = INTEGER_RANGE.get(value.type.dtype, (-(2**31), 2**31))
    widest = max(-low, high)
    producer = next((node for node in graph.nodes if value in node.outputs), None)
    if value.data is not None:
        return int(np.max(np.abs(value.data.astype(np.int64)), initial=0))
    if producer is None or producer.inputs[0] is None:
        return widest
    x, op = producer.inputs[0], producer.op
    if isinstance(op, prim.Window) and op.kind == "sum":
        return min(widest, _bound(graph, x) * op.size[0] * op.size[1])
    if isinstance(op, prim.Reduce) and op.kind == "sum":
        return min(widest, _bound(graph, x) * x.type.size // max(value.type.size, 1))
    if isinstance(op, prim.Cast):
        return _bound(graph, x)
    if isinstance(op, prim.Binary) and op.kind in ("add", "sub") and producer.inputs[1] is not None:
        return min(widest, _bound(graph, x) + _bound(graph, producer.inputs[1]))
    return widest


def _entries(
    graph: Graph, target: Target, clamps: dict[Node, Node]
) -> Iterator[tuple[tuple[Node | Value, str], Array]]:
    """Every section's key and content in a fixed order."""
    seen: set[Any] = set()
    for node in graph.nodes:
        if isinstance(node.op, prim.Mac):  # its rows pack weights and bias as they want them
            x = node.inputs[0]
            if x is not None and x.data is not None:
                yield (x, ""), np.asarray(x.data)
            continue
        if isinstance(node.op, prim.Rescale):
            for role, array in factors.sections(node, clamps.get(node), target):
                yield (node, role), array
            continue
        inputs = node.inputs
        if isinstance(node.op, prim.PairSum):
            for role, array in pair_sum.sections(node, target):
                yield (node, role), array
            inputs = tensors(node)
        for value in inputs:
            if value is None or value.data is None or value in seen:
                continue
            seen.add(value)
            by_code = isinstance(node.op, prim.Lut) and value is node.inputs[1]
            yield (value, ""), _by_byte(node, value.data) if by_code else np.asarray(value.data)


def _by_byte(node: Node, table: Array) -> Array:
    """A lookup table ordered by the code's bit pattern: for int8, codes 0..127 come before -128..-1."""
    x = node.inputs[0]
    return np.roll(table, -128) if x is not None and x.type.dtype == "int8" else table
