"""Where padding makes the arena larger, layers are computed in strips, from which memory is free earlier.

A padded map is larger than what it surrounds, and a layer that reads one and writes another needs both at
once. Computed in strips of rows, it lets go of the rows that no later strip reads, and comes to the rows it
writes one strip after the other, so that both may share memory.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from qimport import prim
from qimport.lower.arena import Lifetime, Piece, assign_offsets, busiest, check_offsets, in_use
from qimport.lower.partition import Span, part
from qimport.lower.plan import KernelCall, PlanCall

STRIPS = (2, 3, 4, 6)
"""Numbers of strips that are tried, the fewest that are enough first."""

WORTH, ENOUGH = 1.04, 1.01
"""How much larger padding must make the arena, since strips compute some rows twice; what is near enough."""


def lifetimes_of(calls: Sequence[PlanCall]) -> list[Lifetime]:
    """When which bytes of each arena buffer are in use; ``calls`` name buffers by number."""
    touches: dict[int, list[Piece]] = {}
    for time, call in enumerate(calls):
        for operand in (*call.operands, *call.results):
            if operand.space == "arena":
                piece = Piece(operand.offset, operand.offset + operand.extent, time, time)
                touches.setdefault(operand.index, []).append(piece)
    return [Lifetime.touched(touches.get(number, ())) for number in range(max(touches, default=-1) + 1)]


def in_strips(calls: list[PlanCall]) -> list[PlanCall]:
    """``calls``, some of them in strips where padding makes the arena larger and strips make it smaller.

    The aim is the arena that would do if no padded map took more than what it surrounds.
    """
    lifetimes = lifetimes_of(calls)
    aim, smallest = busiest(_without_padding(calls, lifetimes)), _arena(lifetimes)
    if smallest <= WORTH * aim:
        return calls
    heavy = [time for time, nbytes in enumerate(in_use(lifetimes)) if nbytes > aim]
    best = calls
    for count, upwards in itertools.product(STRIPS, (True, False)):
        tried = list(calls)
        for number, time in reversed(list(enumerate(heavy))):
            tried[time : time + 1] = _strips(calls[time], count, upwards == number % 2)
        needed = _arena(lifetimes_of(tried))
        if needed < smallest:
            best, smallest = tried, needed
        if smallest <= ENOUGH * aim:
            break
    return best


def _without_padding(calls: Sequence[PlanCall], lifetimes: Sequence[Lifetime]) -> list[Lifetime]:
    """What ``lifetimes`` would be if padded maps had no border."""
    plain = list(lifetimes)
    for call in calls:
        if isinstance(call, KernelCall) and isinstance(call.kernel.root.op, prim.Pad):
            result, inside = call.result, call.kernel.graph.inputs[0].type.size
            if result.space == "arena":
                life = lifetimes[result.index]
                plain[result.index] = Lifetime.whole(inside * result.type.itemsize, life.first, life.last)
    return plain


def _arena(lifetimes: Sequence[Lifetime]) -> int:
    return check_offsets(lifetimes, assign_offsets(lifetimes))


def _strips(call: PlanCall, count: int, upwards: bool) -> list[PlanCall]:
    """Up to ``count`` calls in place of ``call``, if it can be cut along the outermost dimension.

    Strips have equal sizes and overlap where the number of rows is no multiple: they share one kernel.
    The first row comes first, or the last one: then a result can lie below its operand, or above.
    """
    if not isinstance(call, KernelCall) or call.kernel.in_place:
        return [call]
    shape = call.kernel.result.type.shape
    axis = next((axis for axis, size in enumerate(shape) if size > 1), None)
    if axis is None or axis == len(shape) - 1:
        return [call]
    rows, strips = -(-shape[axis] // count), min(count, shape[axis])
    starts = [number * (shape[axis] - rows) // (strips - 1) for number in range(strips)]
    parts = [part(call.kernel, Span(axis, start, start + rows)) for start in starts]
    found: list[PlanCall] = [call.part(piece) for piece in parts if piece is not None]
    if len(found) < strips:
        return [call]
    return found[::-1] if upwards else found
