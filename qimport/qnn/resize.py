"""``qnn.resize_bilinear`` and ``qnn.resize_nearest_neighbor``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from qimport.fixedpoint import round_away
from qimport.ir.check import require
from qimport.ir.graph import Array, Call, operation
from qimport.qnn.base import QnnOperation
from qimport.qnn.checks import EIGHT_BIT
from qimport.qnn.requantization import is_plain_8bit
from qimport.summation import INTEGRAL_BLENDS, Blend, blend, fused_multiply_add

Int32 = npt.NDArray[np.int32]

ONE = np.float32(1)
HALF = np.float32(0.5)


@dataclass(frozen=True, eq=False)
class Line:
    """For every result along a dimension: its two neighbours, and how far it is from the first."""

    first: Int32
    second: Int32
    weight: Array


class Resize(QnnOperation):
    """Operand x NHWC; the result's shape says the new size.

    C1 ranks are 4; batch, channels and element type stay. C2 the element type has a kernel. C3 not both
    ``align_corners`` and ``half_pixel_centers``.
    """

    RANKED = True

    align_corners: bool
    half_pixel_centers: bool
    DTYPES: ClassVar[tuple[str, ...]]

    def verify(self, call: Call) -> None:
        """Check C1-C3."""
        x, out = call.input(0), call.output
        require(len(x.shape) == len(out.shape) == 4, "C1", "ranks must be 4")
        alike = (x.shape[0], x.shape[3], x.dtype) == (out.shape[0], out.shape[3], out.dtype)
        require(alike and x.size > 0, "C1", "batch, channels or element type change")
        require(x.dtype in self.DTYPES, "C2", f"no kernel resizes {x.dtype}")
        require(
            not (self.align_corners and self.half_pixel_centers),
            "C3",
            "the two alignments exclude each other",
        )

    def aligned(self, count: int) -> bool:
        """Whether the ends of a dimension of ``count`` results fall together."""
        return self.align_corners and count > 1

    def scale(self, extent: int, count: int) -> Any:
        """Pixels per result as float32."""
        lost = 1 if self.aligned(count) else 0
        return np.float32(np.float32(extent - lost) / np.float32(count - lost))


@operation
@dataclass(frozen=True)
class ResizeNearestNeighbor(Resize):
    """out[n, y, x, c] = x[n, r(y), r(x), c], the same in all modes.

        p = float32((i + (half_pixel_centers ? 0.5 : 0)) * scale)
        r = clamp(align_corners ? round_away(p) : floor(p), 0, extent - 1)

    with scale = extent / count, or (extent - 1) / (count - 1) if corners align and count > 1. The constraints
    are those of :class:`Resize`.
    """

    NAME = "qnn.resize_nearest_neighbor"
    TFLITE = ("RESIZE_NEAREST_NEIGHBOR",)
    DTYPES = ("int8", "uint8", "int16", "int32", "uint32", "float32", "float16", "bool")

    align_corners: bool = False
    half_pixel_centers: bool = False

    def places(self, extent: int, count: int) -> Int32:
        """r of the docstring."""
        shifted = np.arange(count).astype(np.float32) + (HALF if self.half_pixel_centers else np.float32(0))
        p = shifted * self.scale(extent, count)
        nearest = round_away(p) if self.align_corners else np.floor(p)
        return np.asarray(np.clip(nearest, 0, extent - 1), np.int32)

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """The docstring's formula."""
        x, shape = call.array(0), call.output.shape
        rows, columns = (self.places(x.shape[axis], shape[axis]) for axis in (1, 2))
        return (x[:, rows][:, :, columns],)


