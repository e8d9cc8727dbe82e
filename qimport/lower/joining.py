"""Joins the calls of a plan for several threads of which each thread can compute its parts without waiting.

Threads meet after every :class:`ParallelCall`, and wait for the slowest. Where no part of a call needs what
another thread computes in the call before, both become one: layers that read the same rows, layers computed
pixel by pixel, branches that know nothing of each other.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

from qimport.lower.parallel import even_spans, outermost, work
from qimport.lower.partition import part
from qimport.lower.plan import ControlCall, KernelCall, ParallelCall, Plan, PlanCall, check_plan, kernel_calls

Part = tuple[KernelCall, ...]


def join_calls(plan: Plan) -> Plan:
    """``plan`` with as few parallel calls as a walk through it finds; every byte stays where it is."""
    if plan.threads == 1:
        return plan
    calls: list[PlanCall] = []
    for call in _pads_before_producers(plan.calls):
        joined = _join(calls[-1], call) if calls else None
        if joined is None:
            calls.append(call)
        else:
            calls[-1] = joined
    result = replace(plan, calls=tuple(calls))
    check_plan(result)
    return result


def _pads_before_producers(calls: Sequence[PlanCall]) -> list[PlanCall]:
    """Pads in place stand before what they surround, so that they do not part two heavy layers."""
    found: list[PlanCall] = []
    for call in calls:
        place = len(found)
        if isinstance(call, KernelCall) and call.pads_in_place:
            while place and _commute(found[place - 1], call):
                place -= 1
                if any(not call.operands[0].apart(result) for result in found[place].results):
                    break
        found.insert(place, call)
    return found


def _commute(call: PlanCall, other: KernelCall) -> bool:
    """Whether the two may run in any order."""
    return not isinstance(call, ControlCall) and _independent([(), kernel_calls(call)], [(other,), ()])


def _join(first: PlanCall, second: PlanCall) -> ParallelCall | None:
    """Both as one call; None where a thread would have to wait for another one."""
    for before in _ways(first, second):
        for after in _ways(second, first):
            if _independent(before, after):
                return ParallelCall(tuple(a + b for a, b in zip(before, after, strict=True)))
    return None


def _ways(call: PlanCall, other: PlanCall) -> Iterator[tuple[Part, ...]]:
    """``call`` in as many parts as ``other`` has; one for one thread goes to the one with least to do."""
    if isinstance(call, ParallelCall):
        if not isinstance(other, ParallelCall) or len(call.parts) == len(other.parts):
            yield call.parts
    elif isinstance(call, KernelCall) and isinstance(other, ParallelCall):
        count = len(other.parts)
        if call.pads_in_place and (parts := _parts_of_pad(call, count)):
            yield parts
        loads = [sum(work(one.kernel) for one in theirs) for theirs in other.parts]
        for chosen in sorted(range(count), key=loads.__getitem__):
            yield tuple((call,) * (number == chosen) for number in range(count))


def _parts_of_pad(call: KernelCall, count: int) -> tuple[Part, ...] | None:
    """Rows of a pad in place, about those that each thread computes of what it surrounds."""
    rows = outermost(call.kernel)
    if rows is None:
        return None
    spans = even_spans(rows, call.kernel.result.type.shape[rows], count, 1)
    pieces = [part(call.kernel, span) for span in spans]
    parts = tuple((call.part(piece),) for piece in pieces if piece is not None)
    return parts if len(parts) == count else None


def _independent(before: Sequence[Part], after: Sequence[Part]) -> bool:
    """Whether no thread's part ``after`` touches what another one's ``before`` writes, or the reverse."""
    return not any(
        one.disturbs(other) or other.disturbs(one)
        for (number, mine), (place, theirs) in itertools.product(enumerate(after), enumerate(before))
        if number != place
        for one, other in itertools.product(mine, theirs)
    )
