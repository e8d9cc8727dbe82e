"""From a prim graph to a plan: fused, placed, and laid out in one arena."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from qimport import prim
from qimport.ir.graph import Graph
from qimport.ir.types import ALIGNMENT, TensorType
from qimport.lower.affinity import offsets_by_thread
from qimport.lower.arena import Lifetime, aligned, assign_offsets, check_offsets
from qimport.lower.fuse import ELEMENTWISE, Group, fuse
from qimport.lower.kernel import Kernel, make_kernel
from qimport.lower.parallel import split_calls
from qimport.lower.placement import Buffer, Place, Placement, Step
from qimport.lower.plan import (
    ControlCall,
    KernelCall,
    Operand,
    ParallelCall,
    Plan,
    PlanCall,
    StatePlace,
    check_plan,
)
from qimport.lower.strips import in_strips, lifetimes_of


def make_plan(graph: Graph, threads: int = 1) -> Plan:
    """Fuse ``graph`` (prim) into kernels and lay its tensors out; the plan is checked.

    For several ``threads``, heavy kernels are in parts, if there are any.
    """
    placement = Placement(graph)
    placement.run(fuse(graph))
    calls = _reuse_operands(_schedule(placement))
    split = split_calls(calls, threads)
    if any(isinstance(call, ParallelCall) for call in split):
        calls, lifetimes = split, lifetimes_of(split)
        offsets = offsets_by_thread(lifetimes, calls)
    else:
        threads, calls = 1, in_strips(calls)
        lifetimes = lifetimes_of(calls)
        offsets = assign_offsets(lifetimes)
    states, state_bytes = _place_states(graph, placement)
    arena_bytes = state_bytes + check_offsets(lifetimes, offsets)
    offsets = [state_bytes + offset for offset in offsets]
    plan = Plan(
        graph.name,
        tuple(value.type for value in graph.inputs),
        tuple(value.type for value in graph.outputs),
        tuple(call.relocate(lambda operand: _locate(operand, offsets)) for call in calls),
        arena_bytes,
        states,
        state_bytes,
        threads,
        pieces=tuple(
            piece.moved(offset)
            for offset, life in zip(offsets, lifetimes, strict=True)
            for piece in life.pieces
        ),
    )
    check_plan(plan)
    return plan


def _place_states(graph: Graph, placement: Placement) -> tuple[tuple[StatePlace, ...], int]:
    """Every state at its offset, and the bytes of all: they begin the arena."""
    places = tuple(
        StatePlace(state.name, state.before.type, placement.places[state.before].offset, state.initial)
        for state in graph.states
    )
    return places, aligned(max((place.offset + place.type.nbytes for place in places), default=0))


def _locate(operand: Operand, offsets: list[int]) -> Operand:
    """Turn (arena buffer number, offset in it) into an arena offset."""
    if operand.space != "arena":
        return operand
    return replace(operand, index=0, offset=offsets[operand.index] + operand.offset)


def _schedule(placement: Placement) -> list[PlanCall]:
    """Calls with operands at offsets of numbered arena buffers."""
    numbers: dict[Buffer, int] = {}

    def operand(type_: TensorType, place: Place) -> Operand:
        index = place.buffer.index
        if place.buffer.space == "arena":
            index = numbers.setdefault(place.buffer, len(numbers))
        return Operand(place.buffer.space, index, place.offset, type_, place.strides)

    calls: list[PlanCall] = []
    for step in placement.steps:
        if step.results:
            calls.append(_control_call(placement, step, operand))
            continue
        kernel = make_kernel(step.group, step.result.strides, step.in_place)
        operands = tuple(operand(value.type, placement.find(value)) for value in kernel.graph.inputs)
        result = operand(kernel.result.type, step.result)
        constants = tuple(value.data for value in kernel.constants() if value.data is not None)
        origins = dict.fromkeys(node.origin for node in step.group.nodes if node.origin)
        calls.append(KernelCall(kernel, operands, result, constants, "; ".join(origins)))
    return calls


def _control_call(
    placement: Placement, step: Step, operand: Callable[[TensorType, Place], Operand]
) -> ControlCall:
    """A branch or a loop with the plans of its bodies."""
    node = step.group.root
    values = [value for value in node.inputs if value is not None]
    outcomes = tuple(operand(v.type, place) for v, place in zip(node.outputs, step.results, strict=True))
    call = ControlCall(
        "while" if isinstance(node.op, prim.While) else "if",
        tuple(make_plan(body) for body in node.bodies),
        tuple(operand(value.type, placement.find(value)) for value in values),
        outcomes,
        Operand("arena", 0, 0, TensorType("uint8", ())),
        node.origin,
    )
    nbytes = call.next_values[-1] + ALIGNMENT if call.kind == "while" else call.next_values[0]
    scratch = Place(Buffer("arena", 0, nbytes))
    return replace(call, scratch=operand(TensorType("uint8", (nbytes,)), scratch))


def _reuse_operands(calls: list[PlanCall]) -> list[PlanCall]:
    """Let results take over the buffer of an operand that dies in the same elementwise kernel."""
    lifetimes = lifetimes_of(calls)
    taken_over: dict[int, int] = {}

    def buffer(operand: Operand) -> int | None:
        """The buffer that it is in by now."""
        index = operand.index if operand.space == "arena" else None
        while index in taken_over:
            index = taken_over[index]
        return index

    for time, call in enumerate(calls):
        if not isinstance(call, KernelCall):
            continue
        result = call.result
        mine = buffer(result)
        if mine is None or result.offset or result.strides is not None:
            continue
        if lifetimes[mine].first != time or lifetimes[mine].nbytes != result.type.nbytes:
            continue
        for position, operand in enumerate(call.operands):
            theirs = buffer(operand)
            if theirs in (None, mine) or not _elementwise_operand(call.kernel, position):
                continue
            dies = lifetimes[theirs].last == time and lifetimes[theirs].nbytes == result.type.nbytes
            if dies and [buffer(other) for other in call.operands].count(theirs) == 1:
                lifetimes[theirs] = Lifetime.touched((*lifetimes[theirs].pieces, *lifetimes[mine].pieces))
                taken_over[mine] = theirs
                group = Group(call.kernel.graph.nodes, call.kernel.result)
                calls[time] = replace(call, kernel=make_kernel(group, None, True))
                break

    def renumber(operand: Operand) -> Operand:
        index = buffer(operand)
        return operand if index is None else replace(operand, index=index)

    return [call.relocate(renumber) for call in calls]


def _elementwise_operand(kernel: Kernel, position: int) -> bool:
    """Whether element i of this operand is only read for element i of a result of the same element size."""
    value = kernel.graph.inputs[position]
    readers = [node for node in kernel.graph.nodes if value in node.inputs]
    same_layout = value.type.shape == kernel.result.type.shape
    same_layout = same_layout and value.type.itemsize == kernel.result.type.itemsize
    return same_layout and all(isinstance(node.op, ELEMENTWISE) for node in readers)
