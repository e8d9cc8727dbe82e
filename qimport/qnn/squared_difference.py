"""``qnn.squared_difference``: the SQUARED_DIFFERENCE operator on codes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qimport.elements import broadcast
from qimport.fixedpoint import Int, f32, multiply_by_quantized_multiplier, quantize_multiplier, wrap32
from qimport.ir.check import require
from qimport.ir.graph import Array, Call, operation
from qimport.ir.types import INTEGER_RANGE
from qimport.qnn.base import QnnOperation
from qimport.qnn.checks import require_per_tensor

LEFT_SHIFT = 7
"""How far centred codes are shifted before they are scaled."""


@operation
@dataclass(frozen=True)
class SquaredDifference(QnnOperation):
    """The square of the difference of two operands that broadcast.

    In all modes the rescales are ``double_away``. With t = float32(2 * max(s_a, s_b)):

        u    = rescale((a - z_a) << 7, s_a / t)
        v    = rescale((b - z_b) << 7, s_b / t)
        code = clamp(rescale(wrap32((u - v)^2), t^2 / float32(2^14 * s_out)) + z_out)

    C1 operands and result are int8 with one scale each. C2 the operands broadcast to the result's shape.
    C3 the last factor is under 1 (the interpreter ends its process otherwise).
    """

    NAME = "qnn.squared_difference"
    TFLITE = ("SQUARED_DIFFERENCE",)

    def verify(self, call: Call) -> None:
        """Check C1-C3."""
        a, b, out = call.input(0), call.input(1), call.output
        for type_ in (a, b, out):
            require(type_.dtype == "int8", "C1", f"{type_} is not int8")
        require_per_tensor("C1", a, b, out)
        require(
            broadcast(a.shape, b.shape) == out.shape, "C2", f"{a.shape} and {b.shape} give not {out.shape}"
        )
        last = self.factors(call)[2]
        require(last < 1, "C3", f"the factor of squares is {last:g}; the result needs a larger scale")

    @staticmethod
    def factors(call: Call) -> tuple[float, float, float]:
        """Of a, of b, and of the square."""
        s_a, s_b = call.input(0).quant.scale, call.input(1).quant.scale
        twice = f32(2 * max(s_a, s_b))
        raised = f32(2.0 ** (2 * LEFT_SHIFT) * call.output.quant.scale)
        return s_a / twice, s_b / twice, twice * twice / raised

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """The docstring's formula."""
        of_a, of_b, last = self.factors(call)
        u, v = _scaled(call, 0, of_a), _scaled(call, 1, of_b)
        square = wrap32((u - v) ** 2)
        codes = multiply_by_quantized_multiplier(square, *quantize_multiplier(last))
        shifted = codes + call.output.quant.zero_point
        return (np.clip(shifted, *INTEGER_RANGE["int8"]).astype(np.int8),)


def _scaled(call: Call, index: int, factor: float) -> Int:
    centred = call.array(index).astype(np.int64) - call.input(index).quant.zero_point
    return multiply_by_quantized_multiplier(centred << LEFT_SHIFT, *quantize_multiplier(factor))
