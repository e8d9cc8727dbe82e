"""The int16 tables of the interpreter: 513 knots, straight lines between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from qimport import fixedpoint as fp
from qimport.fixedpoint import Int
from qimport.ir.types import TensorType
from qimport.summation import fused_multiply_add

Real = npt.NDArray[np.floating]
Element = type[np.float32] | type[np.float64]

INTERVALS = 512
LOWEST, HIGHEST = -(2**15), 2**15 - 1


def knots(
    function: Callable[[Real], Real], source: TensorType, target: TensorType, fused: bool = False
) -> Int:
    """The knots of ``function`` between two int16 types, by steps of float32 (``LUTPopulateInt16``).

    ``fused`` steps multiply and add with one rounding, as the ARM build does.
    """
    before, after = source.quant, target.quant
    first, last = (np.float32(before.scale) * np.float32(c - before.zero_point) for c in (LOWEST, HIGHEST))
    bottom, top = (np.float32(after.scale) * np.float32(c - after.zero_point) for c in (LOWEST, HIGHEST))
    return knots_between(function, first, last, bottom, top, fused)


def knots_between(
    function: Callable[[Real], Real], first: Any, last: Any, bottom: Any, top: Any, fused: bool = False
) -> Int:
    """Knots over [first, last] for results in [bottom, top]; the type of the bounds is that of every step.

    A knot is the rounded value less half of how far the middle of the line to the next one lies above the
    function.
    """
    one = first.dtype.type

    def multiply_add(a: Any, b: Any, c: Any) -> Real:
        return np.asarray(fused_multiply_add(a, b, c) if fused else a * b + c)

    step = (last - first) / one(INTERVALS)
    factor = one(2**16) / (top - bottom)
    places = multiply_add(np.arange(INTERVALS).astype(first.dtype), step, first)
    following = multiply_add((np.arange(INTERVALS) + 1).astype(first.dtype), step, first)
    here = fp.round_away(function(places) * factor)
    line = fp.round_away(multiply_add(function(following), factor, here) / one(2))
    middle = fp.round_away(function(places + step / one(2)) * factor)
    inner = here - fp.round_away((line - middle) / one(2))
    final = fp.round_away(function(np.asarray([last])) * factor)
    table = np.clip(np.concatenate([inner, final]), LOWEST, HIGHEST)
    return np.where(np.isnan(table), 0, table).astype(np.int64) if fused else table.astype(np.int64)


def interpolated(x: Int, table: Int) -> Int:
    """i = 256 + (x >> 7), o = x & 127: wrap16(T[i] + ((wrap16(T[i + 1] - T[i]) * o + 64) >> 7))."""
    i, offset = 256 + (x >> 7), x & 127
    slope = fp.wrap16(table[i + 1] - table[i])
    return fp.wrap16(table[i] + ((slope * offset + 64) >> 7))
