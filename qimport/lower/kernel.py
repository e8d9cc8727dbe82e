"""Kernels: groups of prim nodes as small graphs, compared by what code they need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from qimport import prim
from qimport.ir.graph import Graph, Node, Value
from qimport.lower.fuse import Group

Strides = tuple[int, ...]
"""Elements between neighbours along each dimension of a tensor."""


def dense_strides(shape: Sequence[int]) -> Strides:
    """Strides of a row-major tensor without gaps."""
    strides = [1] * len(shape)
    for axis in range(len(shape) - 1, 0, -1):
        strides[axis - 1] = strides[axis] * shape[axis]
    return tuple(strides)


def multiply_accumulates(node: Node) -> int:
    """Products of a ``prim.mac`` or a ``prim.float_mac``; 0 for other nodes."""
    if not isinstance(node.op, prim.Mac | prim.FloatMac) or node.inputs[1] is None:
        return 0
    sums = node.outputs[0].type
    return sums.size * node.inputs[1].type.size // max(sums.shape[-1], 1)


@dataclass(frozen=True)
class Kernel:
    """One group of nodes to be compiled into one function.

    ``graph`` has the tensor operands as inputs, in the order of the function's parameters; constants
    hang in it with their data. ``result_strides`` of a result that is part of a larger tensor (a slice of
    a concatenation, the inside of a padded tensor), None when dense. ``in_place`` says that the result may
    share memory with an operand of its size; a ``prim.pad`` in place finds its operand where it belongs and
    writes what surrounds it. ``operand_strides`` of inputs that are part of a larger tensor, None for dense
    ones, () where all are dense; only elementwise nodes read such inputs, which have the result's shape.
    ``key`` is equal for kernels that differ only in the content of constants: these share code.
    """

    graph: Graph = field(compare=False)
    key: tuple[Any, ...]
    result_strides: Strides | None = None
    in_place: bool = False
    operand_strides: tuple[Strides | None, ...] = ()

    @property
    def root(self) -> Node:
        """The node that owns the loops."""
        return self.graph.nodes[0]

    @property
    def epilogue(self) -> tuple[Node, ...]:
        """The elementwise nodes applied to the root's result."""
        return self.graph.nodes[1:]

    @property
    def result(self) -> Value:
        """The only value that leaves the kernel."""
        return self.graph.outputs[0]

    def constants(self) -> list[Value]:
        """Constants in order of first use."""
        return list(self.graph.constants())

    def strides_of(self, value: Value) -> Strides:
        """Of a value that the kernel reads from memory."""
        strides = None
        if self.operand_strides and not value.is_constant:
            strides = self.operand_strides[self.graph.inputs.index(value)]
        return strides or dense_strides(value.type.shape)

    def describe(self) -> str:
        """Short text for tables: operations and result type."""
        names = [node.op.NAME.removeprefix("prim.") for node in self.graph.nodes]
        return f"{'+'.join(names)}{' in place' if self.in_place else ''} -> {self.result.type}"


def make_kernel(
    group: Group,
    result_strides: Strides | None,
    in_place: bool,
    strided: Mapping[Value, Strides] | None = None,
) -> Kernel:
    """The kernel of a group; ``strided`` are the operands that are part of larger tensors."""
    inputs: list[Value] = []
    number: dict[Value, int] = {}
    lines: list[tuple[Any, ...]] = []
    for node in group.nodes:
        refs: list[Any] = []
        for value in node.inputs:
            if value is None:
                refs.append(None)
                continue
            if value not in number:
                number[value] = len(number)
                if not value.is_constant:
                    inputs.append(value)
            refs.append((number[value], value.is_constant, str(value.type)))
        for value in node.outputs:
            number[value] = len(number)
        lines.append((repr(node.op), tuple(refs), tuple(str(value.type) for value in node.outputs)))
    graph = Graph("kernel", tuple(inputs), (group.result,), group.nodes)
    operand_strides = tuple(map(strided.get, inputs)) if strided else ()
    key = (*lines, result_strides, in_place, operand_strides)
    return Kernel(graph, key, result_strides, in_place, operand_strides)
