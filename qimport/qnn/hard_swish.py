"""``qnn.hard_swish``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from qimport import fixedpoint as fp
from qimport import real
from qimport.fixedpoint import Int
from qimport.ir.check import require
from qimport.ir.graph import Call, operation
from qimport.ir.types import INTEGER_RANGE, TensorType
from qimport.numerics import Family, Mode
from qimport.qnn.unary import UnaryOperation

VECTOR = 8
"""Elements that the NEON kernel computes at a time."""


@operation
@dataclass(frozen=True)
class HardSwish(UnaryOperation):
    """v * min(max(v + 3, 0), 6) / 6 (``reference_ops::HardSwish``).

    8 bits, 16-bit fixed point, equal in all modes but for NEON vectors:
    v = (x - z_in) << 7, in units of f32(s_in / 128). Two multipliers, each cut to 16 bits as
    min((m + 2^15) >> 16, 32767): (m1, e1) of f32(f32(s_in / 128) / s_out), (m2, e2) of
    f32(f32(s_in / 128) / f32(3 / 32768)). high16(a, b) = min((a * b + 2^14) >> 15, 32767).

    value = high16(v, m1). gate: r = sat16(v << (e2 - 1)) if e2 > 0 else v; r = high16(r, m2);
    r = sat16(r << 1) if e2 > 0, rdbpot(r, -e2) if e2 < 0; gate = (r + 32768) >> 1.
    Result: clamp(rdbpot(trunc(gate * value / 2^15), -e1) + z_out).

    rdbpot by 16 bits and more gives -1 below 0, else 1.
    builtin-arm64, in whole blocks of 8 elements of the flat tensor: both rdbpot round half up, and
    gate * value / 2^15 is rounded down.

    float32: as written in the reference kernel; builtin v * f32(1/6) times the bounded sum in blocks of 4,
    for the rest the product with f32(1/6) comes last; xnnpack v times f32(v / 6 + 1/2) bounded to [0, 1].

    C1, C2 as in :class:`UnaryOperation`. C3 f32(f32(s_in / 128) / s_out) < 1, so that e1 <= 0; s_in < 2^20.
    """

    NAME = "qnn.hard_swish"
    TFLITE: ClassVar[tuple[str, ...]] = ("HARD_SWISH",)
    TYPES = ("int8", "uint8", "float32")
    DELEGATED = ("float32",)
    REAL: ClassVar[Mapping[Family, real.Kind]] = {
        "reference": "hard_swish",
        "builtin": "hard_swish_by_sixth",
        "xnnpack": "hard_swish_by_gate",
    }
    LEFTOVERS: ClassVar[Mapping[Family, tuple[int, real.Kind]]] = {"builtin": (4, "hard_swish_sixth_last")}

    def verify(self, call: Call) -> None:
        """Check C1-C3."""
        super().verify(call)
        if call.output.dtype == "float32":
            return
        before, after = call.input(0).quant.scale, call.output.quant.scale
        ratio = fp.f32(min(before / 128 / after, 2.0))
        limit = f"under 128 times that of the output, {after!r}"
        sentence = f"the input scale {before!r} of HARD_SWISH must be {limit}"
        require(ratio < 1 and before < 2**20, "C3", sentence)

    def codes(self, x: Int, source: TensorType, target: TensorType, kernels: Mode) -> Int:
        """The formula of the class."""
        (m1, e1), (m2, e2) = _hard_swish_multipliers(source, target)
        v = (x - source.quant.zero_point) << 7
        gate = _high16(_saturate16(v << (e2 - 1)) if e2 > 0 else v, m2)
        divide = fp.rounding_shift_right_up if _has_vectors(kernels) else _divide_by_pot16
        gate = _saturate16(gate << 1) if e2 > 0 else divide(gate, -e2)
        gate = (gate + 32768) >> 1
        product = gate * _high16(v, m1)
        product = product >> 15 if _has_vectors(kernels) else np.trunc(product / 2**15).astype(np.int64)
        shifted = divide(np.minimum(product, 32767), -e1)
        return np.clip(fp.wrap16(shifted + target.quant.zero_point), *INTEGER_RANGE[target.dtype])

    def code_block(self, call: Call) -> int:
        """On ARM whole blocks are computed by vectors."""
        return VECTOR if _has_vectors(self.kernels(call)) else 0


def _has_vectors(kernels: Mode) -> bool:
    """Whether there is NEON code in these kernels."""
    return kernels.arm64 and kernels.family == "builtin"


Multiplier = tuple[int, int]


def _hard_swish_multipliers(source: TensorType, target: TensorType) -> tuple[Multiplier, Multiplier]:
    unit = fp.f32(source.quant.scale / 128)

    def cut(factor: float) -> Multiplier:
        multiplier, exponent = fp.quantize_multiplier(factor)
        return min((multiplier + 2**15) >> 16, 32767), exponent

    return cut(fp.f32(unit / target.quant.scale)), cut(fp.f32(unit / fp.f32(3 / 32768)))


def _divide_by_pot16(x: Int, exponent: int) -> Int:
    """``rounding_divide_by_pot`` in 16 bits; by 16 bits and more the sign of x, 1 for 0."""
    if exponent >= 16:
        return np.where(x < 0, -1, 1)
    return fp.rounding_divide_by_pot(x, exponent)


def _high16(a: Int, b: int) -> Int:
    """gemmlowp ``SaturatingRoundingDoublingHighMul`` on 16 bits."""
    return np.asarray(np.minimum((a * b + 2**14) >> 15, 32767), np.int64)


def _saturate16(value: Int) -> Int:
    return np.clip(value, -32768, 32767)
