"""Rows of floats quantized to int8 on the fly, as the classic hybrid kernels do before integer products."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qimport import fixedpoint as fp
from qimport.fixedpoint import Int
from qimport.ir.graph import Array
from qimport.qnn.sign_excess import sign_excess
from qimport.summation import Float32

ROUNDING_BLOCK = 8
"""Whole blocks of a row are rounded by adding a half and cutting off, the rest half away from zero."""


@dataclass(frozen=True)
class QuantizedRows:
    """Codes [rows, n] in int8's range, one scale and one zero point per row ([rows, 1])."""

    codes: Int
    scales: Float32
    zeros: Int

    def product(self, weights: Array, weight_scale: float) -> Float32:
        """Times weights int8 [outputs, n]: float32(sums) * float32(scale * weight_scale).

        The sums include :func:`qimport.qnn.sign_excess.sign_excess`.
        """
        w = weights.astype(np.int64)
        sums = fp.wrap32(self.codes @ w.T + sign_excess(self.codes, w) - self.zeros * w.sum(1))
        return np.asarray(sums.astype(np.float32) * (self.scales * np.float32(weight_scale)))


def quantize_rows(x: Float32, *, asymmetric: bool) -> QuantizedRows:
    """``BatchQuantizeFloats`` of [rows, n], see :func:`_symmetric` and :func:`_asymmetric`."""
    with np.errstate(all="ignore"):
        return _asymmetric(x) if asymmetric else _symmetric(x)


def _symmetric(x: Float32) -> QuantizedRows:
    """``SymmetricQuantizeFloats``: 127 stands for the largest magnitude; a row of zeros has scale 1."""
    largest = np.abs(x).max(-1, keepdims=True)
    empty = largest == 0
    codes = np.clip(round_in_blocks(x * (np.float32(127) / largest)), -127, 127)
    scales = np.where(empty, np.float32(1), largest / np.float32(127))
    return QuantizedRows(np.where(empty, 0, codes), scales, np.zeros(largest.shape, np.int64))


def _asymmetric(x: Float32) -> QuantizedRows:
    """``AsymmetricQuantizeFloats``: 255 steps over a range that includes 0; a row of zeros has scale 1.

    The zero point is computed in float64 from that end of the range where it is the smaller.
    """
    low = np.minimum(x.min(-1, keepdims=True), np.float32(0))
    high = np.maximum(x.max(-1, keepdims=True), np.float32(0))
    empty = low == high
    step = (high - low).astype(np.float64) / 255.0
    below, above = low.astype(np.float64) / step, high.astype(np.float64) / step
    from_below = 128.0 + np.abs(below) < 127.0 + np.abs(above)
    exact = np.where(from_below, -128.0 - below, 127.0 - above)
    zeros = np.clip(fp.round_away(np.where(empty, 0.0, exact)), -128, 127).astype(np.int64)
    scales = step.astype(np.float32)
    codes = np.clip(round_in_blocks(x * (np.float32(1) / scales)) + zeros, -128, 127)
    return QuantizedRows(np.where(empty, 0, codes), np.where(empty, np.float32(1), scales), zeros)


def round_in_blocks(v: Float32) -> Int:
    """Nearest integers of [rows, n], ties away from zero; in whole blocks the float below 1/2 gives 1."""
    nearest = fp.round_away(v)
    whole = v.shape[-1] - v.shape[-1] % ROUNDING_BLOCK
    half = np.where(v < 0, np.float32(-0.5), np.float32(0.5))
    nearest[..., :whole] = np.trunc(v + half)[..., :whole]
    return np.where(np.isnan(nearest), 0, nearest).astype(np.int64)
