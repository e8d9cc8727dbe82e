"""SQUARED_DIFFERENCE of codes."""

from __future__ import annotations

from qimport.ir.graph import Value
from qimport.ir.types import INTEGER_RANGE
from qimport.lower.binary import centred
from qimport.lower.rule import Emitter, Use, rule
from qimport.qnn.squared_difference import LEFT_SHIFT, SquaredDifference


@rule(SquaredDifference)
def lower_squared_difference(emit: Emitter, op: SquaredDifference, use: Use) -> Value:
    """Both operands on one scale, subtracted, squared and rescaled."""
    *factors, last = op.factors(use.call)
    u, v = (
        emit.rescale(
            emit.binary("shift_left", centred(emit, use, index, use.operand(index)), LEFT_SHIFT), factor
        )
        for index, factor in enumerate(factors)
    )
    difference = emit.binary("sub", u, v)
    square = emit.rescale(emit.binary("mul", difference, difference), last)
    codes = emit.clamp(square, use.output.quant.zero_point, *INTEGER_RANGE["int8"], "int8")
    return emit.reshape(codes, use.output.shape)
