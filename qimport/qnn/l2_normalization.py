"""``qnn.l2_normalization``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from qimport import fixedpoint as fp
from qimport.fixedpoint import Int
from qimport.ir.graph import Array, Call, operation
from qimport.ir.types import INTEGER_RANGE
from qimport.qnn.base import QnnOperation
from qimport.qnn.checks import require_normalization

RESULT = {"int8": (1 / 128, 0), "uint8": (1 / 128, 128)}
"""Scale and zero point of quantized results."""

EPSILON = 1e-6


@operation
@dataclass(frozen=True)
class L2Normalization(QnnOperation):
    """v over the square root of the sum of squares along the last axis.

    8 bits, equal in all modes: d = x - z_in, (m, e) = inverse_sqrt_multiplier(sum of d * d); int8
    clamp(MBQM(d) with (m, e + 7)), uint8 clamp(MBQM(128 * d) with (m, e) + 128). Rounding is ``double_away``.
    float32 (``reference_ops::L2Normalization``): v / max(sqrt(sum), 1e-6), the sum in index order.

    C1 operand and result are of one type, int8, uint8 or float32, and of one shape, rank at least 1.
    C2 quantized results have scale 1/128 and the middle code as zero point.
    """

    NAME = "qnn.l2_normalization"
    ARM64_FLOATS = ()
    TFLITE: ClassVar[tuple[str, ...]] = ("L2_NORMALIZATION",)

    def verify(self, call: Call) -> None:
        """Check C1, C2."""
        require_normalization(call, RESULT)

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """The formula of the class."""
        out = call.output
        if out.dtype == "float32":
            return (self._real(call.array(0)),)
        d = call.array(0).astype(np.int64) - call.input(0).quant.zero_point
        multiplier, exponent = fp.inverse_sqrt_multiplier((d * d).sum(-1, keepdims=True))
        codes = self._scaled(d, multiplier, exponent, out.dtype)
        return (np.clip(codes, *INTEGER_RANGE[out.dtype]).astype(out.numpy),)

    @staticmethod
    def _scaled(d: Int, multiplier: Int, exponent: Int, dtype: str) -> Int:
        if dtype == "int8":
            return fp.multiply_by_quantized_multiplier(d, multiplier, exponent + 7)
        return fp.multiply_by_quantized_multiplier(128 * d, multiplier, exponent) + 128

    @staticmethod
    def _real(x: Any) -> Array:
        with np.errstate(all="ignore"):
            total = np.cumsum(x * x, axis=-1, dtype=np.float32)[..., -1:]
            return np.asarray(x / np.maximum(np.sqrt(total), np.float32(EPSILON)), np.float32)
