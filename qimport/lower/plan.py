"""The kernel plan: kernel calls in order, every tensor placed in inputs, outputs, constants or one arena.

RESHAPE and contiguous slices never cost a copy; producers write their part of a concatenation and the inside
of a padded tensor in place; tensors whose lifetimes do not meet share arena bytes; an elementwise kernel may
overwrite the operand it reads last.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from qimport import prim
from qimport.errors import CompilerBug
from qimport.ir.graph import Array
from qimport.ir.types import TensorType
from qimport.lower.arena import Piece, aligned
from qimport.lower.kernel import Kernel, Strides, dense_strides
from qimport.lower.partition import Part
from qimport.lower.placement import Space, box, surrounding_boxes


@dataclass(frozen=True)
class Operand:
    """Where a kernel finds a tensor: byte ``offset`` into input/output number ``index`` or into the arena.

    States are the first part of the arena, and their offsets count from its begin, too. ``strides`` in
    elements where it is part of a larger tensor, None = dense.
    """

    space: Space
    index: int
    offset: int
    type: TensorType
    strides: Strides | None = None

    def __str__(self) -> str:
        where = f"{self.space}{self.index if self.space in ('input', 'output') else ''}"
        apart = "" if self.strides is None else f" strides {'x'.join(map(str, self.strides))}"
        return f"{where}+{self.offset}: {self.type}{apart}"

    @property
    def extent(self) -> int:
        """Bytes from the first to behind the last element."""
        if self.type.size == 0:
            return 0
        strides = self.strides or dense_strides(self.type.shape)
        last = sum((size - 1) * step for size, step in zip(self.type.shape, strides, strict=True))
        return (last + 1) * self.type.itemsize

    def apart(self, other: Operand) -> bool:
        """Whether no byte belongs to both."""
        ends = [operand.offset + operand.extent for operand in (self, other)]
        if self.space != other.space or (self.space != "arena" and self.index != other.index):
            return True
        if ends[0] <= other.offset or ends[1] <= self.offset:
            return True
        first, size = min(self.offset, other.offset), self.type.itemsize
        if size != other.type.itemsize or (self.offset - other.offset) % size:
            return False
        marks = np.zeros((max(ends) - first) // size, bool)
        marks[self.positions((self.offset - first) // size)] = True
        return not marks[other.positions((other.offset - first) // size)].any()

    def box(self, begin: Sequence[int], shape: tuple[int, ...]) -> Operand:
        """The part of ``shape`` from ``begin`` on."""
        offset, strides = box(self.type, self.strides, begin, shape)
        return replace(
            self, offset=self.offset + offset, type=replace(self.type, shape=shape), strides=strides
        )

    def positions(self, start: int) -> Array:
        """The index of every element in an array in which the first one is number ``start``."""
        found = np.array([start])
        for size, step in zip(self.type.shape, self.strides or dense_strides(self.type.shape), strict=True):
            found = (found[:, None] + np.arange(size) * step).ravel()
        return found


@dataclass(frozen=True)
class KernelCall:
    """One step of the program. ``constants`` is what the kernel's tables are packed from, in kernel order."""

    kernel: Kernel
    operands: tuple[Operand, ...]
    result: Operand
    constants: tuple[Array, ...]
    origin: str

    @property
    def results(self) -> tuple[Operand, ...]:
        """What it writes."""
        return (self.result,)

    @property
    def pads_in_place(self) -> bool:
        """Whether its operand already lies inside its result."""
        return isinstance(self.kernel.root.op, prim.Pad) and self.kernel.in_place

    def written(self) -> list[Operand]:
        """Its result, or where the operand lies inside already, boxes of what surrounds it."""
        op, result = self.kernel.root.op, self.result
        if not (isinstance(op, prim.Pad) and self.pads_in_place):
            return [result]
        boxes = surrounding_boxes(result.type.shape, op.before, self.operands[0].type.shape)
        return [result.box(begin, shape) for begin, shape in boxes]

    def disturbs(self, other: KernelCall) -> bool:
        """Whether it writes a byte that ``other`` reads or writes."""
        read = () if other.pads_in_place else other.operands
        return any(not mine.apart(theirs) for mine in self.written() for theirs in (*read, *other.written()))

    def part(self, piece: Part) -> KernelCall:
        """The call of a part of the kernel, or of the whole one in another form."""
        kernel = piece.kernel
        result = kernel.result.type
        begin = self.result.offset + piece.result * result.itemsize
        place = replace(self.result, offset=begin, type=result, strides=kernel.result_strides)
        constants = tuple(value.data for value in kernel.constants() if value.data is not None)
        if self.pads_in_place:
            return KernelCall(kernel, (_inside(kernel, place),), place, constants, self.origin)
        apart = kernel.operand_strides or (None,) * len(self.operands)
        operands = tuple(
            replace(
                operand, offset=operand.offset + begin * value.type.itemsize, type=value.type, strides=strides
            )
            for operand, begin, value, strides in zip(
                self.operands, piece.operands, kernel.graph.inputs, apart, strict=True
            )
        )
        return KernelCall(kernel, operands, place, constants, self.origin)

    def relocate(self, move: Callable[[Operand], Operand]) -> KernelCall:
        """The same on operands that ``move`` gives."""
        return replace(self, operands=tuple(map(move, self.operands)), result=move(self.result))

    def lines(self) -> list[str]:
        """What is printed of it."""
        operands = ", ".join(map(str, self.operands))
        return [f"{self.kernel.describe()}  ({operands}) -> {self.result}"]


