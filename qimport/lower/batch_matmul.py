"""BATCH_MATMUL: one multiply-accumulate per matrix of the right operand; matrices of the left share it."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from qimport import prim
from qimport.ir.graph import Value
from qimport.ir.types import TensorType
from qimport.lower.requantization import emit_requantization
from qimport.lower.rule import Emitter, Use, rule
from qimport.qnn.batch_matmul import BatchMatmul
from qimport.qnn.batch_matmul_sums import BatchMatmulSums
from qimport.qnn.float_batch_matmul import matrix_numbers


@rule(BatchMatmul)
def lower_batch_matmul(emit: Emitter, op: BatchMatmul, use: Use) -> Value:
    """Sums become codes."""
    zeros = [use.call.input(i).quant.zero_point for i in (0, 1)]
    mac = prim.Mac(input_zero=zeros[0], weight_zero=zeros[1])
    form = op.requantization(use.call)

    def codes(acc: Value) -> Value:
        return emit_requantization(emit, acc, form, use.output.dtype)

    return _products(emit, op, use, mac, op.accumulator(use.call), codes)


@rule(BatchMatmulSums)
def lower_batch_matmul_sums(emit: Emitter, op: BatchMatmulSums, use: Use) -> Value:
    """Sums are the result."""
    return _products(emit, op, use, prim.Mac(), "int32", lambda acc: acc)


def _products(
    emit: Emitter,
    op: BatchMatmul | BatchMatmulSums,
    use: Use,
    mac: prim.Mac,
    accumulator: str,
    finish: Callable[[Value], Value],
) -> Value:
    """[rows, 1, 1, K] times [N, 1, 1, K] for every batch, put side by side."""
    a = matrices(emit, use.operand(0), swap=op.adj_x)
    b = matrices(emit, use.operand(1), swap=not op.adj_y)
    rows, depth, columns = a.type.shape[1], a.type.shape[2], b.type.shape[1]
    batch = use.output.shape[:-2]
    of_a, of_b = (matrix_numbers(use.call.input(i).shape[:-2], batch) for i in (0, 1))
    bias = emit.constant(np.zeros(columns, accumulator))

    def product(left: Value, right: Value) -> Value:
        x = emit.reshape(left, (left.type.size // depth, 1, 1, depth))
        w = emit.reshape(right, (columns, 1, 1, depth))
        acc = emit.emit(mac, (x, w, bias), mac.result_type(x.type, w.type, bias.type.dtype))
        return emit.reshape(finish(acc), (x.type.shape[0], columns))

    if len(set(of_b)) == 1 and of_a == list(range(a.type.shape[0])):
        parts = [product(a, b)]
    else:
        pairs = zip(of_a, of_b, strict=True)
        parts = [product(pick_matrix(emit, a, i), pick_matrix(emit, b, j)) for i, j in pairs]
    return emit.reshape(emit.concat(parts, 0), (*batch, rows, columns))


def matrices(emit: Emitter, x: Value, swap: bool) -> Value:
    """The operand as [matrices, rows, K]; ``swap`` if K comes first in the file."""
    *batch, first, second = x.type.shape
    flat = emit.reshape(x, (math.prod(batch), first, second))
    if not swap:
        return flat
    shape = TensorType(x.type.dtype, (flat.type.shape[0], second, first))
    return emit.emit(prim.Transpose((0, 2, 1)), (flat,), shape)


def pick_matrix(emit: Emitter, x: Value, number: int) -> Value:
    """One matrix."""
    _, rows, depth = x.type.shape
    return emit.slice(x, (number, 0, 0), (1, rows, depth), (1, 1, 1))
