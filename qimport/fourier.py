"""Stockham's Fourier transform of rows, step by step. Normative."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

Float64 = npt.NDArray[Any]
"""An array of float64 elements."""

LONGEST = 2**15
"""Numbers in a row."""


CONJUGATE = np.array([1.0, -1.0])
"""What a pair is multiplied by to change the sign of its imaginary part."""


def is_length(count: int) -> bool:
    """Whether rows of this many numbers have a transform: a power of two from 2 to ``LONGEST``."""
    return count & (count - 1) == 0 and 2 <= count <= LONGEST


def roots(count: int) -> Float64:
    """exp(2 pi i p / count) for p below count / 2, float64 [count / 2, 2]; quarters of a turn are exact."""
    turns = [2 * math.pi * (p % (count // 4 or 1)) / count for p in range(count // 2)]
    pairs = [
        (math.cos(angle), math.sin(angle)) if angle <= math.pi / 4 else _mirrored(angle) for angle in turns
    ]
    return np.array(
        [(-s, c) if 4 * p >= count else (c, s) for p, (c, s) in enumerate(pairs)], np.float64
    ).reshape(-1, 2)


def _mirrored(angle: float) -> tuple[float, float]:
    """Cosine and sine above an eighth of a turn, through the smaller angle."""
    rest = math.pi / 2 - angle
    return math.sin(rest), math.cos(rest)


def spans(count: int) -> list[int]:
    """The span of every pass over rows of ``count`` numbers: 1, 2, 4 and so on."""
    return [1 << number for number in range(count.bit_length() - 1)]


def transform(x: Float64, w: Float64) -> Float64:
    """Transforms of rows of complex numbers, x float64 [R, N, 2], with the powers w [N / 2, 2] of a root."""
    for span in spans(x.shape[1]):
        x = run_pass(x, w, span)
    return x


def run_pass(x: Float64, w: Float64, span: int) -> Float64:
    """The pass of :func:`transform` with this span.

    With S = span and M = N / (2 S) it takes a row as a[2, M, S] and makes b[M, 2, S] of it: b[p, 0] =
    a[0, p] + a[1, p], b[p, 1] = (a[0, p] - a[1, p]) * w[p * S], the product being (d0 w0 - d1 w1,
    d0 w1 + d1 w0), every step rounded.
    """
    rows, count, _ = x.shape
    a, b = (x[..., i].reshape(rows, 2, count // (2 * span), span) for i in (0, 1))
    c, s = (w[::span, i, None] for i in (0, 1))
    with np.errstate(all="ignore"):
        d, e = a[:, 0] - a[:, 1], b[:, 0] - b[:, 1]
        real = np.stack([a[:, 0] + a[:, 1], d * c - e * s], 2)
        imaginary = np.stack([b[:, 0] + b[:, 1], d * s + e * c], 2)
    return np.stack([real.reshape(rows, count), imaginary.reshape(rows, count)], -1)
