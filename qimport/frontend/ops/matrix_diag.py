"""MATRIX_DIAG and MATRIX_SET_DIAG."""

from __future__ import annotations

from qimport.frontend.ops import checks
from qimport.frontend.ops.context import OperatorContext, importer
from qimport.qnn.matrix_diag import MatrixDiag, MatrixSetDiag

TYPES = ("int8", "uint8", "int16", "int32", "int64", "uint32", "float32")
"""The interpreter takes other types as well, but then leaves the result as it was."""


@importer("MATRIX_DIAG", versions=range(1, 2))
def matrix_diag(context: OperatorContext) -> None:
    """Vectors become diagonals."""
    context.operands(1)
    x = context.input(0)
    checks.one_of(context, x, TYPES)
    checks.moves(context, x, context.out)
    if not x.type.shape:
        context.misfit(f"tensor {x.name!r} is a scalar; expected vectors", x)
    context.emit(MatrixDiag(), (x,), (*x.type.shape, x.type.shape[-1]))


@importer("MATRIX_SET_DIAG", versions=range(1, 2))
def matrix_set_diag(context: OperatorContext) -> None:
    """Diagonals of matrices replaced."""
    context.operands(2)
    x, diagonal = context.input(0), context.input(1)
    checks.one_of(context, x, TYPES)
    checks.moves(context, x, diagonal, context.out)
    shape = x.type.shape
    wanted = (*shape[:-2], min(shape[-2:], default=0))
    if len(shape) < 2 or diagonal.type.shape != wanted:
        context.misfit(f"{diagonal.name!r} has shape {diagonal.type.shape}; expected {wanted}", diagonal)
    context.emit(MatrixSetDiag(), (x, diagonal), shape)
