"""What processors do with single elements, in NumPy: divisions that never trap, relations, conversions.

Both dialects take their arithmetic of plain integers and floats from here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Elements = npt.NDArray[Any]

Relation = Literal["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"]

RELATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
}
"""Every relation; nothing but ``not_equal`` holds of a NaN."""


def broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...] | None:
    """The common shape, or None where there is none."""
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        return None


def quotient(a: Elements, b: Elements) -> Elements:
    """Integers of one type divided toward zero; 0 for a division by zero; the smallest by -1 is itself."""
    lowest = np.iinfo(a.dtype).min
    overflows = (a == lowest) & (b == -1) if lowest < 0 else np.False_
    safe = np.where((b == 0) | overflows, 1, b).astype(a.dtype)
    floor = a // safe
    exact = floor + ((a % safe != 0) & ((a < 0) != (safe < 0)))
    return np.asarray(np.where(b == 0, 0, exact), a.dtype)


def remainder(a: Elements, b: Elements) -> Elements:
    """What :func:`quotient` leaves, 0 for a division by zero; of floats C's ``fmod``."""
    if np.issubdtype(a.dtype, np.floating):
        return np.asarray(np.fmod(a, b))
    return np.asarray(np.where(b == 0, 0, a - quotient(a, b) * b), a.dtype)


def convert(x: Elements, dtype: str) -> Elements:
    """Another NumPy type for every element.

    integer -> integer: the low bits, extended by the operand's sign. integer -> float, float64 -> float32,
    float32 -> float16: to the nearest, ties to even. float -> integer: toward zero, saturating, NaN to the
    high end. bool -> x: 0 or 1. x -> bool: whether it is not 0.
    """
    if dtype == "bool":
        return np.asarray(x != 0)
    with np.errstate(all="ignore"):
        if np.issubdtype(x.dtype, np.floating) and np.issubdtype(np.dtype(dtype), np.integer):
            x = _saturated(x, np.iinfo(dtype).min, np.iinfo(dtype).max)
        return x.astype(dtype)


def _saturated(x: Elements, lowest: int, highest: int) -> npt.NDArray[np.int64]:
    """Toward zero, into the range; NaN to its high end."""
    over, under = ~(x < float(highest + 1)), x < float(lowest)
    whole = np.where(over | under, 0, x).astype(np.int64)
    return np.where(over, highest, np.where(under, lowest, whole))
