"""Where every tensor of a plan lives, before arena addresses are known.

RESHAPE and contiguous slices never cost a copy, producers write their part of a concatenation in place, and
states are overwritten when nobody reads their old content any more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Literal

from qimport import prim
from qimport.ir.graph import Graph, Node, Value
from qimport.ir.types import TensorType
from qimport.lower.arena import aligned
from qimport.lower.fuse import Group

Space = Literal["input", "output", "state", "arena"]


@dataclass(eq=False)
class Buffer:
    """Memory that one or more tensors live in: a caller's output, or a piece of the arena."""

    space: Space
    index: int
    nbytes: int


@dataclass(frozen=True)
class Place:
    """A tensor's spot in a buffer; ``row_stride`` in elements between its rows, None = dense."""

    buffer: Buffer
    offset: int = 0
    row_stride: int | None = None


@dataclass
class Step:
    """A kernel to run, before addresses are known.

    For control flow ``group`` is its only node and ``results`` are the places of all its results.
    """

    group: Group
    result: Place
    results: tuple[Place, ...] = ()


@dataclass
class Placement:
    """Walks the groups backwards and lets each consumer say where its operands should live."""

    graph: Graph
    places: dict[Value, Place] = field(default_factory=dict)
    aliases: dict[Value, tuple[Value, int]] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)

    def run(self, groups: list[Group]) -> None:
        """Place every stored value; afterwards ``steps`` is in execution order."""
        self.users = self.graph.users()
        self.producers = self.graph.producers()
        self.computed = set(self.producers)
        self._keep_states()
        for index, value in enumerate(self.graph.outputs):
            place = Place(Buffer("output", index, value.type.nbytes))
            if value in self.computed and value not in self.places:
                self.places[value] = place
            else:
                self._copy(value, value.type.shape, place)
        for group in reversed(groups):
            self._visit(group)
        self.steps.reverse()

    def _keep_states(self) -> None:
        """The last steps of the program: every state gets its next content.

        What lies in a state, perhaps as a view of another one, is first copied away from there: no step may
        overwrite what a later one reads. Steps are collected backwards.
        """
        offset = 0
        rescued: list[tuple[Value, Value]] = []
        for state in self.graph.states:
            place = Place(Buffer("state", 0, state.before.type.nbytes), offset)
            self.places[state.before] = place
            offset += aligned(state.before.type.nbytes)
        for state in self.graph.states:
            if state.after is state.before:
                continue
            source = state.after
            if self._origin(source) in self.places:
                source = Value(source.type, f"{source.name}.kept")
                self.places[source] = Place(Buffer("arena", 0, source.type.nbytes))
                rescued.append((state.after, source))
            self._copy(source, source.type.shape, self.places[state.before])
        for value, copy in rescued:
            self._copy(value, value.type.shape, self.places[copy])

    def _origin(self, value: Value) -> Value:
        """The value whose memory ``value`` may be a view of."""
        while value in self.producers and isinstance(self.producers[value].op, (prim.Reshape, prim.Slice)):
            source = self.producers[value].inputs[0]
            assert source is not None
            value = source
        return value

    def _visit(self, group: Group) -> None:
        root, result = group.root, group.result
        if root.bodies:
            self._control(root)
        elif isinstance(root.op, prim.Reshape):
            self._share(root, 0)
        elif isinstance(root.op, prim.Slice) and (begin := contiguous_begin(root)) is not None:
            self._share(root, begin)
        elif isinstance(root.op, prim.Concat):
            self._gather(root, root.op.axis)
        else:
            self.steps.append(Step(group, self._demand(result)))

    def _demand(self, value: Value) -> Place:
        """The place a consumer asked for, or a new piece of arena."""
        if value not in self.places:
            self.places[value] = Place(Buffer("arena", 0, value.type.nbytes))
        return self.places[value]

    def _control(self, node: Node) -> None:
        """Control flow: all its operands must lie in memory, so constants are copied there."""
        copies: dict[Value, Value] = {}
        for value in node.inputs:
            if value is not None and value.is_constant and value not in copies:
                copies[value] = Value(value.type, f"{value.name}.copy")
                self.places[copies[value]] = Place(Buffer("arena", 0, value.type.nbytes))
        operands = tuple(None if value is None else copies.get(value, value) for value in node.inputs)
        results = tuple(self._demand(value) for value in node.outputs)
        group = Group((replace(node, inputs=operands),), node.outputs[0])
        self.steps.append(Step(group, results[0], results))
        for value, copy in copies.items():
            self._copy(value, value.type.shape, self.places[copy])

    def _share(self, node: Node, offset: int) -> None:
        """A view: operand and result are the same memory where nobody has already decided otherwise."""
        source, result = node.inputs[0], node.outputs[0]
        assert source is not None
        demanded = self.places.get(result)
        if demanded is None:
            self.aliases[result] = (source, offset)
            return
        whole = offset == 0 and source.type.nbytes == result.type.nbytes
        free = source in self.computed and source not in self.places
        if whole and free and demanded.row_stride is None:
            self.places[source] = demanded
        else:
            self.steps.append(Step(Group((node,), result), demanded))

    def _gather(self, node: Node, axis: int) -> None:
        """A concatenation: each part is produced in its slice, or copied there."""
        result = node.outputs[0]
        whole = self._demand(result)
        outer = math.prod(result.type.shape[:axis])
        inner = math.prod(result.type.shape[axis + 1 :])
        along_rows = axis == len(result.type.shape) - 1
        if not along_rows and (outer != 1 or whole.row_stride is not None):
            self.steps.append(Step(Group((node,), result), whole))
            return
        stride = None if outer == 1 else whole.row_stride or result.type.shape[-1]
        start = 0
        for part in node.inputs:
            assert part is not None
            offset = whole.offset + start * inner * result.type.itemsize
            place = Place(whole.buffer, offset, stride)
            private = len(self.users[part]) == 1 and part not in self.graph.results
            free = part in self.computed and part not in self.places and not self.producers[part].bodies
            if free and (private or stride is None):
                self.places[part] = place
            else:
                self._copy(part, part.type.shape, place)
            start += part.type.shape[axis]

    def _copy(self, source: Value, shape: tuple[int, ...], place: Place) -> None:
        """Copy ``source`` to ``place`` at this point of the program."""
        result = Value(TensorType(source.type.dtype, shape), f"{source.name}.copy")
        node = Node(prim.Reshape(), (source,), (result,), f"copy of {source.name}")
        self.steps.append(Step(Group((node,), result), place))

    def find(self, value: Value) -> Place:
        """The final place of a computed value."""
        offset = 0
        while value not in self.places and value in self.aliases:
            value, shift = self.aliases[value]
            offset += shift
        if value not in self.places:
            index = self.graph.inputs.index(value)
            return Place(Buffer("input", index, value.type.nbytes), offset)
        place = self.places[value]
        return replace(place, offset=place.offset + offset)


def contiguous_begin(node: Node) -> int | None:
    """Byte offset of a ``prim.slice`` whose elements are one run of its operand's memory, else None."""
    assert isinstance(node.op, prim.Slice)
    source, result = node.inputs[0], node.outputs[0]
    assert source is not None
    sizes, counts = source.type.shape, result.type.shape
    partial = [i for i, (size, count) in enumerate(zip(sizes, counts, strict=True)) if size != count]
    if any(step != 1 for step, count in zip(node.op.stride, counts, strict=True) if count > 1):
        return None
    first = partial[0] if partial else 0
    if any(axis != first for axis in partial) or math.prod(counts[:first]) != 1:
        return None
    strides = [math.prod(sizes[axis + 1 :]) for axis in range(len(sizes))]
    begin = sum(start * stride for start, stride in zip(node.op.begin, strides, strict=True))
    return begin * source.type.itemsize
