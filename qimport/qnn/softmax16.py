"""SOFTMAX of int16 as the interpreter computes it in all modes (``reference_ops::SoftmaxInt16``).

Two tables of 513 knots with results of 2 / 65535: EXPONENTIAL over [-10, 0], RECIPROCAL of 1 / (1 + v) over
[0, 1]. Both are made in float64. With (m, e) = quantize_multiplier(f32(s_in * beta) / (10 / 65535)):
d = MBQM(x - max(row)) + 32767, saturated; e = EXPONENTIAL(d); S the sum of e, h its leading zeros;
r = RECIPROCAL(sat16((((S << (h - 1)) + 2^13) >> 14) - 98304)); clamp((e * r + 2^(30 - h)) >> (31 - h), 0,
32767).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from qimport import fixedpoint as fp
from qimport.fixedpoint import Int
from qimport.qnn.interpolation import HIGHEST, LOWEST, Real, interpolated, knots_between

RANGE = 10.0
"""Differences beyond this count as this."""


def _table(function: Callable[[Real], Real], first: float, last: float) -> Int:
    step = 2.0 / 65535.0
    bounds = (np.float64(value) for value in (first, last, step * LOWEST, step * HIGHEST))
    return knots_between(function, *bounds)


EXPONENTIAL = _table(np.exp, RANGE / 65535.0 * -65535, 0.0)
RECIPROCAL = _table(lambda v: 1.0 / (1.0 + v), 0.0, 1.0 / 65535.0 * 65535)


def factor(scale: float, beta: float) -> float:
    """What differences of codes are multiplied by to be codes of the first table."""
    return fp.f32(scale * fp.f32(beta)) / (RANGE / 65535.0)


def softmax(x: Int, scale: float, beta: float) -> Int:
    """Over the last axis, codes of ``scale`` to codes of 1 / 32768."""
    d = fp.multiply_by_quantized_multiplier(
        x - x.max(-1, keepdims=True), *fp.quantize_multiplier(factor(scale, beta))
    )
    e = interpolated(np.clip(d + HIGHEST, LOWEST, HIGHEST), EXPONENTIAL)
    total = e.sum(-1, keepdims=True)
    headroom = fp.count_leading_zeros32(total)
    shifted = ((total << (headroom - 1)) + (1 << 13)) >> 14
    r = interpolated(np.clip(shifted - 3 * 2**15, LOWEST, HIGHEST), RECIPROCAL)
    codes = (e * r + (np.int64(1) << (30 - headroom))) >> (31 - headroom)
    return np.asarray(np.clip(codes, 0, HIGHEST), np.int64)
