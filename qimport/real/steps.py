"""Steps of which functions of real numbers are made: the same bits on every target.

A function is written once, over lanes that know + - * / and comparisons on floats, and + - & | ^ << >>
(logical) on the unsigned integers that hold their bits; :class:`Steps` has the rest. :class:`NumPySteps` runs
it, code generation emits it. Nothing in it may be reassociated or fused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from qimport.summation import fused_multiply_add

Lanes = Any
"""Floats, integers or truth values; a NumPy array or lanes of generated code."""


Function = Callable[["Steps", Lanes], Lanes]
"""A function of one float."""


class Steps(Protocol):
    """What lanes cannot do with operators alone."""

    mantissa: int
    """Bits of the significand that are stored: 52 in float64, 23 in float32."""

    def bits(self, value: Lanes) -> Lanes:
        """The bits of floats as unsigned integers."""

    def floats(self, bits: Lanes) -> Lanes:
        """The floats with these bits."""

    def choose(self, condition: Lanes, yes: Lanes | float, no: Lanes | float) -> Lanes:
        """``yes`` where ``condition`` holds, else ``no``."""

    def pick(self, index: Lanes, table: Sequence[float]) -> Lanes:
        """``table`` at the low bits of integers; it has a power of two entries."""

    def sqrt(self, value: Lanes) -> Lanes:
        """The correctly rounded square root."""

    def fma(self, a: Lanes, b: Lanes | float, c: Lanes | float) -> Lanes:
        """a * b + c of float32 lanes, rounded once."""

    def rounded(self, function: Function, value: Lanes) -> Lanes:
        """``function`` of float32 lanes, computed in float64 and rounded to float32 once."""


def sign_bit(at: Steps) -> int:
    """The highest bit."""
    return 1 << (63 if at.mantissa == 52 else 31)


def not_a_number(at: Steps, x: Lanes) -> Lanes:
    """The NaN that x86 makes of an invalid operation: its sign is set."""
    quiet = 0xFFF8 << 48 if at.mantissa == 52 else 0xFFC0 << 16
    return at.floats((at.bits(x) & 0) | quiet)


def absolute(at: Steps, x: Lanes) -> Lanes:
    """|x|."""
    return at.floats(at.bits(x) & (sign_bit(at) - 1))


def negative(at: Steps, x: Lanes) -> Lanes:
    """-x; also of zeros and NaNs."""
    return at.floats(at.bits(x) ^ sign_bit(at))


def settled(at: Steps, x: Lanes, result: Lanes) -> Lanes:
    """``result``, where a NaN of an invalid step is x86's, and a NaN that was there before is itself."""
    return at.choose(result == result, result, at.choose(x == x, not_a_number(at, x), x))


def flushed(at: Steps, x: Lanes) -> Lanes:
    """Zero of the same sign for float32 numbers below 2^-126."""
    return at.choose(absolute(at, x) < 2.0**-126, at.floats(at.bits(x) & sign_bit(at)), x)


def difference_from_zero(at: Steps, x: Lanes) -> Lanes:
    """0 - x: -x but for zeros, which give +0."""
    return 0.0 - x


def with_sign(at: Steps, x: Lanes, sign: Lanes) -> Lanes:
    """|x| with the sign of another number."""
    return at.floats((at.bits(x) & (sign_bit(at) - 1)) | (at.bits(sign) & sign_bit(at)))


def polynomial(x: Lanes, coefficients: Sequence[float]) -> Lanes:
    """Horner's rule, lowest power first."""
    result = x * coefficients[-1] + coefficients[-2]
    for coefficient in reversed(coefficients[:-2]):
        result = result * x + coefficient
    return result


class NumPySteps:
    """:class:`Steps` on NumPy arrays of one element type."""

    def __init__(self, element: type[np.floating[Any]]) -> None:
        self.element = element
        self.mantissa = int(np.finfo(element).nmant)
        self.integer = np.uint64 if self.mantissa == 52 else np.uint32

    def bits(self, value: Lanes) -> Lanes:
        """A view."""
        return np.asarray(value, self.element).view(self.integer)

    def floats(self, bits: Lanes) -> Lanes:
        """A view."""
        return np.asarray(bits, self.integer).view(self.element)

    def choose(self, condition: Lanes, yes: Lanes | float, no: Lanes | float) -> Lanes:
        """``numpy.where`` in the element type."""
        return np.asarray(np.where(condition, yes, no), self.element)

    def pick(self, index: Lanes, table: Sequence[float]) -> Lanes:
        """``numpy.take``."""
        return np.asarray(table, self.element)[np.asarray(index & (len(table) - 1), np.int64)]

    def fma(self, a: Lanes, b: Lanes | float, c: Lanes | float) -> Lanes:
        """:func:`qimport.summation.fused_multiply_add`."""
        return fused_multiply_add(a, b, c)

    def sqrt(self, value: Lanes) -> Lanes:
        """``numpy.sqrt``, which is IEEE's."""
        return np.asarray(np.sqrt(value), self.element)

    def rounded(self, function: Function, value: Lanes) -> Lanes:
        """In float64, then ``astype``."""
        return np.asarray(function(NumPySteps(np.float64), np.asarray(value, np.float64)), np.float32)


def run(function: Function, x: npt.ArrayLike) -> npt.NDArray[np.float32]:
    """A function of float32 on an array."""
    with np.errstate(all="ignore"):
        return np.asarray(function(NumPySteps(np.float32), np.asarray(x, np.float32)), np.float32)
