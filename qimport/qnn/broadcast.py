"""How the optimized kernels of the interpreter walk over two operands that broadcast."""

from __future__ import annotations

import math
from itertools import takewhile

Pair = tuple[int, int]
"""One dimension of both operands."""


def inner_run(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, bool]:
    """Elements of the result per call of the inner loop, and whether one operand is a single element there.

    The kernels walk over five groups of dimensions; from the back: equal in both operands, stretched in one,
    equal, stretched in the other, equal (``ProcessBroadcastShapes``). The inner loop covers the first group,
    or the second where the first is a single element. (0, False) where the dimensions fall into more groups:
    then the reference kernel runs.
    """
    rank = max(len(left), len(right))
    pairs = list(zip(_extended(left, rank), _extended(right, rank), strict=True))[::-1]
    stretched = next((pair for pair in pairs if pair[0] != pair[1]), None)
    if stretched is None:
        return math.prod(left), False
    if stretched[0] != 1:
        pairs = [(b, a) for a, b in pairs]
    sizes = []
    for belongs in (_equal, _first_stretched, _equal, _second_stretched, _equal):
        group = list(takewhile(belongs, pairs))
        pairs = pairs[len(group) :]
        sizes.append(math.prod(map(max, group)))
    if pairs:
        return 0, False
    return (sizes[0], False) if sizes[0] > 1 else (sizes[1], True)


def _extended(shape: tuple[int, ...], rank: int) -> tuple[int, ...]:
    return (1,) * (rank - len(shape)) + shape


def _equal(pair: Pair) -> bool:
    return pair[0] == pair[1]


def _first_stretched(pair: Pair) -> bool:
    return pair[0] == 1


def _second_stretched(pair: Pair) -> bool:
    return pair[1] == 1