@dataclass(frozen=True)
class ControlCall:
    """A branch or a loop over other plans, which have no states; see :mod:`qimport.ir.control`.

    ``scratch`` is memory for the arena of the body that runs and, in a loop, behind it for the next values
    and the condition. A loop begins with a copy of the operands to the results and keeps its values there.
    """

    kind: Literal["if", "while"]
    bodies: tuple[Plan, ...]
    operands: tuple[Operand, ...]
    outcomes: tuple[Operand, ...]
    scratch: Operand
    origin: str

    @property
    def results(self) -> tuple[Operand, ...]:
        """What it writes."""
        return (*self.outcomes, self.scratch)

    @property
    def next_values(self) -> tuple[int, ...]:
        """Offset into ``scratch`` of the next value of every result of a loop, then of the condition."""
        offsets = [aligned(max(body.arena_bytes for body in self.bodies))]
        for outcome in self.outcomes:
            offsets.append(offsets[-1] + aligned(outcome.type.nbytes))
        return tuple(offsets)

    def relocate(self, move: Callable[[Operand], Operand]) -> ControlCall:
        """The same on operands that ``move`` gives."""
        return replace(
            self,
            operands=tuple(map(move, self.operands)),
            outcomes=tuple(map(move, self.outcomes)),
            scratch=move(self.scratch),
        )

    def lines(self) -> list[str]:
        """What is printed of it, the bodies behind it."""
        operands, outcomes = (", ".join(map(str, items)) for items in (self.operands, self.outcomes))
        found = [f"{self.kind}  ({operands}) -> {outcomes}, scratch {self.scratch}"]
        for body in self.bodies:
            found += [f"    {line}" for line in str(body).splitlines()]
        return found


@dataclass(frozen=True)
class ParallelCall:
    """Runs of kernel calls that may go on at the same time: none writes a byte that another one touches."""

    parts: tuple[tuple[KernelCall, ...], ...]

    @property
    def calls(self) -> tuple[KernelCall, ...]:
        """Those of all parts, one part after the other."""
        return tuple(call for part in self.parts for call in part)

    @property
    def operands(self) -> tuple[Operand, ...]:
        """What all of them read."""
        return tuple(operand for call in self.calls for operand in call.operands)

    @property
    def results(self) -> tuple[Operand, ...]:
        """What all of them write."""
        return tuple(call.result for call in self.calls)

    @property
    def origin(self) -> str:
        """The operators that they belong to."""
        return "; ".join(dict.fromkeys(call.origin for call in self.calls))

    def relocate(self, move: Callable[[Operand], Operand]) -> ParallelCall:
        """The same on operands that ``move`` gives."""
        return ParallelCall(tuple(tuple(call.relocate(move) for call in part) for part in self.parts))

    def lines(self) -> list[str]:
        """What is printed of it: the calls behind the number of their part."""
        found = [f"parallel: {len(self.parts)}"]
        for number, part in enumerate(self.parts):
            found += [f"    part {number}: {line}" for call in part for line in call.lines()]
        return found


PlanCall = KernelCall | ControlCall | ParallelCall


