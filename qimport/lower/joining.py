"""Joins the calls of a plan for several threads of which each thread can compute its parts without waiting.

Threads meet after every :class:`ParallelCall`, and wait for the slowest. Where no part of a call needs what
another thread computes in the call before, both become one: layers that read the same rows, layers computed
pixel by pixel, branches that know nothing of each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from qimport.lower.parallel import work
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
    return not isinstance(call, ControlCall) and _apart(other, kernel_calls(call))


def _join(group: PlanCall, call: PlanCall) -> ParallelCall | None:
    """Both as one call; None where a thread would have to wait for another one."""
    if not isinstance(group, ParallelCall) or isinstance(call, ControlCall):
        return None
    if isinstance(call, KernelCall):
        return _join_whole(group, call)
    if len(call.parts) != len(group.parts):
        return None
    for number, part in enumerate(call.parts):
        if not all(_may_run_in(group, number, one) for one in part):
            return None
    return ParallelCall(tuple(a + b for a, b in zip(group.parts, call.parts, strict=True)))


def _join_whole(group: ParallelCall, call: KernelCall) -> ParallelCall | None:
    """A call for one thread goes to the one that has least to do."""
    numbers = [number for number in range(len(group.parts)) if _may_run_in(group, number, call)]
    if not numbers:
        return None
    chosen = min(numbers, key=lambda number: sum(work(one.kernel) for one in group.parts[number]))
    parts = [part + (call,) * (number == chosen) for number, part in enumerate(group.parts)]
    return ParallelCall(tuple(parts))


def _may_run_in(group: ParallelCall, number: int, call: KernelCall) -> bool:
    """Whether ``call`` at the end of part ``number`` has nothing to do with the other parts."""
    return _apart(call, [one for place, part in enumerate(group.parts) if place != number for one in part])


def _apart(call: KernelCall, others: Sequence[KernelCall]) -> bool:
    """Whether a call and each of ``others`` write nothing that the other one touches."""
    return not any(call.disturbs(one) or one.disturbs(call) for one in others)
