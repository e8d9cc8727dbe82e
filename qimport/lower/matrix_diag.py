"""Diagonals."""

from __future__ import annotations

import numpy as np

from qimport import prim
from qimport.ir.graph import Value
from qimport.lower.rule import Emitter, Use, rule
from qimport.qnn.matrix_diag import MatrixDiag, MatrixSetDiag


@rule(MatrixDiag)
def lower_matrix_diag(emit: Emitter, _op: MatrixDiag, use: Use) -> Value:
    """``prim.scatter_nd`` into zeros."""
    x, out = use.operand(0), use.output.shape
    return _store(emit, None, x, (x.type.size // out[-1], out[-1], out[-1]), out)


@rule(MatrixSetDiag)
def lower_matrix_set_diag(emit: Emitter, _op: MatrixSetDiag, use: Use) -> Value:
    """``prim.scatter_nd`` into x."""
    x, diagonal, out = use.operand(0), use.operand(1), use.output.shape
    return _store(emit, x, diagonal, (x.type.size // (out[-2] * out[-1]), out[-2], out[-1]), out)


def _store(
    emit: Emitter,
    base: Value | None,
    diagonals: Value,
    matrices: tuple[int, int, int],
    shape: tuple[int, ...],
) -> Value:
    """Constant places in the flat tensor: every ``columns + 1``-th element of every matrix."""
    count, rows, columns = matrices
    on_diagonal = np.arange(min(rows, columns), dtype=np.int32) * (columns + 1)
    starts = np.arange(count, dtype=np.int32) * (rows * columns)
    places = emit.constant((starts[:, None] + on_diagonal).reshape(-1, 1))
    flat = None if base is None else emit.reshape(base, (base.type.size,))
    updates = emit.reshape(diagonals, (diagonals.type.size,))
    result = updates.type.with_shape((count * rows * columns,))
    return emit.reshape(emit.emit(prim.ScatterNd("set"), (flat, places, updates), result), shape)
