"""``qnn.prelu``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from qimport import fixedpoint as fp
from qimport.ir.check import require
from qimport.ir.graph import Array, Call, operation
from qimport.ir.types import INTEGER_RANGE
from qimport.qnn.base import QnnOperation
from qimport.qnn.checks import require_per_tensor, require_same_shape
from qimport.qnn.unary import rescaled

SLOPES = {"int8": "int8", "uint8": "uint8", "int16": "int8", "float32": "float32"}
"""Element type of alpha for each element type of the operand."""


@operation
@dataclass(frozen=True)
class Prelu(QnnOperation):
    """v from 0 on, alpha * v below, alpha stretched to v.

    With d = x - z_in and a = alpha - z_alpha: clamp(z_out + MBQM(d) of f32(s_in / s_out)) from 0 on, below
    clamp(z_out + MBQM(wrap32(d * a)) of f32(f32(s_in * s_alpha) / s_out))
    (``reference_ops::BroadcastPrelu4DSlow``).
    The delegate takes float32 with a constant alpha only; all modes give the same bytes but for numbers below
    2^-126, which XNNPACK takes for 0.
    float32: v if v >= 0, else f32(v * alpha).

    C1 operand and result are of one type, int8, uint8, int16 or float32; alpha is of the same one, int8 for
    int16; the result has the operand's shape. C2 alpha has no more dimensions than the operand and each of
    its dimensions is 1 or the operand's. C3 integers have one scale and one zero point each; both factors are
    under 2^31.
    """

    NAME = "qnn.prelu"
    TFLITE: ClassVar[tuple[str, ...]] = ("PRELU",)

    def verify(self, call: Call) -> None:
        """Check C1-C3."""
        x, alpha, out = call.input(0), call.input(1), call.output
        known = x.dtype == out.dtype and SLOPES.get(x.dtype) == alpha.dtype
        require(known, "C1", f"{x}, {alpha} and {out} are not types of PRELU")
        require_same_shape("C1", call)
        rank = len(x.shape) - len(alpha.shape)
        pairs = zip(alpha.shape, x.shape[max(rank, 0) :], strict=False)
        stretches = rank >= 0 and all(a in (1, size) for a, size in pairs)
        require(stretches, "C2", f"{alpha.shape} does not stretch to {x.shape}")
        if x.dtype != "float32":
            require_per_tensor("C3", x, alpha, out)
            require(max(self.factors(call)) < 2**31, "C3", f"the factors {self.factors(call)} are too large")

    def factors(self, call: Call) -> tuple[float, float]:
        """The factors of numbers from 0 on, and of products with alpha."""
        x, alpha, out = (type_.quant.scale for type_ in (call.input(0), call.input(1), call.output))
        return fp.f32(x / out), fp.f32(fp.f32(x * alpha) / out)

    def xnnpack_takes(self, call: Call) -> bool:
        """No: its results do not differ."""
        return False

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """The formula of the class."""
        x: Any = call.array(0)
        alpha: Any = call.array(1)
        out = call.output
        if out.dtype == "float32":
            with np.errstate(all="ignore"):
                return (np.where(x >= 0, x, x * alpha),)
        d = x.astype(np.int64) - call.input(0).quant.zero_point
        product = fp.wrap32(d * (alpha.astype(np.int64) - call.input(1).quant.zero_point))
        above, below = self.factors(call)
        scaled = np.where(d >= 0, rescaled(d, above), rescaled(product, below))
        codes = np.clip(scaled + out.quant.zero_point, *INTEGER_RANGE[out.dtype])
        return (codes.astype(out.numpy),)
