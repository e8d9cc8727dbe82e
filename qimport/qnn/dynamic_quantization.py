"""Quantization of float activations on the fly, as the hybrid kernels of the interpreter do it.

Every row (a row of a matrix, an image, or a pixel) gets its own scale and zero point. Codes are int8:
x = scale * (code - zero_point), about.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from qimport.fixedpoint import round_away
from qimport.summation import Float32, fused_multiply_add

DynamicKind = Literal[
    "symmetric",
    "symmetric_away",
    "asymmetric",
    "asymmetric_away",
    "delegate",
    "delegate_fused",
    "delegate_fused_away",
]

BLOCK = 8
"""Elements that the vectorized loops round at a time."""


@dataclass(frozen=True)
class Codes:
    """Rows of codes without their zero point, -255 .. 255, int64 [R, K]; scales and zero points [R, 1]."""

    centred: npt.NDArray[np.int64]
    scale: Float32
    zero_point: npt.NDArray[np.int64]


def quantize_rows(x: Float32, kind: DynamicKind) -> Codes:
    """Quantize float32 [R, K].

    symmetric   scale = max|x| / 127 (1 for a row of zeros), code = round(x * (127 / max|x|)) within
                [-127, 127] (``tensor_utils::SymmetricQuantizeFloats``)
    asymmetric  the range of x and 0 over 255 steps in float64, the zero point from the end with the smaller
                error, code = round(x * (1 / scale)) + zero point
                (``tensor_utils::AsymmetricQuantizeFloats``); a row of zeros has zero point 0
    delegate    the same idea in float32, ties to even (XNNPACK's qd8)

    symmetric and asymmetric round whole blocks of eight elements of a row by adding 0.5 in float32 and
    cutting off, which takes the number below 0.5 to 1, and the elements after them half away from zero.
    With ``_away`` all elements round half away from zero (``optimized_4bit::BatchQuantizeFloats4Bit``;
    the ARM build). delegate_fused finds its zero point with products and sums in one step.
    """
    with np.errstate(all="ignore"):
        if kind.startswith("symmetric"):
            return _symmetric(x, block_of(kind, x.shape[1]))
        if kind.startswith("asymmetric"):
            return _asymmetric(x, block_of(kind, x.shape[1]))
        return _delegate(x, kind != "delegate", kind.endswith("away"))


def block_of(kind: DynamicKind, size: int) -> int:
    """Elements that the classic kernels' vectorized loops round at a time; more than ``size`` for none."""
    return size + 1 if kind.endswith("away") else BLOCK


def on_arm64(kind: DynamicKind, away: bool) -> DynamicKind:
    """How the ARM build does what x86 does as ``kind``; ``away`` is of the delegate's ways."""
    if kind == "delegate":
        return "delegate_fused_away" if away else "delegate_fused"
    return "symmetric_away" if kind.startswith("symmetric") else "asymmetric_away"


def _rounded(scaled: Float32, block: int) -> npt.NDArray[np.int64]:
    whole = scaled.shape[1] // block * block
    half = np.where(scaled < 0, np.float32(-0.5), np.float32(0.5))
    result = np.asarray(round_away(scaled.astype(np.float64)))
    result[:, :whole] = np.trunc(scaled + half)[:, :whole]
    return result.astype(np.int64)


def _symmetric(x: Float32, block: int) -> Codes:
    largest = np.max(np.abs(x), axis=1, keepdims=True)
    largest = np.where(largest == 0, np.float32(127), largest)
    codes = _rounded(x * (np.float32(127) / largest), block)
    scale = largest / np.float32(127)
    return Codes(np.clip(codes, -127, 127), scale, np.zeros(scale.shape, np.int64))


def _range(x: Float32) -> tuple[Float32, Float32]:
    low, high = x.min(1, keepdims=True), x.max(1, keepdims=True)
    return np.minimum(low, np.float32(0)), np.maximum(high, np.float32(0))


def _asymmetric(x: Float32, block: int) -> Codes:
    low, high = _range(x)
    span = high - low
    step = np.where(span == 0, np.float32(255), span).astype(np.float64) / 255.0
    below, above = low.astype(np.float64) / step, high.astype(np.float64) / step
    zero = np.where(128.0 - below < 127.0 + above, -128.0 - below, 127.0 - above)
    zero_point = np.where(span == 0, 0, np.clip(round_away(zero), -128, 127)).astype(np.int64)
    scale = step.astype(np.float32)
    codes = np.clip(_rounded(x * (np.float32(1) / scale), block) + zero_point, -128, 127)
    return Codes(codes - zero_point, scale, zero_point)


def _delegate(x: Float32, fused: bool, away: bool) -> Codes:
    low, high = _range(x)
    span = high - low
    factor = np.float32(255) / np.where(span == 0, np.float32(255), span)

    def add(a: Float32, c: float) -> Float32:
        """a * factor + c."""
        return fused_multiply_add(a, factor, np.float32(c)) if fused else a * factor + np.float32(c)

    from_low = add(low, -128) + add(high, 127) > 0
    zero = np.where(from_low, add(-low, -128), add(-high, 127))
    zero_point = np.rint(np.clip(zero, np.float32(-128), np.float32(127))).astype(np.int64)
    scaled = np.minimum(x * factor, (127 - zero_point).astype(np.float32))
    rounded = round_away(x * factor) if away else np.rint(scaled)
    codes = np.clip(rounded.astype(np.int64) + zero_point, -128, 127)
    return Codes(codes - zero_point, np.float32(1) / factor, zero_point)
