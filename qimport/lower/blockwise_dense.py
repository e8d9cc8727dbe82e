"""FULLY_CONNECTED of float activations and int4 weights with a scale per block."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from qimport import prim
from qimport.ir.graph import Array, Value
from qimport.lower.float_weighted import Window, emit_sums
from qimport.lower.hybrid import Rows, emit_rows
from qimport.lower.hybrid_dense import lower_hybrid_dense
from qimport.lower.rule import Emitter, Use, rule
from qimport.qnn.blockwise_dense import SCALES, BlockwiseDense
from qimport.qnn.float_weighted import Sums


@rule(BlockwiseDense)
def lower_blockwise_dense(emit: Emitter, op: BlockwiseDense, use: Use) -> Value:
    """Blocks are groups of an integer convolution, and what adds them up is a depthwise one of floats.

    The integer sums of a row become an image of one column: a row per block and one for the zero point.
    """
    if not op.knows_blocks(use.call):
        plain, call = op.without_blocks(use.call)
        use = replace(use, call=call, operands=use.operands[:SCALES])
        without: Value = lower_hybrid_dense(emit, plain, use)
        return without
    x, w, scales = use.operand(0), use.operand(1), use.operand(SCALES)
    assert w.data is not None
    assert scales.data is not None
    outputs, depth = w.type.shape
    rows = emit_rows(emit, emit.reshape(x, (x.type.size // depth, depth)), op.dynamic_kind(use.call))
    delegated = op.kernel_family(use.call) == "xnnpack"
    sums = _block_sums(emit, rows, w.data, op.block, op.offset(use.call))
    zero = _zero_points(emit, rows, op.offset(use.call), outputs)
    terms = emit.concat((zero, sums) if delegated else (sums, zero), 1)
    factors = op.factors(w.data, scales.data, delegated)
    window = Window(groups=outputs)
    weights = emit.constant(factors[:, None, None])
    total = emit_sums(emit, terms, weights, None, window, Sums(fused=delegated))
    result = emit.binary("mul", emit.reshape(total, (total.type.shape[0], outputs)), rows.scale)
    bias = use.operands[2]
    result = emit.binary("add", result, bias if bias is not None else emit.constant(np.zeros(1, np.float32)))
    low, high = op.limits(use.call)
    result = emit.binary("min", emit.binary("max", result, low), high)
    return emit.reshape(result, use.output.shape)


def _block_sums(emit: Emitter, rows: Rows, w: Array, block: int, offset: int) -> Value:
    """sum (code + offset) * w over every block, as float32 [R, K / block, 1, N]."""
    outputs, depth = w.shape
    blocks, count = depth // block, rows.codes.type.shape[0]
    grouped = np.ascontiguousarray(w.reshape(outputs, blocks, block).transpose(1, 0, 2)).astype(np.int8)
    totals = grouped.sum(2, dtype=np.int64).reshape(-1) * offset
    weights = emit.constant(grouped.reshape(blocks * outputs, 1, 1, block))
    codes, mac = emit.reshape(rows.codes, (count, 1, 1, depth)), prim.Mac(groups=blocks)
    operands = (codes, weights, emit.constant(totals.astype(np.int32)))
    acc = emit.emit(mac, operands, mac.result_type(codes.type, weights.type))
    return emit.reshape(emit.cast(acc, "float32"), (count, blocks, 1, outputs))


def _zero_points(emit: Emitter, rows: Rows, offset: int, outputs: int) -> Value:
    """Zero points plus ``offset`` as float32 [R, 1, 1, N]."""
    assert rows.zero is not None
    zero = emit.cast(emit.binary("add", rows.zero, offset), "float32")
    count = zero.type.shape[0]
    return emit.broadcast(emit.reshape(zero, (count, 1, 1, 1)), (count, 1, 1, outputs))
