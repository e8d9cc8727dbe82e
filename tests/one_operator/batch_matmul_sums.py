"""BATCH_MATMUL of int8 matrices with an int32 result."""

from __future__ import annotations

import numpy as np

from qimport.ir.types import TensorType
from qimport.qnn.batch_matmul_sums import BatchMatmulSums
from tests.cases import Draw, Operand, OperatorCase
from tests.one_operator.float_weighted import matmul_operands
from tests.one_operator.model import OneOperator, generator


def sums_case(draw: Draw) -> OperatorCase:
    """Adjoint operands, broadcast batches, constant operands, zero points that count nothing."""
    a, b, out, adj_x, adj_y = matmul_operands(draw)
    x, w = draw.fed(draw.tensor("int8", a)), draw.fed(draw.tensor("int8", b))
    if draw.pick(True, False):
        w = Operand(w.type, np.asarray(w.value))
    options = {"adj_x": adj_x, "adj_y": adj_y}
    result = TensorType("int32", out)
    return OperatorCase(BatchMatmulSums(adj_x, adj_y), (x, w), result, "BATCH_MATMUL", options)


@generator("BATCH_MATMUL int8 int8 int32")
def batch_matmul(draw: Draw) -> OneOperator:
    """A product of matrices."""
    return OneOperator.of(sums_case(draw))
