"""Static memory: buffers that are alive at the same time do not overlap."""

from __future__ import annotations

import numpy as np
import pytest

from qimport.errors import CompilerBug
from qimport.ir.types import ALIGNMENT
from qimport.lower.arena import Lifetime, Piece, aligned, assign_offsets, busiest, check_offsets


def random_lifetimes(seed: int) -> list[Lifetime]:
    """Half of them in two pieces."""
    rng = np.random.default_rng(seed)
    first, length = rng.integers(0, 20, 30), rng.integers(0, 8, 30)
    sizes = rng.choice([0, 1, 63, 64, 65, 200, 1000], 30)
    whole = [Lifetime.whole(int(n), int(a), int(a + b)) for n, a, b in zip(sizes, first, length, strict=True)]
    later = [Piece(life.nbytes, life.nbytes + 96, life.last, life.last + 2) for life in whole]
    both = [Lifetime((*life.pieces, piece)) for life, piece in zip(whole, later, strict=True)]
    return [*whole[:15], *both[15:]]


@pytest.mark.parametrize("seed", range(20))
def test_live_buffers_lie_apart(seed: int) -> None:
    """Every byte of every step has one owner, and the arena is no larger than all buffers together."""
    lifetimes = random_lifetimes(seed)
    offsets = assign_offsets(lifetimes)
    total = check_offsets(lifetimes, offsets)
    owned = np.zeros((32, total), int)
    for life, offset in zip(lifetimes, offsets, strict=True):
        assert offset % ALIGNMENT == 0
        for piece in life.pieces:
            owned[piece.first : piece.last + 1, offset + piece.begin : offset + piece.end] += 1
    assert owned.max() == 1
    assert busiest(lifetimes) <= aligned(total) <= sum(aligned(life.nbytes) for life in lifetimes)


def test_a_byte_lives_from_its_first_to_its_last_touch() -> None:
    """Pieces are as few as they can be, and what nobody touches is no piece."""
    early = [Piece(0, 8, 0, 0), Piece(8, 12, 0, 0), Piece(8, 8, 9, 9)]
    life = Lifetime.touched([*early, Piece(4, 8, 3, 3), Piece(8, 12, 3, 3), Piece(16, 20, 1, 1)])
    assert life.pieces == (Piece(0, 4, 0, 0), Piece(4, 12, 0, 3), Piece(16, 20, 1, 1))
    assert (life.nbytes, life.first, life.last) == (20, 0, 3)


def test_a_buffer_takes_the_place_of_pieces_that_are_dead() -> None:
    """What dies row by row and what is born row by row share all rows but one."""
    dying = Lifetime(tuple(Piece(row * 64, (row + 1) * 64, 0, row) for row in range(8)))
    born = Lifetime(tuple(Piece(row * 64, (row + 1) * 64, row, 8) for row in range(8)))
    lives = [dying, born]
    assert check_offsets(lives, assign_offsets(lives)) == busiest(lives) == 9 * 64


@pytest.mark.parametrize(
    ("offsets", "message"),
    [([0, 32], "not aligned"), ([0, -64], "not aligned"), ([0, 0], "overlap"), ([64, 0], "overlap")],
)
def test_bad_offsets_are_our_bug(offsets: list[int], message: str) -> None:
    with pytest.raises(CompilerBug, match=message):
        check_offsets([Lifetime.whole(64, 0, 2), Lifetime.whole(100, 2, 3)], offsets)


@pytest.mark.parametrize("seed", range(5))
def test_a_chain_needs_what_its_busiest_step_needs(seed: int) -> None:
    """Each buffer meets its two neighbours."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 200, 40) * ALIGNMENT
    lives = [Lifetime.whole(int(size), step, step + 1) for step, size in enumerate(sizes)]
    assert check_offsets(lives, assign_offsets(lives)) == busiest(lives)


def test_buffers_that_never_meet_share_memory() -> None:
    lifetimes = [Lifetime.whole(*life) for life in ((100, 0, 1), (100, 2, 3), (0, 0, 9))]
    assert assign_offsets(lifetimes) == [0, 0, 0]
    assert check_offsets(lifetimes, [0, 0, 0]) == 100
