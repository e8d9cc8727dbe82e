"""AVERAGE_POOL_2D and MAX_POOL_2D: reductions over windows."""

from __future__ import annotations

import numpy as np

from qimport import prim
from qimport.ir.graph import Value
from qimport.ir.types import INTEGER_RANGE, TensorType
from qimport.lower.rule import Emitter, Use, rule
from qimport.qnn.pool2d import AveragePool2d, MaxPool2d


@rule(AveragePool2d)
def lower_average_pool2d(emit: Emitter, op: AveragePool2d, use: Use) -> Value:
    """Window sums, divided by the constant counts of pixels inside the image."""
    window = prim.Window("sum", op.size, op.stride, op.padding)
    total = emit.emit(window, (use.operand(0),), TensorType("int32", use.output.shape))
    counts = op.counts(use.call)
    uniform = np.all(counts == counts.flat[0])
    divisor = emit.constant(counts.reshape(-1)[:1] if uniform else counts)
    mean = emit.emit(prim.DivRound(), (total, divisor), total.type)
    low, high = op.codes_range(use.call)
    return emit.clamp(mean, 0, low, high, use.output.dtype)


@rule(MaxPool2d)
def lower_max_pool2d(emit: Emitter, op: MaxPool2d, use: Use) -> Value:
    """Window maxima, clamped only where an activation narrows the range."""
    window = prim.Window("max", op.size, op.stride, op.padding)
    largest = emit.emit(window, (use.operand(0),), TensorType(use.output.dtype, use.output.shape))
    low, high = op.codes_range(use.call)
    if (low, high) == INTEGER_RANGE[use.output.dtype]:
        return largest
    return emit.clamp(emit.cast(largest, "int32"), 0, low, high, use.output.dtype)
