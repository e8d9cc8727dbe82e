"""What the lowering rules of weighted operations share."""

from __future__ import annotations

import numpy as np

from qimport import prim
from qimport.ir.graph import Value
from qimport.ir.types import TensorType
from qimport.lower.lost_pairs import emit_lost_pairs
from qimport.lower.requantization import emit_requantization
from qimport.lower.rule import Emitter, Use
from qimport.qnn.lost_pairs import loses_pairs
from qimport.qnn.weighted import WeightedOperation


def emit_weighted(emit: Emitter, op: WeightedOperation, use: Use, x: Value, w: Value, mac: prim.Mac) -> Value:
    """Multiply-accumulate, rescale and clamp; ``x`` is NHWC and ``w`` OHWI."""
    bias = use.operands[2] if len(use.operands) > 2 else None
    if bias is None:
        bias = emit.constant(np.zeros(w.type.shape[0], op.accumulator(use.call)))
    w = as_bytes(emit, w)
    acc = emit.emit(mac, (x, w, bias), mac.result_type(x.type, w.type, bias.type.dtype))
    if loses_pairs(op, use.call):
        acc = emit_lost_pairs(emit, acc, x, w, mac)
    return emit_requantization(emit, acc, op.requantization(use.call), use.output.dtype)


def as_bytes(emit: Emitter, w: Value) -> Value:
    """Weights of 2 or 4 bits as int8; they already lie one to a byte."""
    return emit.constant(w.data, w.name) if w.data is not None and w.type.dtype in ("int2", "int4") else w


def transposed(emit: Emitter, w: Value, permutation: tuple[int, ...]) -> Value:
    """Weights with permuted dimensions: at compile time where they are constant."""
    if w.data is not None:
        return emit.constant(np.ascontiguousarray(w.data.transpose(permutation)), w.name)
    shape = tuple(w.type.shape[axis] for axis in permutation)
    return emit.emit(prim.Transpose(permutation), (w,), TensorType(w.type.dtype, shape), w.name)


def reshaped(emit: Emitter, w: Value, shape: tuple[int, ...]) -> Value:
    """Weights of another shape: at compile time where they are constant."""
    return emit.reshape(w, shape) if w.data is None else emit.constant(w.data.reshape(shape), w.name)
