"""Segments: rows that are put where their numbers say."""

from __future__ import annotations

import math

import numpy as np

from qimport import prim
from qimport.ir.graph import Value
from qimport.ir.types import TensorType
from qimport.lower.rule import Emitter, Use, rule
from qimport.qnn.segment import Segment

KINDS = {"sum": "add", "prod": "mul", "max": "max", "min": "min"}


@rule(Segment)
def lower_segment(emit: Emitter, op: Segment, use: Use) -> Value:
    """A row behind the result takes what counts nowhere."""
    x, numbers = use.operand(0), use.operand(1)
    segments, *inner = use.output.shape
    size = math.prod(inner)
    count = numbers.type.size
    flat = emit.reshape(numbers, (count, 1))
    inside = emit.binary("min", flat, segments)
    places = emit.select(emit.compare("less", inside, 0), emit.number(segments, inside), inside)
    base = emit.constant(np.full((segments + 1, size), op.start(use.call), x.type.numpy))
    rows = emit.reshape(x, (count, size))
    scatter = prim.ScatterNd(KINDS[op.kind])  # type: ignore[arg-type]
    result = emit.emit(scatter, (base, places, rows), TensorType(x.type.dtype, base.type.shape))
    kept = emit.slice(result, (0, 0), (segments, size), (1, 1))
    return emit.reshape(kept, use.output.shape)
