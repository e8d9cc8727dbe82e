"""``qnn.local_response_normalization``."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from qimport import real
from qimport.ir.check import require
from qimport.ir.graph import Array, Call, operation
from qimport.qnn.base import QnnOperation
from qimport.qnn.checks import require_same_dtype, require_same_shape


@operation
@dataclass(frozen=True)
class LocalResponseNormalization(QnnOperation):
    """v * (bias + alpha * sum of squares of neighbouring channels)^-beta, float32.

    The sum runs over channels c - radius to c + radius in builtin and xnnpack, but only to c + radius - 1 in
    reference, in order. Powers are within 1 unit in the last place of glibc's ``powf``; results, and the
    optimized kernel's reciprocals and roots for a beta of 1 and 1/2, within 8.

    C1 operand and result are float32 of one shape with 4 dimensions. C2 radius is not negative, the other
    attributes are finite.
    """

    NAME = "qnn.local_response_normalization"
    ARM64_FLOATS = ()
    TFLITE: ClassVar[tuple[str, ...]] = ("LOCAL_RESPONSE_NORMALIZATION",)

    radius: int
    bias: float
    alpha: float
    beta: float

    def verify(self, call: Call) -> None:
        """Check C1, C2."""
        x = call.input(0)
        require(x.dtype == "float32" and len(x.shape) == 4, "C1", f"{x} is no float32 image")
        require_same_dtype("C1", call)
        require_same_shape("C1", call)
        finite = all(math.isfinite(value) for value in (self.bias, self.alpha, self.beta))
        require(self.radius >= 0 and finite, "C2", f"radius {self.radius} is negative, or a number infinite")

    def ulp_bound(self, call: Call) -> int:
        """As the class says."""
        return 8

    def reach(self, call: Call) -> tuple[int, int]:
        """How many channels before and after its own a sum takes in, of those there are."""
        after = self.radius - 1 if self.kernel_family(call) == "reference" else self.radius
        most = call.input(0).shape[-1] - 1
        return min(self.radius, most), min(after, most)

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """The formula of the class; channels outside the image add 0."""
        x: Any = call.array(0)
        depth, (before, after) = x.shape[-1], self.reach(call)
        with np.errstate(all="ignore"):
            padded = np.pad(x * x, [(0, 0)] * 3 + [(before, max(after, 0))])
            total = np.zeros_like(x)
            for start in range(before + after + 1):
                total = total + padded[..., start : start + depth]
            base = np.float32(self.bias) + np.float32(self.alpha) * total
            return (np.asarray(x * real.power(base, -float(np.float32(self.beta))), np.float32),)