@dataclass(frozen=True)
class StatePlace:
    """A state of the graph, at ``offset`` of the arena."""

    name: str
    type: TensorType
    offset: int
    initial: Array = field(repr=False, compare=False)


@dataclass(frozen=True)
class Plan:
    """A whole model as kernel calls; the caller supplies inputs, outputs and ``arena_bytes`` of memory.

    The first ``state_bytes`` of it hold the ``states`` from call to call. ``threads`` is how many can work at
    the same time, more than one if there is a :class:`ParallelCall`. ``pieces`` tell which bytes of the arena
    are in use when, counted in calls before they are split for threads.
    """

    name: str
    inputs: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]
    calls: tuple[PlanCall, ...]
    arena_bytes: int
    states: tuple[StatePlace, ...] = ()
    state_bytes: int = 0
    threads: int = 1
    pieces: tuple[Piece, ...] = ()

    @property
    def initial_state(self) -> bytes:
        """What the first ``state_bytes`` of the arena must hold before the first call."""
        content = bytearray(self.state_bytes)
        for state in self.states:
            content[state.offset : state.offset + state.type.nbytes] = state.initial.tobytes()
        return bytes(content)

    def __str__(self) -> str:
        kept = f" ({self.state_bytes} of them state)" if self.states else ""
        lines = [f"plan {self.name}: arena {self.arena_bytes} bytes{kept}, {len(self.calls)} kernel calls"]
        lines += [f"  state {state.name} at {state.offset}: {state.type}" for state in self.states]
        for number, call in enumerate(self.calls):
            first, *others = call.lines()
            lines += [f"  {number:3} {first}", *(f"  {line}" for line in others)]
        return "\n".join(lines)


def check_plan(plan: Plan) -> None:
    """Prove that every operand lies inside its tensor or the arena, and that what is read is dense.

    Raises:
        CompilerBug: naming the call.
    """
    for number, call in enumerate(plan.calls):
        for operand in (*call.operands, *call.results):
            limit = _limit(plan, operand)
            end = operand.offset + operand.extent
            start = plan.state_bytes if operand.space == "arena" else 0
            if operand.offset < start or end > limit:
                raise CompilerBug(f"kernel call {number}: {operand} ends at {end} of {limit} bytes")
        for part in kernel_calls(call):
            _check_strides(number, part)
        if isinstance(call, ParallelCall):
            _check_apart(number, call)


def kernel_calls(call: PlanCall) -> tuple[KernelCall, ...]:
    """The kernel calls that a call of a plan consists of; none for control flow."""
    if isinstance(call, ControlCall):
        return ()
    return call.calls if isinstance(call, ParallelCall) else (call,)


def _limit(plan: Plan, operand: Operand) -> int:
    if operand.space in ("arena", "state"):
        return plan.arena_bytes if operand.space == "arena" else plan.state_bytes
    return (plan.inputs if operand.space == "input" else plan.outputs)[operand.index].nbytes


def _check_strides(number: int, call: KernelCall) -> None:
    """The kernel reads and writes as its operands are placed; a pad in place reads what lies inside."""
    apart = call.kernel.operand_strides or (None,) * len(call.operands)
    wanted = [replace(operand, strides=own) for operand, own in zip(call.operands, apart, strict=True)]
    if call.pads_in_place:
        wanted = [_inside(call.kernel, call.result)]
    if list(call.operands) != wanted or call.result.strides != call.kernel.result_strides:
        raise CompilerBug(f"kernel call {number}: {call.kernel.describe()} does not lie like its operands")


def _inside(kernel: Kernel, result: Operand) -> Operand:
    """Where the operand of a pad in place lies in its result."""
    op, (value,) = kernel.root.op, kernel.graph.inputs
    assert isinstance(op, prim.Pad)
    return replace(result.box(op.before, value.type.shape), type=value.type)


def _check_apart(number: int, group: ParallelCall) -> None:
    """No part writes what another one reads or writes."""
    for first, second in itertools.permutations(group.parts, 2):
        for call, other in itertools.product(first, second):
            if call.disturbs(other):
                raise CompilerBug(f"kernel call {number}: {call.lines()[0]} meets {other.lines()[0]}")


__all__ = [
    "ControlCall",
    "KernelCall",
    "Operand",
    "ParallelCall",
    "Plan",
    "check_plan",
    "kernel_calls",
]
