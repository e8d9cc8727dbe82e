"""Where buffers lie for several threads: each thread writes where it has worked before.

A line of the cache that another core holds must be fetched from there or given up there. And where a thread
would write over what another one has just read, both have to meet before it. So a buffer takes the place at
which most lines were last touched by the threads that will write them; some more bytes are worth that.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from qimport.ir.types import ALIGNMENT
from qimport.lower.arena import Layout, Lifetime, Taken, aligned, assign_offsets, check_offsets, meetings_of
from qimport.lower.kernel import dense_strides
from qimport.lower.plan import ControlCall, KernelCall, Operand, ParallelCall, PlanCall

LINE = ALIGNMENT
"""Bytes of a line of the cache; buffers begin with one."""

GROWTH = 1.25
"""How much larger than for one thread the arena may become while there is another place."""

TRIALS, FEWEST = 50_000, 8
"""Places that are looked at for all buffers together, and for one: it bounds the time for large graphs."""

MOST_SHARES = 16
"""Borders between threads in a buffer that are matched with those of others; with channels there are many."""

NOBODY, SEVERAL = -2, -1
"""In place of the number of a thread."""

Threads = npt.NDArray[np.int16]
"""The number of a thread for each line of a buffer or of the arena."""


@dataclass(frozen=True)
class _Touches:
    """By which thread each line of a buffer is written first, and by which it is touched at all."""

    writers: Threads
    owners: Threads

    @classmethod
    def none(cls, nbytes: int) -> _Touches:
        """Those of a buffer before any call."""
        lines = aligned(nbytes) // LINE
        return cls(np.full(lines, NOBODY, np.int16), np.full(lines, NOBODY, np.int16))

    def add(self, operand: Operand, thread: int, writes: bool) -> None:
        """Enter that ``thread`` touches ``operand``, which lies in the buffer."""
        lines = _lines(operand, len(self.owners))
        owners, writers = self.owners[lines], self.writers[lines]
        self.owners[lines] = np.where((owners == NOBODY) | (owners == thread), thread, SEVERAL)
        if writes:
            self.writers[lines] = np.where(writers == NOBODY, thread, writers)


def offsets_by_thread(lifetimes: Sequence[Lifetime], calls: Sequence[PlanCall]) -> list[int]:
    """An offset for each buffer; ``calls`` name buffers by number and are split for threads.

    Buffers choose in the order in which they are first written.
    """
    limit = int(GROWTH * check_offsets(lifetimes, assign_offsets(lifetimes)))
    buffers = _touches(lifetimes, calls)
    arena = np.full(sum(len(buffer.owners) for buffer in buffers), NOBODY, np.int16)
    layout = Layout(lifetimes, meetings_of(lifetimes))
    order = sorted(layout.numbers, key=lambda index: (lifetimes[index].first, -lifetimes[index].nbytes))
    for index in order:
        places = _places(buffers[index].writers, arena, layout.taken(index))
        tried = itertools.islice(places, max(FEWEST, TRIALS // len(order)))
        place = min(tried, key=lambda place: _cost(buffers[index].writers, arena, place, limit))
        layout.put(index, place)
        owners = buffers[index].owners
        here = arena[place // LINE :][: len(owners)]
        here[:] = np.where(owners == NOBODY, here, owners)
    return layout.offsets


def _cost(writers: Threads, arena: Threads, place: int, limit: int) -> tuple[int, int, int]:
    """Bytes beyond the limit; lines that another thread than their writer has touched last; the offset."""
    here = arena[place // LINE :][: len(writers)]
    foreign = np.count_nonzero((here != writers) & (here != NOBODY))
    return max(place + LINE * len(writers) - limit, 0), int(foreign), place


def _places(writers: Threads, arena: Threads, taken: Taken) -> Iterator[int]:
    """Free offsets: where a buffer meets another one, the lowest first; then where shares match."""
    shares = [*_borders(writers)[:MOST_SHARES], len(writers)]
    beside = sorted({0, *(-(-after // LINE) for _, after in taken), *(before // LINE for before, _ in taken)})
    matched = (border - share for border in _borders(arena) for share in shares)
    for line in dict.fromkeys(itertools.chain(beside, matched)):
        if line >= 0 and not any(before < LINE * line < after for before, after in taken):
            yield LINE * line


def _borders(threads: Threads) -> list[int]:
    """The lines with which the shares of threads begin."""
    return [0, *(np.flatnonzero(threads[1:] != threads[:-1]) + 1).tolist()]


def _touches(lifetimes: Sequence[Lifetime], calls: Sequence[PlanCall]) -> list[_Touches]:
    """Which threads work on which lines of each buffer; calls that are not split are the first one's."""
    buffers = [_Touches.none(life.nbytes) for life in lifetimes]
    for call in calls:
        parts = call.parts if isinstance(call, ParallelCall) else ((call,),)
        for thread, part in enumerate(parts):
            for operand, writes in itertools.chain.from_iterable(map(_operands, part)):
                if operand.space == "arena" and operand.extent:
                    buffers[operand.index].add(operand, thread, writes)
    return buffers


def _operands(call: KernelCall | ControlCall) -> Iterator[tuple[Operand, bool]]:
    """What a call reads, and what it writes."""
    if isinstance(call, ControlCall):
        yield from ((operand, False) for operand in call.operands)
        yield from ((operand, True) for operand in call.results)
    else:
        yield from ((operand, False) for operand in call.operands if not call.pads_in_place)
        yield from ((operand, True) for operand in call.written())


def _lines(operand: Operand, count: int) -> npt.NDArray[np.bool_]:
    """Which of the ``count`` lines of its buffer an operand touches."""
    itemsize, run = operand.type.itemsize, 1
    strides = operand.strides or dense_strides(operand.type.shape)
    axes = [(size, step) for size, step in zip(operand.type.shape, strides, strict=True) if size > 1]
    while axes and axes[-1][1] == run:
        run *= axes.pop()[0]
    begins = np.array([operand.offset])
    for size, step in axes:
        begins = (begins[:, None] + np.arange(size) * (step * itemsize)).ravel()
    changes = np.zeros(count + 1, np.int32)
    np.add.at(changes, begins // LINE, 1)
    np.add.at(changes, (begins + run * itemsize - 1) // LINE + 1, -1)
    return np.cumsum(changes[:-1]) > 0
