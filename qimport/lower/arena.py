"""Static memory: offsets for buffers with known lifetimes, and the proof that they do not overlap."""

from __future__ import annotations

from dataclasses import dataclass

from qimport.errors import CompilerBug

ALIGNMENT = 64
"""Bytes; every arena buffer starts at a multiple, and so must the arena itself."""


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


def assign_offsets(lifetimes: list[Lifetime]) -> list[int]:
    """An offset for each buffer: largest first, each at the lowest offset free during its whole life."""
    offsets = [0] * len(lifetimes)
    placed: list[int] = []
    for index in sorted(range(len(lifetimes)), key=lambda i: -lifetimes[i].nbytes):
        mine = lifetimes[index]
        if mine.nbytes == 0:
            continue
        busy = sorted((offsets[i], lifetimes[i].nbytes) for i in placed if lifetimes[i].meets(mine))
        start = 0
        for offset, nbytes in busy:
            if offset - start >= mine.nbytes:
                break
            start = max(start, aligned(offset + nbytes))
        offsets[index] = start
        placed.append(index)
    return offsets


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
    return aligned(max((offset + life.nbytes for offset, life in alive), default=0))
