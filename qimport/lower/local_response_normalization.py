"""LOCAL_RESPONSE_NORMALIZATION: shifted sums of squares, and a power in float64."""

from __future__ import annotations

import numpy as np

from qimport.ir.graph import Value
from qimport.lower.rule import Emitter, Use, rule
from qimport.qnn.local_response_normalization import LocalResponseNormalization


@rule(LocalResponseNormalization)
def lower_local_response_normalization(emit: Emitter, op: LocalResponseNormalization, use: Use) -> Value:
    """Squares with zeros around their channels, added in order."""
    x, shape = use.operand(0), use.output.shape
    before, after = op.reach(use.call)
    square = emit.binary("mul", x, x)
    widths = (0, 0, 0, before), (0, 0, 0, max(after, 0))
    padded = emit.pad(square, *widths, 0.0) if before or after > 0 else square
    total: Value | None = None
    for start in range(before + after + 1):
        part = emit.slice(padded, (0, 0, 0, start), shape, (1, 1, 1, 1))
        total = part if total is None else emit.binary("add", total, part)
    if total is None:
        total = emit.binary("mul", x, 0.0)
    base = emit.binary("add", emit.binary("mul", total, _f32(op.alpha)), _f32(op.bias))
    logarithm = emit.math("log", emit.cast(base, "float64"))
    power = emit.math("exp", emit.binary("mul", logarithm, -_f32(op.beta)))
    return emit.binary("mul", x, emit.cast(power, "float32"))


def _f32(value: float) -> float:
    return float(np.float32(value))
