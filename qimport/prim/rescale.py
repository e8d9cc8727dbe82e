"""``prim.rescale``: integers times a real factor, rounded as one of the interpreter's kernels rounds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qimport import fixedpoint
from qimport.fixedpoint import Rounding
from qimport.ir.check import require
from qimport.ir.graph import Array, Call, Operation, operation

FACTORS: dict[str, tuple[str, ...]] = {
    "double_away": ("int32", "int32"),
    "double_up": ("int32", "int32"),
    "exact_up": ("int32", "int32"),
    "exact_up_saturated": ("int32", "int32"),
    "narrow_up": ("int32", "int32"),
    "single_up": ("int32", "int32"),
    "float32_even": ("float32",),
    "float64_away": ("float64",),
    "float64_away_saturated": ("float64",),
}
"""Element types of the factors of every rounding."""

OPERANDS: dict[str, tuple[str, ...]] = {
    "single_up": ("int64",),
    **dict.fromkeys(("float64_away", "float64_away_saturated"), ("int32", "int64")),
}
"""Element types of the operand where it is not int32 only."""


@operation
@dataclass(frozen=True)
class Rescale(Operation):
    """x times a real factor, rounded to int32 as ``rounding`` (:data:`qimport.fixedpoint.Rounding`) says.

    Fixed-point roundings take operands (x, multiplier int32, exponent int32); float roundings take
    (x, scale float32 for float32_even, float64 for the float64 ones). Factors are constants of shape [1] or
    [C], C the last dimension. Channels from ``leftover_from`` on use ``leftover`` instead, if given (kernels
    that vectorize over channels and round the remainder differently); double roundings only.

    C1 x is int32, or int64 for single_up (always) and the float64 ones (possibly); the result is int32 of x's
    shape. C2 rounding, factor shapes and types as above. C3 leftover is a double rounding, with others of
    that kind only.
    """

    NAME = "prim.rescale"

    rounding: Rounding
    leftover: Rounding | None = None
    leftover_from: int = 0

    @property
    def fixed_point(self) -> bool:
        """Whether this is one of the roundings of a product of 32 bits."""
        return self.rounding in ("double_away", "double_up") or self.exact

    @property
    def exact(self) -> bool:
        """Whether a product of 32 bits is rounded only once."""
        return self.rounding in ("exact_up", "exact_up_saturated")

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
        double = all(rounding in ("double_away", "double_up") for rounding in (self.rounding, self.leftover))
        alike = double and self.leftover_from >= 0
        require(self.leftover is None or alike, "C3", "leftover needs double roundings")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """The rules of :mod:`qimport.fixedpoint`."""
        x, factors = call.array(0), [call.array(position) for position in range(1, len(call.inputs))]
        result = fixedpoint.rescale(x, self.rounding, *factors)
        if self.leftover is not None:
            rest = fixedpoint.rescale(x, self.leftover, *factors)
            result[..., self.leftover_from :] = rest[..., self.leftover_from :]
        return (result.astype(np.int32),)