@operation
@dataclass(frozen=True)
class ResizeBilinear(Resize):
    """Every result lies between four pixels, which are blended as :meth:`rule` says.

    int8 and int16, without delegate: positions and weights in units of 2^-10

        s = (1024 * extent + count / 2) / count; aligned: the same of extent - 1 and count - 1
        p = i * s, or i * s + s / 2 - 512 with half_pixel_centers; low = max(p / 1024, 0),
        high = min((p + 1023) / 1024, extent - 1), weight p - 1024 * low, divisions toward zero     tenth_bits

    uint8 and float32, without delegate, in float32: p = i * s, or (i + 0.5) * s - 0.5; low =
    max(floor(p), 0), high = min(ceil(p), extent - 1), weight p - low. reference: ``terms``. builtin:
    ``weights``; float32 to twice the size in both dimensions without alignment: ``quarters``. uint8 adds 0.5
    and truncates.

    xnnpack (8 bits, float32): p = clamp(i * s + (0.5 * s - 0.5) or i * s, 0, extent - 1); low = trunc(p),
    high = min(low + 1, extent - 1), weight p - low; 8 bits: round_even(2048 * weight) and ``eleventh_bits``,
    float32: ``steps``.

    On ARM products and sums are fused: ``fused_weights``, ``fused_steps``, and (i + 0.5) * s - 0.5 above.

    :func:`qimport.summation.blend` has the blends. The constraints are those of :class:`Resize`.
    """

    NAME = "qnn.resize_bilinear"
    ARM64_FLOATS = ("xnnpack",)
    TFLITE = ("RESIZE_BILINEAR",)
    DTYPES = ("int8", "uint8", "int16", "float32")

    align_corners: bool = False
    half_pixel_centers: bool = False

    def xnnpack_takes(self, call: Call) -> bool:
        """float32, and 8 bits with one scale each and no quantized dimension."""
        x = call.input(0)
        return x.dtype == "float32" or (is_plain_8bit(x) and is_plain_8bit(call.output))

    def rule(self, call: Call) -> Blend:
        """How neighbours are blended."""
        x, family = call.input(0), self.kernel_family(call)
        if family == "xnnpack":
            steps: Blend = "fused_steps" if call.mode.arm64 else "steps"
            return "eleventh_bits" if x.dtype in EIGHT_BIT else steps
        if x.dtype in ("int8", "int16"):
            return "tenth_bits"
        if family == "reference":
            return "terms"
        twice = call.output.shape[1:3] == (2 * x.shape[1], 2 * x.shape[2])
        plain = not (self.align_corners or self.half_pixel_centers)
        if x.dtype == "float32" and twice and plain:
            return "quarters"
        return "fused_weights" if call.mode.arm64 else "weights"

    def line(self, call: Call, axis: int) -> Line:
        """Neighbours and weights along a dimension (1: rows, 2: columns)."""
        extent, count, rule = call.input(0).shape[axis], call.output.shape[axis], self.rule(call)
        if rule == "tenth_bits":
            return self._integral(extent, count)
        if rule in ("eleventh_bits", "steps", "fused_steps"):
            return self._delegated(extent, count, rule)
        steps = np.arange(count).astype(np.float32)
        scale = self.scale(extent, count)
        if not self.half_pixel_centers:
            p = steps * scale
        elif call.mode.arm64:
            p = fused_multiply_add(steps + HALF, scale, -HALF)
        else:
            p = (steps + HALF) * scale - HALF
        low, high = np.maximum(np.floor(p), 0), np.minimum(np.ceil(p), extent - 1)
        return Line(low.astype(np.int32), high.astype(np.int32), p - low.astype(np.float32))

    def _integral(self, extent: int, count: int) -> Line:
        lost = 1 if self.aligned(count) else 0
        scale = (1024 * (extent - lost) + (count - lost) // 2) // (count - lost)
        p = np.arange(count) * scale + (scale // 2 - 512 if self.half_pixel_centers else 0)
        low = np.maximum(np.trunc(p / 1024).astype(np.int64), 0)
        high = np.minimum(np.trunc((p + 1023) / 1024).astype(np.int64), extent - 1)
        return Line(low.astype(np.int32), high.astype(np.int32), (p - 1024 * low).astype(np.int32))

    def _delegated(self, extent: int, count: int, rule: Blend) -> Line:
        scale = self.scale(extent, count)
        p = np.arange(count).astype(np.float32) * scale
        if self.half_pixel_centers:
            p = p + (HALF * scale - HALF)
        p = np.clip(p, np.float32(0), np.float32(extent - 1))
        low = np.trunc(p)
        weight = p - low
        if rule == "eleventh_bits":
            weight = np.rint(weight * np.float32(2048)).astype(np.int32)
        high = np.minimum(low + ONE, extent - 1)
        return Line(low.astype(np.int32), high.astype(np.int32), weight)

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """The docstring's formulas."""
        x, rule = call.array(0), self.rule(call)
        integral = rule in INTEGRAL_BLENDS
        rows, columns = self.line(call, 1), self.line(call, 2)
        wide = x.astype(np.int64 if integral else np.float32)
        upper, lower = wide[:, rows.first], wide[:, rows.second]
        corners = [row[:, :, places] for row in (upper, lower) for places in (columns.first, columns.second)]
        fy = rows.weight.astype(wide.dtype)[None, :, None, None]
        fx = columns.weight.astype(wide.dtype)[None, None, :, None]
        with np.errstate(all="ignore"):
            value = blend(rule, corners, fy, fx)
        if x.dtype == np.uint8 and not integral:
            value = np.trunc(value + HALF)
        return (value.astype(x.dtype),)
