"""SOFTMAX."""

from __future__ import annotations

import math

from qimport.frontend.ops import checks
from qimport.frontend.ops.context import OperatorContext, importer
from qimport.ir.types import INTEGER_RANGE
from qimport.qnn.softmax import Softmax


@importer("SOFTMAX", versions=range(1, 5))
def softmax(context: OperatorContext) -> None:
    """Over the last dimension, with the one result quantization that the interpreter admits."""
    context.operands(1)
    x, out = context.input(0), context.out
    checks.eight_bit(context, x, out)
    if not x.type.shape:
        context.misfit("a scalar has no dimension to go over", x)
    beta = context.option("beta")
    context.require(0 < beta < math.inf, f"beta is {beta}; expected a positive number")
    found, lowest = out.type.quant, INTEGER_RANGE[out.type.dtype][0]
    context.require(
        abs(found.scale * 256 - 1) <= 1e-3, f"the scale is {found.scale:.9g}; expected 1/256", out
    )
    context.require(
        found.zero_point == lowest, f"the zero point is {found.zero_point}; expected {lowest}", out
    )
    context.emit(Softmax(beta=beta), (x,), x.type.shape)
