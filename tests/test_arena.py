"""Static memory: buffers that are alive at the same time do not overlap."""

from __future__ import annotations

import numpy as np
import pytest

from qimport.errors import CompilerBug
from qimport.ir.types import ALIGNMENT
from qimport.lower.arena import Lifetime, assign_offsets, busiest, check_offsets


def random_lifetimes(seed: int) -> list[Lifetime]:
    rng = np.random.default_rng(seed)
    first, length = rng.integers(0, 20, 30), rng.integers(0, 8, 30)
    sizes = rng.choice([0, 1, 63, 64, 65, 200, 1000], 30)
    return [Lifetime(int(n), int(a), int(a + b)) for n, a, b in zip(sizes, first, length, strict=True)]


@pytest.mark.parametrize("seed", range(20))
def test_live_buffers_lie_apart(seed: int) -> None:
    """Every byte of every step has one owner, and the arena is no larger than all buffers together."""
    lifetimes = random_lifetimes(seed)
    offsets = assign_offsets(lifetimes)
    total = check_offsets(lifetimes, offsets)
    owned = np.zeros((30, total), int)
    for life, offset in zip(lifetimes, offsets, strict=True):
        assert offset % ALIGNMENT == 0
        owned[life.first : life.last + 1, offset : offset + life.nbytes] += 1
    assert owned.max() == 1
    padded = [-(-life.nbytes // ALIGNMENT) * ALIGNMENT for life in lifetimes]
    alive = [
        sum(n for n, life in zip(padded, lifetimes, strict=True) if life.first <= t <= life.last)
        for t in range(30)
    ]
    assert max(alive) <= total <= sum(padded)


@pytest.mark.parametrize(
    ("offsets", "message"),
    [([0, 32], "not aligned"), ([0, -64], "not aligned"), ([0, 0], "overlap"), ([64, 0], "overlap")],
)
def test_bad_offsets_are_our_bug(offsets: list[int], message: str) -> None:
    with pytest.raises(CompilerBug, match=message):
        check_offsets([Lifetime(64, 0, 2), Lifetime(100, 2, 3)], offsets)


@pytest.mark.parametrize("seed", range(5))
def test_a_chain_needs_what_its_busiest_step_needs(seed: int) -> None:
    """Each buffer meets its two neighbours."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 200, 40) * ALIGNMENT
    lives = [Lifetime(int(size), step, step + 1) for step, size in enumerate(sizes)]
    assert check_offsets(lives, assign_offsets(lives)) == busiest(lives)


def test_buffers_that_never_meet_share_memory() -> None:
    lifetimes = [Lifetime(100, 0, 1), Lifetime(100, 2, 3), Lifetime(0, 0, 9)]
    assert assign_offsets(lifetimes) == [0, 0, 0]
    assert check_offsets(lifetimes, [0, 0, 0]) == 128
