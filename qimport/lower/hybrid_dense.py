"""FULLY_CONNECTED of float activations and int8 weights."""

from __future__ import annotations

import numpy as np

from qimport import prim
from qimport.ir.graph import Value
from qimport.ir.types import TensorType
from qimport.lower.float_weighted import emit_activation
from qimport.lower.hybrid import Rows, emit_hybrid, emit_rows
from qimport.lower.rule import Emitter, Use, rule
from qimport.lower.sign_excess import emit_sign_excess
from qimport.lower.weighted import reshaped
from qimport.qnn.hybrid_dense import NIBBLE_ZERO, HybridDense, stored_nibbles


@rule(HybridDense)
def lower_hybrid_dense(emit: Emitter, op: HybridDense, use: Use) -> Value:
    """Rows as images of one pixel."""
    x, w = use.operand(0), use.operand(1)
    outputs, depth = w.type.shape
    if op.stores_nibbles(use.call):
        return _lower_nibbles(emit, op, use)
    rows = emit.reshape(x, (x.type.size // depth, 1, 1, depth))

    def excess(rows: Rows) -> Value | None:
        if not op.exceeds(use.call):
            return None
        more = emit_sign_excess(emit, rows.codes, w)
        return more if more is None else emit.reshape(more, (x.type.size // depth, 1, 1, outputs))

    result = emit_hybrid(emit, op, use, rows, reshaped(emit, w, (outputs, 1, 1, depth)), prim.Mac(), excess)
    return emit.reshape(result, use.output.shape)


def _lower_nibbles(emit: Emitter, op: HybridDense, use: Use) -> Value:
    """The optimized kernel for int4 weights: sums of codes pay for what it adds to the weights."""
    x, w = use.operand(0), use.operand(1)
    assert w.data is not None
    outputs, depth = w.type.shape
    count = x.type.size // depth
    rows = emit_rows(emit, emit.reshape(x, (count, depth)), op.dynamic_kind(use.call))
    stored = emit.constant((stored_nibbles(w.data) + NIBBLE_ZERO).astype(np.int8).reshape(outputs, 1, 1, -1))
    codes, mac = emit.reshape(rows.codes, (count, 1, 1, depth)), prim.Mac()
    no_bias = emit.constant(np.zeros(outputs, np.int32))
    acc = emit.emit(mac, (codes, stored, no_bias), mac.result_type(codes.type, stored.type))
    total = emit.emit(prim.Reduce("sum", (1,)), (rows.codes,), TensorType("int32", (count, 1)))
    s_w = emit.constant(np.array(use.call.input(1).quant.scales, np.float32))
    owed = emit.cast(emit.binary("mul", total, -NIBBLE_ZERO), "float32")
    start = emit.binary("mul", emit.binary("mul", owed, rows.scale), s_w)
    bias = use.operands[2] if len(use.operands) > 2 else None
    start = emit.binary("add", start, bias if bias is not None else emit.constant(np.zeros(1, np.float32)))
    sums = emit.cast(emit.reshape(acc, (count, outputs)), "float32")
    scaled = emit.binary("mul", emit.binary("mul", sums, rows.scale), s_w)
    result = emit_activation(emit, emit.binary("add", start, scaled), op.activation, "builtin")
    return emit.reshape(result, use.output.shape)
