"""Static memory: offsets for buffers with known lifetimes, and the proof that they do not overlap."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from qimport.errors import CompilerBug
from qimport.ir.types import ALIGNMENT


@dataclass(frozen=True)
class Lifetime:
    """A buffer of ``nbytes`` written first in step ``first`` and read last in step ``last``."""

    nbytes: int
    first: int
    last: int

    def meets(self, other: Lifetime) -> bool:
        """Whether both are alive in some step."""
        return self.first <= other.last and other.first <= self.last


def aligned(value: int) -> int:
    """The next multiple of :data:`ALIGNMENT`."""
    return -(-value // ALIGNMENT) * ALIGNMENT


ORDERS: tuple[Callable[[Lifetime], int], ...] = (
    lambda life: -life.nbytes,
    lambda life: life.first - life.last,
    lambda life: life.first,
    lambda life: life.nbytes * (life.first - life.last - 1),
)
"""Which buffer chooses first: the largest, the longest alive, the first used, the most bytes times steps."""


def assign_offsets(lifetimes: list[Lifetime]) -> list[int]:
    """An offset for each buffer, such that all of them together need few bytes.

    In some order, each takes a place that is free during its whole life; the best of several orders counts.
    None needs less than the buffers of the busiest step, and few networks need more.
    """
    numbers = [index for index, life in enumerate(lifetimes) if life.nbytes]
    layout = _Layout(lifetimes, _meetings(lifetimes, numbers), busiest(lifetimes))
    best: list[int] = []
    for sides, key in itertools.product((False, True), ORDERS):
        order = sorted(numbers, key=[key(life) for life in lifetimes].__getitem__)
        offsets = layout.place(order, sides)
        if not best or _total(lifetimes, offsets) < _total(lifetimes, best):
            best = offsets
        if _total(lifetimes, best) == layout.busiest:
            break
    return best


def _meetings(lifetimes: list[Lifetime], numbers: list[int]) -> list[list[int]]:
    """For each buffer, the others that are alive in some step of its life."""
    meetings: list[list[int]] = [[] for _ in lifetimes]
    alive: list[int] = []
    for index in sorted(numbers, key=lambda index: lifetimes[index].first):
        alive = [other for other in alive if lifetimes[other].meets(lifetimes[index])]
        for other in alive:
            meetings[other].append(index)
            meetings[index].append(other)
        alive.append(index)
    return meetings


@dataclass(frozen=True)
class _Layout:
    """Buffers to be placed, which of them meet, and the bytes that the busiest step needs."""

    lifetimes: list[Lifetime]
    meetings: list[list[int]]
    busiest: int

    def place(self, order: list[int], sides: bool) -> list[int]:
        """Each buffer in this order at the lowest offset that is free during its whole life.

        With ``sides``, what does not fit at offset 0 goes as high as the busiest step reaches: in a chain of
        layers, results lie at either side in turn, and what is large leaves no hole below its successor.
        """
        offsets = [0] * len(self.lifetimes)
        ends: dict[int, int] = {}
        for index in order:
            nbytes = aligned(self.lifetimes[index].nbytes)
            busy = sorted((offsets[other], ends[other]) for other in self.meetings[index] if other in ends)
            start = _lowest(busy, nbytes)
            if sides and start:
                mirrored = sorted((self.busiest - end, self.busiest - offset) for offset, end in busy)
                highest = self.busiest - _lowest(mirrored, nbytes) - nbytes
                start = highest if highest >= 0 else start
            offsets[index], ends[index] = start, start + nbytes
        return offsets


def _lowest(busy: list[tuple[int, int]], nbytes: int) -> int:
    """The lowest offset with ``nbytes`` free before the next of the ``busy`` ranges."""
    start = 0
    for offset, end in busy:
        if offset - start >= nbytes:
            break
        start = max(start, end)
    return start


def _total(lifetimes: list[Lifetime], offsets: list[int]) -> int:
    """Bytes needed in all."""
    ends = (offset + life.nbytes for offset, life in zip(offsets, lifetimes, strict=True) if life.nbytes)
    return aligned(max(ends, default=0))


def busiest(lifetimes: list[Lifetime]) -> int:
    """The most bytes that are alive in one step."""
    changes: Counter[int] = Counter()
    for life in lifetimes:
        changes[life.first] += aligned(life.nbytes)
        changes[life.last + 1] -= aligned(life.nbytes)
    return max(itertools.accumulate(changes[step] for step in sorted(changes)), default=0)


def check_offsets(lifetimes: list[Lifetime], offsets: list[int]) -> int:
    """Prove alignment and that no two live buffers overlap; return the bytes needed in all.

    Raises:
        CompilerBug: naming the two buffers.
    """
    alive = [(offsets[i], life) for i, life in enumerate(lifetimes) if life.nbytes]
    for number, (offset, life) in enumerate(alive):
        if offset % ALIGNMENT or offset < 0:
            raise CompilerBug(f"arena buffer at {offset} is not aligned to {ALIGNMENT}")
        for other_offset, other in alive[:number]:
            apart = offset + life.nbytes <= other_offset or other_offset + other.nbytes <= offset
            if not apart and life.meets(other):
                raise CompilerBug(f"live arena buffers at {offset} and {other_offset} overlap")
    return _total(lifetimes, offsets)
