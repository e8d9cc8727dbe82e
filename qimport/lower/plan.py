"""The kernel plan: kernel calls in order, every tensor placed in inputs, outputs, constants or one arena.

RESHAPE and contiguous slices never cost a copy; producers write their part of a concatenation in place;
tensors whose lifetimes do not meet share arena bytes; an elementwise kernel may overwrite the operand
it reads last.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Literal

from qimport import prim
from qimport.errors import CompilerBug
from qimport.ir.graph import Array, Graph, Node, Value
from qimport.ir.types import TensorType
from qimport.lower.arena import ALIGNMENT, Lifetime, assign_offsets, check_offsets
from qimport.lower.fuse import ELEMENTWISE, Group, fuse
from qimport.lower.kernel import Kernel, make_kernel

Space = Literal["input", "output", "arena"]


@dataclass(frozen=True)
class Operand:
    """Where a kernel finds a tensor: byte ``offset`` into input/output number ``index`` or into the arena."""

    space: Space
    index: int
    offset: int
    type: TensorType

    def __str__(self) -> str:
        where = f"{self.space}{self.index if self.space != 'arena' else ''}"
        return f"{where}+{self.offset}: {self.type}"


@dataclass(frozen=True)
class KernelCall:
    """One step of the program. ``constants`` is what the kernel's tables are packed from, in kernel order."""

    kernel: Kernel
    operands: tuple[Operand, ...]
    result: Operand
    constants: tuple[Array, ...]
    origin: str


@dataclass(frozen=True)
class Plan:
    """A whole model as kernel calls; the caller supplies inputs, outputs and ``arena_bytes`` of memory."""

    name: str
    inputs: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]
    calls: tuple[KernelCall, ...]
    arena_bytes: int

    def __str__(self) -> str:
        lines = [f"plan {self.name}: arena {self.arena_bytes} bytes, {len(self.calls)} kernel calls"]
        for number, call in enumerate(self.calls):
            operands = ", ".join(map(str, call.operands))
            lines.append(f"  {number:3} {call.kernel.describe()}  ({operands}) -> {call.result}")
        return "\n".join(lines)


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
class _Step:
    """A kernel to run, before addresses are known."""

    group: Group
    result: Place


@dataclass
class _Placement:
    """Walks the groups backwards and lets each consumer say where its operands should live."""

    graph: Graph
    places: dict[Value, Place] = field(default_factory=dict)
    aliases: dict[Value, tuple[Value, int]] = field(default_factory=dict)
    steps: list[_Step] = field(default_factory=list)

    def run(self, groups: list[Group]) -> None:
        """Place every stored value; afterwards ``steps`` is in execution order."""
        self.users = self.graph.users()
        self.computed = {value for node in self.graph.nodes for value in node.outputs}
        for index, value in enumerate(self.graph.outputs):
            place = Place(Buffer("output", index, value.type.nbytes))
            if value in self.computed and value not in self.places:
                self.places[value] = place
            else:
                self._copy(value, value.type.shape, place)
        for group in reversed(groups):
            self._visit(group)
        self.steps.reverse()

    def _visit(self, group: Group) -> None:
        root, result = group.root, group.result
        if isinstance(root.op, prim.Reshape):
            self._share(root, 0)
        elif isinstance(root.op, prim.Slice) and (begin := contiguous_begin(root)) is not None:
            self._share(root, begin)
        elif isinstance(root.op, prim.Concat):
            self._gather(root, root.op.axis)
        else:
            self.steps.append(_Step(group, self._demand(result)))

    def _demand(self, value: Value) -> Place:
        """The place a consumer asked for, or a new piece of arena."""
        if value not in self.places:
            self.places[value] = Place(Buffer("arena", 0, value.type.nbytes))
        return self.places[value]

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
            self.steps.append(_Step(Group((node,), result), demanded))

    def _gather(self, node: Node, axis: int) -> None:
        """A concatenation: each part is produced in its slice, or copied there."""
        result = node.outputs[0]
        whole = self._demand(result)
        outer = math.prod(result.type.shape[:axis])
        inner = math.prod(result.type.shape[axis + 1 :])
        along_rows = axis == len(result.type.shape) - 1
        if not along_rows and (outer != 1 or whole.row_stride is not None):
            self.steps.append(_Step(Group((node,), result), whole))
            return
        stride = None if outer == 1 else whole.row_stride or result.type.shape[-1]
        start = 0
        for part in node.inputs:
            assert part is not None
            offset = whole.offset + start * inner * result.type.itemsize
            place = Place(whole.buffer, offset, stride)
            private = len(self.users[part]) == 1 and part not in self.graph.outputs
            if part in self.computed and part not in self.places and (private or stride is None):
                self.places[part] = place
            else:
                self._copy(part, part.type.shape, place)
            start += part.type.shape[axis]

    def _copy(self, source: Value, shape: tuple[int, ...], place: Place) -> None:
        """Copy ``source`` to ``place`` at this point of the program."""
        result = Value(TensorType(source.type.dtype, shape), f"{source.name}.copy")
        node = Node(prim.Reshape(), (source,), (result,), f"copy of {source.name}")
        self.steps.append(_Step(Group((node,), result), place))

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


