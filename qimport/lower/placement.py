"""Where every tensor of a plan lives, before arena addresses are known.

RESHAPE and contiguous slices never cost a copy, producers write their part of a concatenation and the inside
of a padded tensor in place, and states are overwritten when nobody reads their old content any more.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from qimport import prim
from qimport.ir.graph import Graph, Node, Value
from qimport.ir.types import TensorType
from qimport.lower.arena import aligned
from qimport.lower.fuse import Group
from qimport.lower.kernel import Strides, dense_strides

DENSE_RESULTS = (prim.Detect, prim.Fft)
"""Roots whose kernels cannot write their result as part of a larger tensor."""

Space = Literal["input", "output", "state", "arena"]


@dataclass(eq=False)
class Buffer:
    """Memory that one or more tensors live in: a caller's output, or a piece of the arena."""

    space: Space
    index: int
    nbytes: int


@dataclass(frozen=True)
class Place:
    """A tensor's spot in a buffer; ``strides`` where it is part of a larger tensor, None = dense."""

    buffer: Buffer
    offset: int = 0
    strides: Strides | None = None

    def part(self, whole: TensorType, begin: Sequence[int], shape: Sequence[int]) -> Place:
        """The box of ``shape`` from ``begin`` on in the tensor ``whole``, which is placed here."""
        offset, strides = box(whole, self.strides, begin, shape)
        return Place(self.buffer, self.offset + offset, strides)


def box(
    whole: TensorType, strides: Strides | None, begin: Sequence[int], shape: Sequence[int]
) -> tuple[int, Strides | None]:
    """Byte offset of the box of ``shape`` from ``begin`` on in ``whole``; its strides unless it is dense."""
    strides = strides or dense_strides(whole.shape)
    first = sum(start * stride for start, stride in zip(begin, strides, strict=True))
    steps = zip(shape, strides, dense_strides(shape), strict=True)
    dense = all(size == 1 or step == wanted for size, step, wanted in steps)
    return first * whole.itemsize, None if dense else strides


def surrounding_boxes(
    whole: Sequence[int], begin: Sequence[int], inside: Sequence[int]
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Begin and shape of boxes that together are what surrounds the box of shape ``inside`` in ``whole``."""
    first, last = [0] * len(whole), list(whole)
    for axis, (start, size) in enumerate(zip(begin, inside, strict=True)):
        for low, high in ((0, start), (start + size, whole[axis])):
            if low < high:
                corner, end = list(first), list(last)
                corner[axis], end[axis] = low, high
                yield tuple(corner), tuple(b - a for a, b in zip(corner, end, strict=True))
        first[axis], last[axis] = start, start + size


@dataclass
class Step:
    """A kernel to run, before addresses are known.

    For control flow ``group`` is its only node and ``results`` are the places of all its results. A pad
    ``in_place`` has its operand inside its result.
    """

    group: Group
    result: Place
    in_place: bool = False
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
        elif isinstance(root.op, prim.Pad):
            self._surround(group, root.op)
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
        self.steps.append(Step(group, results[0], results=results))
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
        if whole and free and demanded.strides is None:
            self.places[source] = demanded
        else:
            self.steps.append(Step(Group((node,), result), demanded))

    def _gather(self, node: Node, axis: int) -> None:
        """A concatenation: each part is produced in its slice, or copied there."""
        result = node.outputs[0]
        whole = self._demand(result)
        begin = [0] * len(result.type.shape)
        for part in node.inputs:
            assert part is not None
            place = whole.part(result.type, begin, part.type.shape)
            if not self._produced_at(part, place):
                self._copy(part, part.type.shape, place)
            begin[axis] += part.type.shape[axis]

    def _surround(self, group: Group, op: prim.Pad) -> None:
        """A pad: its operand is produced inside, and only what surrounds it is written; or it is copied."""
        source, result = group.root.inputs[0], group.result
        assert source is not None
        whole = self._demand(result)
        inside = self._produced_at(source, whole.part(result.type, op.before, source.type.shape))
        self.steps.append(Step(group, whole, in_place=inside))

    def _produced_at(self, value: Value, place: Place) -> bool:
        """Let ``value`` be produced at ``place``, if it may lie there; kernels read dense operands only."""
        if value not in self.computed or value in self.places or self.producers[value].bodies:
            return False
        private = len(self.users[value]) == 1 and value not in self.graph.results
        strided = private and not isinstance(self.producers[value].op, DENSE_RESULTS)
        if place.strides is not None and not strided:
            return False
        self.places[value] = place
        return True

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
    begin = sum(start * stride for start, stride in zip(node.op.begin, dense_strides(sizes), strict=True))
    return begin * source.type.itemsize
