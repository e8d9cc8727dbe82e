"""BATCH_MATMUL with a float32 left operand: one product per matrix of the right operand."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from qimport import prim
from qimport.ir.graph import Value
from qimport.ir.types import TensorType
from qimport.lower.batch_matmul import matrices, pick_matrix
from qimport.lower.float_weighted import PIXEL, emit_sums, part_of
from qimport.lower.hybrid import apply_scales, emit_rows
from qimport.lower.rule import Emitter, Use, rule
from qimport.qnn.float_batch_matmul import FloatBatchMatmul, HybridBatchMatmul, matrix_numbers, mixed_numbers
from qimport.qnn.float_weighted import REFERENCE, Sums
from qimport.qnn.hybrid import ScaleOrder

FUSED = Sums(fused=True)


@rule(FloatBatchMatmul)
def lower_float_batch_matmul(emit: Emitter, op: FloatBatchMatmul, use: Use) -> Value:
    """[rows, 1, 1, K] times [1, 1, K, N] for every batch, put side by side."""
    a = matrices(emit, use.operand(0), swap=op.adj_x)
    b = matrices(emit, use.operand(1), swap=op.adj_y)
    _, depth, columns = b.type.shape
    sums = FUSED if op.kernel_family(use.call) == "xnnpack" else REFERENCE

    def product(left: Value, right: Value) -> Value:
        x = emit.reshape(left, (left.type.size // depth, 1, 1, depth))
        w = emit.reshape(right, (1, 1, depth, columns))
        return emit.reshape(emit_sums(emit, x, w, None, PIXEL, sums), (x.type.shape[0], columns))

    return _products(emit, use, a, b, product)


@rule(HybridBatchMatmul)
def lower_hybrid_batch_matmul(emit: Emitter, op: HybridBatchMatmul, use: Use) -> Value:
    """All rows of the left operand as codes, times [N, 1, 1, K] for every batch, put side by side."""
    a = matrices(emit, use.operand(0), swap=op.adj_x)
    b = matrices(emit, use.operand(1), swap=not op.adj_y)
    count, rows, depth = a.type.shape
    codes = emit_rows(emit, emit.reshape(a, (count * rows, depth)), op.dynamic_kind(use.call))
    batch = use.output.shape[:-2]
    own = [use.call.input(i).shape[:-2] for i in (0, 1)]
    of_a, of_b = (matrix_numbers(shape, batch) for shape in own)
    delegate = op.kernel_family(use.call) == "xnnpack"
    sources = of_a if delegate else mixed_numbers(own[0], batch)
    scales = np.array(use.call.input(1).quant.scales, np.float32)
    parts = []
    for left, right, source in zip(of_a, of_b, sources, strict=True):
        acc = _codes_times(
            emit, part_of(emit, codes.codes, 0, _span(left, rows)), pick_matrix(emit, b, right)
        )
        if codes.zero is not None:
            zero = part_of(emit, codes.zero, 0, _span(source, rows))
            sums = _column_sums(emit, pick_matrix(emit, b, right))
            acc = emit.binary("sub", acc, emit.binary("mul", zero, sums))
        scale = part_of(emit, codes.scale, 0, _span(source, rows))
        order: ScaleOrder = "input_first" if delegate else "together"
        parts.append(apply_scales(emit, order, emit.cast(acc, "float32"), scale, scales))
    return emit.reshape(emit.concat(parts, 0), use.output.shape)


def _span(number: int, rows: int) -> tuple[int, int]:
    return number * rows, (number + 1) * rows


def _codes_times(emit: Emitter, codes: Value, b: Value) -> Value:
    """int32 [M, N] of codes [M, K] and one matrix [1, N, K]."""
    rows, depth = codes.type.shape
    columns = b.type.shape[1]
    x, w = emit.reshape(codes, (rows, 1, 1, depth)), emit.reshape(b, (columns, 1, 1, depth))
    mac, no_bias = prim.Mac(), emit.constant(np.zeros(columns, np.int32))
    acc = emit.emit(mac, (x, w, no_bias), mac.result_type(x.type, w.type))
    return emit.reshape(acc, (rows, columns))


def _column_sums(emit: Emitter, b: Value) -> Value:
    """int32 [1, N] of one matrix [1, N, K]."""
    shape = (1, b.type.shape[1], 1)
    total = emit.emit(prim.Reduce("sum", (2,)), (b,), TensorType("int32", shape))
    return emit.reshape(total, shape[:2])


def _products(emit: Emitter, use: Use, a: Value, b: Value, product: Callable[[Value, Value], Value]) -> Value:
    """``product`` of every pair of matrices; of all of a at once where b is a single matrix."""
    batch = use.output.shape[:-2]
    of_a, of_b = (matrix_numbers(use.call.input(i).shape[:-2], batch) for i in (0, 1))
    if len(set(of_b)) == 1 and of_a == list(range(a.type.shape[0])):
        parts = [product(a, b)]
    else:
        pairs = zip(of_a, of_b, strict=True)
        parts = [product(pick_matrix(emit, a, i), pick_matrix(emit, b, j)) for i, j in pairs]
    return emit.reshape(emit.concat(parts, 0), use.output.shape)
