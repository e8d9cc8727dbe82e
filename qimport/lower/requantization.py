"""Emitting what :class:`qimport.qnn.requantization.Requantization` describes."""

from __future__ import annotations

from qimport import prim
from qimport.ir.graph import Value
from qimport.ir.types import TensorType
from qimport.lower.rule import Emitter
from qimport.qnn.requantization import Requantization


def emit_requantization(emit: Emitter, acc: Value, form: Requantization, dtype: str) -> Value:
    """Rescale ``acc`` and clamp it into ``dtype``."""
    op = prim.Rescale(form.rounding, form.leftover, form.leftover_from)
    scaled = emit.emit(op, (acc, *map(emit.constant, form.factors)), TensorType("int32", acc.type.shape))
    if not form.wraps:
        return emit.clamp(scaled, form.zero_point, form.low, form.high, dtype)
    return emit.clamp(emit.binary("add", scaled, form.zero_point), 0, form.low, form.high, dtype)
