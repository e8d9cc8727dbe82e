"""Static memory: offsets for buffers with known lifetimes, and the proof that they do not overlap."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from qimport.errors import CompilerBug
from qimport.ir.types import ALIGNMENT


@dataclass(frozen=True)
class Piece:
    """Bytes ``begin`` to before ``end`` of a buffer, in use from step ``first`` to step ``last``."""

    begin: int
    end: int
    first: int
    last: int

    def meets(self, other: Piece) -> bool:
        """Whether both are alive in some step."""
        return self.first <= other.last and other.first <= self.last

    def moved(self, offset: int) -> Piece:
        """The same, counted from ``offset`` bytes before the buffer."""
        return replace(self, begin=offset + self.begin, end=offset + self.end)


@dataclass(frozen=True)
class Lifetime:
    """When which bytes of a buffer are in use; it is empty without ``pieces``."""

    pieces: tuple[Piece, ...]

    @classmethod
    def whole(cls, nbytes: int, first: int, last: int) -> Lifetime:
        """That of a buffer of ``nbytes`` in one piece."""
        return cls((Piece(0, nbytes, first, last),) if nbytes else ())

    @classmethod
    def touched(cls, ranges: Iterable[Piece]) -> Lifetime:
        """That of a buffer whose bytes are touched so; ``ranges`` may overlap.

        Every byte lives from its first to its last touch.
        """
        ranges = [piece for piece in ranges if piece.end > piece.begin]
        borders = sorted({border for piece in ranges for border in (piece.begin, piece.end)})
        pieces: list[Piece] = []
        for begin, end in itertools.pairwise(borders):
            here = [piece for piece in ranges if piece.begin <= begin and end <= piece.end]
            if not here:
                continue
            first, last = min(piece.first for piece in here), max(piece.last for piece in here)
            if pieces and pieces[-1] == Piece(pieces[-1].begin, begin, first, last):
                begin = pieces.pop().begin
            pieces.append(Piece(begin, end, first, last))
        return cls(tuple(pieces))

    @cached_property
    def nbytes(self) -> int:
        """Bytes up to the end of the last piece."""
        return max((piece.end for piece in self.pieces), default=0)

    @cached_property
    def first(self) -> int:
        """The step that first writes a byte."""
        return min((piece.first for piece in self.pieces), default=0)

    @cached_property
    def last(self) -> int:
        """The step that last reads one."""
        return max((piece.last for piece in self.pieces), default=0)

    def meets(self, other: Lifetime) -> bool:
        """Whether pieces of both are alive in some step."""
        if self.first > other.last or other.first > self.last:
            return False
        return any(mine.meets(theirs) for mine in self.pieces for theirs in other.pieces)


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


def assign_offsets(lifetimes: Sequence[Lifetime]) -> list[int]:
    """An offset for each buffer, such that all of them together need few bytes.

    In some order, each takes a place that is free during its whole life; the best of several orders counts.
    None needs less than the buffers of the busiest step, and few networks need more.
    """
    meetings, most = meetings_of(lifetimes), busiest(lifetimes)
    best: list[int] = [0] * len(lifetimes)
    needed = None
    for sides, key in itertools.product((False, True), ORDERS):
        layout = Layout(lifetimes, meetings)
        for index in sorted(layout.numbers, key=[key(life) for life in lifetimes].__getitem__):
            layout.put(index, _lowest_place(layout, index, most if sides else 0))
        total = aligned(_total(lifetimes, layout.offsets))
        if needed is None or total < needed:
            best, needed = layout.offsets, total
        if needed == most:
            break
    return best


def meetings_of(lifetimes: Sequence[Lifetime]) -> list[list[int]]:
    """For each buffer, the others that are alive in some step of its life."""
    meetings: list[list[int]] = [[] for _ in lifetimes]
    alive: list[int] = []
    numbers = [index for index, life in enumerate(lifetimes) if life.nbytes]
    for index in sorted(numbers, key=lambda index: lifetimes[index].first):
        alive = [other for other in alive if lifetimes[other].last >= lifetimes[index].first]
        for other in alive:
            if lifetimes[other].meets(lifetimes[index]):
                meetings[other].append(index)
                meetings[index].append(other)
        alive.append(index)
    return meetings


Taken = list[tuple[int, int]]
"""Between which offsets a buffer would overlap another one."""


class Layout:
    """Offsets that buffers get one after the other."""

    def __init__(self, lifetimes: Sequence[Lifetime], meetings: list[list[int]]) -> None:
        self.lifetimes, self.meetings = lifetimes, meetings
        self.numbers = [index for index, life in enumerate(lifetimes) if life.nbytes]
        self.offsets = [0] * len(lifetimes)
        self._placed: set[int] = set()

    def put(self, index: int, offset: int) -> None:
        """Place a buffer."""
        self.offsets[index] = offset
        self._placed.add(index)

    def taken(self, index: int) -> Taken:
        """Between which offsets a buffer would overlap one that is placed already."""
        return [
            (self.offsets[other] + theirs.begin - mine.end, self.offsets[other] + theirs.end - mine.begin)
            for other in self.meetings[index]
            if other in self._placed
            for theirs in self.lifetimes[other].pieces
            for mine in self.lifetimes[index].pieces
            if mine.meets(theirs)
        ]


def _lowest_place(layout: Layout, index: int, reach: int) -> int:
    """The lowest offset that is free during the whole life of a buffer.

    With ``reach``, what does not fit at offset 0 goes as high as that: in a chain of layers, results lie at
    either side in turn, and what is large leaves no hole below its successor.
    """
    taken = layout.taken(index)
    start = _lowest(taken)
    if reach and start:
        top = reach - aligned(layout.lifetimes[index].nbytes)
        highest = top - _lowest([(top - end, top - begin) for begin, end in taken])
        return highest if highest >= 0 else start
    return start


def _lowest(taken: Taken) -> int:
    """The lowest aligned offset that is not inside any of these ranges."""
    start = 0
    for before, after in sorted(taken):
        if start <= before:
            break
        start = max(start, aligned(after))
    return start


def _total(lifetimes: Sequence[Lifetime], offsets: list[int]) -> int:
    """Bytes needed in all."""
    return max((offset + life.nbytes for offset, life in zip(offsets, lifetimes, strict=True)), default=0)


def in_use(lifetimes: Sequence[Lifetime]) -> list[int]:
    """How many bytes are alive in each step."""
    changes: Counter[int] = Counter()
    for life in lifetimes:
        for piece in life.pieces:
            nbytes = aligned(piece.end) - aligned(piece.begin)
            changes[piece.first] += nbytes
            changes[piece.last + 1] -= nbytes
    return list(itertools.accumulate(changes[step] for step in range(max(changes, default=0))))


def busiest(lifetimes: Sequence[Lifetime]) -> int:
    """The most bytes that are alive in one step."""
    return max(in_use(lifetimes), default=0)


def check_offsets(lifetimes: Sequence[Lifetime], offsets: list[int]) -> int:
    """Prove alignment and that no two live buffers overlap; return the bytes needed in all.

    Raises:
        CompilerBug: naming the two buffers.
    """
    alive = [(offset, life) for offset, life in zip(offsets, lifetimes, strict=True) if life.nbytes]
    for number, (offset, life) in enumerate(alive):
        if offset % ALIGNMENT or offset < 0:
            raise CompilerBug(f"arena buffer at {offset} is not aligned to {ALIGNMENT}")
        for other_offset, other in alive[:number]:
            if life.meets(other) and _overlap(offset, life, other_offset, other):
                raise CompilerBug(f"live arena buffers at {offset} and {other_offset} overlap")
    return _total(lifetimes, offsets)


def _overlap(offset: int, life: Lifetime, other_offset: int, other: Lifetime) -> bool:
    """Whether some byte belongs to pieces of both that are alive in the same step."""
    return any(
        mine.meets(theirs)
        and offset + mine.begin < other_offset + theirs.end
        and other_offset + theirs.begin < offset + mine.end
        for mine in life.pieces
        for theirs in other.pieces
    )