def make_plan(graph: Graph) -> Plan:
    """Fuse ``graph`` (prim) into kernels and lay its tensors out; the plan is checked."""
    placement = _Placement(graph)
    placement.run(fuse(graph))
    calls, lifetimes = _schedule(placement)
    offsets = assign_offsets(lifetimes)
    arena_bytes = check_offsets(lifetimes, offsets)
    located = tuple(
        replace(
            call,
            operands=tuple(_locate(operand, offsets) for operand in call.operands),
            result=_locate(call.result, offsets),
        )
        for call in calls
    )
    inputs = tuple(value.type for value in graph.inputs)
    outputs = tuple(value.type for value in graph.outputs)
    plan = Plan(graph.name, inputs, outputs, located, arena_bytes)
    check_plan(plan)
    return plan


def _locate(operand: Operand, offsets: list[int]) -> Operand:
    """Turn (arena buffer number, offset in it) into an arena offset."""
    if operand.space != "arena":
        return operand
    return replace(operand, index=0, offset=offsets[operand.index] + operand.offset)


def _schedule(placement: _Placement) -> tuple[list[KernelCall], list[Lifetime]]:
    """Kernel calls with buffer-relative operands, and when each arena buffer is alive."""
    numbers: dict[Buffer, int] = {}
    lifetimes: list[Lifetime] = []

    def operand(value: Value, place: Place, time: int) -> Operand:
        index = place.buffer.index
        if place.buffer.space == "arena":
            index = numbers.setdefault(place.buffer, len(numbers))
            if index == len(lifetimes):
                lifetimes.append(Lifetime(place.buffer.nbytes, time, time))
            lifetimes[index] = replace(lifetimes[index], last=time)
        return Operand(place.buffer.space, index, place.offset, value.type)

    calls = []
    for time, step in enumerate(placement.steps):
        kernel = make_kernel(step.group, step.result.row_stride, False)
        operands = tuple(operand(value, placement.find(value), time) for value in kernel.graph.inputs)
        result = operand(kernel.result, step.result, time)
        constants = tuple(value.data for value in kernel.constants() if value.data is not None)
        origins = dict.fromkeys(node.origin for node in step.group.nodes if node.origin)
        calls.append(KernelCall(kernel, operands, result, constants, "; ".join(origins)))
    return _reuse_operands(calls, lifetimes), lifetimes


def _reuse_operands(calls: list[KernelCall], lifetimes: list[Lifetime]) -> list[KernelCall]:
    """Let results take over the buffer of an operand that dies in the same elementwise kernel."""
    merged: dict[int, int] = {}

    def final(index: int) -> int:
        while index in merged:
            index = merged[index]
        return index

    for time, call in enumerate(calls):
        target = call.result
        if target.space != "arena" or target.offset != 0 or call.kernel.result_row_stride is not None:
            continue
        mine = final(target.index)
        if lifetimes[mine].first != time or lifetimes[mine].nbytes != target.type.nbytes:
            continue
        for position, operand in enumerate(call.operands):
            if operand.space != "arena" or not _elementwise_operand(call.kernel, position):
                continue
            theirs = final(operand.index)
            dies = lifetimes[theirs].last == time and lifetimes[theirs].nbytes == target.type.nbytes
            readers = [o for o in call.operands if o.space == "arena" and final(o.index) == theirs]
            if theirs != mine and dies and readers == [operand]:
                lifetimes[theirs] = replace(lifetimes[theirs], last=lifetimes[mine].last)
                lifetimes[mine] = replace(lifetimes[mine], nbytes=0)
                merged[mine] = theirs
                group = Group(call.kernel.graph.nodes, call.kernel.result)
                calls[time] = replace(call, kernel=make_kernel(group, None, True))
                break

    def renumber(operand: Operand) -> Operand:
        return replace(operand, index=final(operand.index)) if operand.space == "arena" else operand

    return [
        replace(call, operands=tuple(map(renumber, call.operands)), result=renumber(call.result))
        for call in calls
    ]


def _elementwise_operand(kernel: Kernel, position: int) -> bool:
    """Whether element i of this operand is only read for element i of a result of the same element size."""
    value = kernel.graph.inputs[position]
    readers = [node for node in kernel.graph.nodes if value in node.inputs]
    same_layout = value.type.shape == kernel.result.type.shape
    same_layout = same_layout and value.type.itemsize == kernel.result.type.itemsize
    return same_layout and all(isinstance(node.op, ELEMENTWISE) for node in readers)


def check_plan(plan: Plan) -> None:
    """Prove that every operand lies inside its tensor or the arena and that arena tensors are aligned.

    Raises:
        CompilerBug: naming the call.
    """
    for number, call in enumerate(plan.calls):
        for operand in (*call.operands, call.result):
            limit = _limit(plan, operand)
            stride = call.kernel.result_row_stride if operand is call.result else None
            end = operand.offset + _extent(operand.type, stride)
            if operand.offset < 0 or end > limit:
                raise CompilerBug(f"kernel call {number}: {operand} ends at {end} of {limit} bytes")


def _limit(plan: Plan, operand: Operand) -> int:
    if operand.space == "arena":
        return plan.arena_bytes
    return (plan.inputs if operand.space == "input" else plan.outputs)[operand.index].nbytes


def _extent(type_: TensorType, row_stride: int | None) -> int:
    """Bytes from the first to behind the last element."""
    if row_stride is None:
        return type_.nbytes
    rows = math.prod(type_.shape[:-1])
    return ((rows - 1) * row_stride + type_.shape[-1]) * type_.itemsize


__all__ = ["ALIGNMENT", "KernelCall", "Operand", "Plan", "check_plan", "make_plan"]
