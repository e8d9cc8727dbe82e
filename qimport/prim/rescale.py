"""``prim.rescale``: integers times a real factor, rounded as one of the interpreter's kernels rounds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qimport import fixedpoint
from qimport.fixedpoint import Int, Rounding
from qimport.ir.check import require
from qimport.ir.graph import Array, Call, Operation, operation

FACTORS: dict[str, tuple[str, ...]] = {
    "double_away": ("int32", "int32"),
    "double_up": ("int32", "int32"),
    "single_up": ("int32", "int32"),
    "float32_even": ("float32",),
    "float64_away": ("float64",),
}
"""Element types of the factors of every rounding."""

OPERANDS: dict[str, tuple[str, ...]] = {"single_up": ("int64",), "float64_away": ("int32", "int64")}
"""Element types of the operand where it is not int32 only."""


@operation
@dataclass(frozen=True)
class Rescale(Operation):
    """x times a real factor, rounded to int32 as ``rounding`` (:data:`qimport.fixedpoint.Rounding`) says.

    Fixed-point roundings take operands (x, multiplier int32, exponent int32); float roundings take
    (x, scale float32 for float32_even, float64 for float64_away). Factors are constants of shape [1] or [C],
    C the last dimension. Channels from ``leftover_from`` on use ``leftover`` instead, if given (kernels that
    vectorize over channels and round the remainder differently); double roundings only.

    C1 x is int32, or int64 for single_up (always) and float64_away (possibly); the result is int32 of x's
    shape. C2 rounding, factor shapes and types as above. C3 leftover is a double rounding, with others of
    that kind only.
    """

    NAME = "prim.rescale"

    rounding: Rounding
    leftover: Rounding | None = None
    leftover_from: int = 0

    @property
    def fixed_point(self) -> bool:
        """Whether this is one of the double roundings of a 32-bit product."""
        return self.rounding in ("double_away", "double_up")

    def verify(self, call: Call) -> None:
        """Check C1-C3."""
        x, out = call.input(0), call.output
        require(self.rounding in FACTORS, "C2", f"there is no rounding {self.rounding}")
        operands = OPERANDS.get(self.rounding, ("int32",))
        require(x.dtype in operands, "C1", f"the operand must be {' or '.join(operands)}")
        require(out.dtype == "int32" and x.shape == out.shape, "C1", "the result must be int32 of x's shape")
        factors = [call.input(i) for i in range(1, len(call.inputs))]
        wanted = FACTORS[self.rounding]
        require(tuple(f.dtype for f in factors) == wanted, "C2", f"factors must be {wanted}")
        channels = x.shape[-1] if x.shape else 1
        fitting = all(f.shape in ((1,), (channels,)) for f in factors)
        require(fitting, "C2", "factors must have 1 or C elements")
        alike = self.fixed_point and self.leftover in ("double_away", "double_up") and self.leftover_from >= 0
        require(self.leftover is None or alike, "C3", "leftover needs double roundings")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """The rules of :mod:`qimport.fixedpoint`."""
        x = call.array(0)
        if self.leftover is not None:
            result = self._rounded(call, x, self.rounding)
            rest = self._rounded(call, x, self.leftover)
            result[..., self.leftover_from :] = rest[..., self.leftover_from :]
            return (result.astype(np.int32),)
        return (self._rounded(call, x, self.rounding).astype(np.int32),)

    def _rounded(self, call: Call, x: Array, rounding: Rounding) -> Int:
        if rounding == "float32_even":
            return fixedpoint.rescale_float32_even(x, call.array(1))
        if rounding == "float64_away":
            return fixedpoint.rescale_float64_away(x, call.array(1))
        if rounding == "single_up":
            return fixedpoint.multiply_by_quantized_multiplier_64(x, call.array(1), call.array(2))
        return fixedpoint.multiply_by_quantized_multiplier(x, call.array(1), call.array(2), rounding)
