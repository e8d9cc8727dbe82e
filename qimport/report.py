"""What a graph consists of, as a table: one row per node, and the sums a reader wants first."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from qimport.ir.graph import Graph, Node, Value
from qimport.ir.types import DTYPES, TensorType
from qimport.prim.mac import Mac
from qimport.qnn.weighted import WeightedOperation


@dataclass(frozen=True)
class Row:
    """One node. ``macs`` counts multiply-accumulates with padded taps, ``weight_bytes`` constants."""

    index: int
    operator: str
    name: str
    shape: tuple[int, ...]
    type: str
    macs: int
    weight_bytes: int
    origin: str


def node_rows(graph: Graph) -> list[Row]:
    """A row per node; shape, type and name are those of its first result.

    The nodes that control flow runs come behind it, as often as they stand in the graph.
    """
    return [_row(index, node) for index, node in enumerate(_all_nodes(graph))]


def _all_nodes(graph: Graph) -> Iterator[Node]:
    for node in graph.nodes:
        yield node
        for body in node.bodies:
            yield from _all_nodes(body)


def _all_constants(graph: Graph) -> set[Value]:
    bodies = [body for node in graph.nodes for body in node.bodies]
    return set(graph.constants()).union(*map(_all_constants, bodies))


def _row(index: int, node: Node) -> Row:
    result = node.outputs[0]
    constants = {value for value in node.inputs if value is not None and value.is_constant}
    return Row(
        index=index,
        operator=node.op.NAME,
        name=result.name,
        shape=result.type.shape,
        type=brief_type(result.type),
        macs=node_macs(node),
        weight_bytes=sum(value.type.nbytes for value in constants),
        origin=node.origin,
    )


def node_macs(node: Node) -> int:
    """Multiply-accumulates of a convolution, depthwise convolution or matrix product; 0 for everything else.

    Each result element takes one per weight of its output channel.
    """
    if isinstance(node.op, WeightedOperation):
        axis = node.op.WEIGHT_AXIS
    elif isinstance(node.op, Mac):
        axis = 0
    else:
        return 0
    weight = node.call().input(1)
    return node.outputs[0].type.size * weight.size // max(weight.shape[axis], 1)


def brief_type(type_: TensorType) -> str:
    """Element type and quantization for people: ``i8 0.0625:-128`` or ``i8 32 scales @0``."""
    short, q = DTYPES[type_.dtype][0], type_.quantization
    if q is None:
        return short
    if q.per_channel:
        return f"{short} {len(q.scales)} scales @{q.axis}"
    return f"{short} {q.scale:.6g}:{q.zero_point}"


def summarize(graph: Graph) -> dict[str, Any]:
    """The whole report, ready for ``json.dumps``.

    Keys: name, inputs, outputs (lists of tensors: name, dtype, shape, quantization or None), operators (the
    rows), operator_counts, macs and weight_bytes (a constant that several nodes read counts once).
    """
    rows = node_rows(graph)
    return {
        "name": graph.name,
        "inputs": [describe_tensor(value) for value in graph.inputs],
        "outputs": [describe_tensor(value) for value in graph.outputs],
        "operators": [dataclasses.asdict(row) | {"shape": list(row.shape)} for row in rows],
        "operator_counts": dict(sorted(Counter(row.operator for row in rows).items())),
        "macs": sum(row.macs for row in rows),
        "weight_bytes": sum(value.type.nbytes for value in _all_constants(graph)),
    }


def describe_tensor(value: Value) -> dict[str, Any]:
    """Name, element type, shape and quantization of a value, ready for JSON."""
    q = value.type.quantization
    return {
        "name": value.name,
        "dtype": value.type.dtype,
        "shape": list(value.type.shape),
        "quantization": None
        if q is None
        else {"scales": list(q.scales), "zero_points": list(q.zero_points), "axis": q.axis},
    }
