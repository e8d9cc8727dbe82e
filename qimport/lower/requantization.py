"""Emitting what :class:`qimport.qnn.requantization.Requantization` describes."""

from __future__ import annotations

import numpy as np

from qimport import prim
from qimport.ir.graph import Array, Value
from qimport.ir.types import TensorType
from qimport.lower.rule import Emitter
from qimport.qnn.requantization import Requantization

BEYOND_BYTES, MOST_LATE_SHIFT = 2**10, 20
"""A number that no zero point brings back to a code of 8 bits, and the largest shift that it survives."""


def emit_requantization(emit: Emitter, acc: Value, form: Requantization, dtype: str) -> Value:
    """Rescale ``acc`` and clamp it into ``dtype``."""
    op = prim.Rescale(form.rounding, form.leftover, form.leftover_from)
    scaled = emit.emit(op, (acc, *map(emit.constant, form.factors)), TensorType("int32", acc.type.shape))
    if form.late_shifts is not None:
        scaled = _shifted_late(emit, scaled, form.late_shifts)
    if not form.wraps:
        return emit.clamp(scaled, form.zero_point, form.low, form.high, dtype)
    return emit.clamp(emit.binary("add", scaled, form.zero_point), 0, form.low, form.high, dtype)


def _shifted_late(emit: Emitter, x: Value, shifts: Array) -> Value:
    """x << shifts, saturating at numbers that are beyond every code of 8 bits whatever the zero point is."""
    bounded = emit.binary("min", emit.binary("max", x, -BEYOND_BYTES), BEYOND_BYTES)
    powers = 1 << np.minimum(shifts, MOST_LATE_SHIFT)
    return emit.binary("mul", bounded, emit.constant(powers.astype(np.int32)))
