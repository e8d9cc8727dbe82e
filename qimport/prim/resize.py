"""Primitives that read an image at other places than its pixels' own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

import numpy as np

from qimport.ir.check import require
from qimport.ir.graph import Array, Call, Operation, operation
from qimport.summation import INTEGRAL_BLENDS as INTEGRAL
from qimport.summation import Blend, blend


def _require_places(label: str, call: Call, position: int, extent: int, count: int) -> None:
    places = call.input(position)
    require(places.dtype == "int32" and places.shape == (count,), label, f"places must be int32[{count}]")
    if position < len(call.arrays) and call.arrays[position] is not None:
        known = np.asarray(call.array(position), np.int64)
        inside = (known >= 0) & (known < extent)
        require(bool(inside.all()), label, f"places leave an extent of {extent}")


@operation
@dataclass(frozen=True)
class Sample(Operation):
    """out[n, y, x, c] = image[n, rows[y], columns[x], c].

    Operands: image NHWC of any element type; rows int32[OH], columns int32[OW], constants inside the image.

    C1 ranks are 4, batch, channels and element type stay. C2 places as above.
    """

    NAME = "prim.sample"

    def verify(self, call: Call) -> None:
        """Check C1, C2."""
        _require_images(call)
        for position in (1, 2):
            _require_places("C2", call, position, call.input(0).shape[position], call.output.shape[position])

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """NumPy indexing."""
        return (call.array(0)[:, call.array(1)][:, :, call.array(2)],)


def _require_images(call: Call) -> None:
    x, out = call.input(0), call.output
    require(len(x.shape) == len(out.shape) == 4, "C1", "ranks must be 4")
    alike = (x.shape[0], x.shape[3], x.dtype) == (out.shape[0], out.shape[3], out.dtype)
    require(alike, "C1", "batch, channels or element type change")


@operation
@dataclass(frozen=True)
class Interpolate(Operation):
    """Four neighbours blended: tl, tr at rows top, bl, br at rows bottom, at columns left and right.

    Operands: image NHWC; top, bottom int32[OH], fy [OH]; left, right int32[OW], fx [OW]; constants. The
    weights are int32 for the integral blends of :func:`qimport.summation.blend`, float32 for the others.

    uint8 is converted to float32 for the others; the result plus 0.5 is truncated.

    C1 ranks are 4, batch, channels and element type stay. C2 places lie inside the image, weights as above.
    C3 the blend is one of those; integral ones are for 8 and 16 bits, the others for uint8 and float32.
    """

    NAME = "prim.interpolate"

    blend: Blend

    def verify(self, call: Call) -> None:
        """Check C1-C3."""
        require(self.blend in get_args(Blend), "C3", f"there is no blend {self.blend}")
        _require_images(call)
        x, out, integral = call.input(0), call.output, self.blend in INTEGRAL
        dtypes = ("int8", "uint8", "int16") if integral else ("uint8", "float32")
        require(x.dtype in dtypes, "C3", f"no blend {self.blend} of {x.dtype}")
        for axis, position in ((1, 1), (2, 4)):
            for k in (0, 1):
                _require_places("C2", call, position + k, x.shape[axis], out.shape[axis])
            weights = call.input(position + 2)
            wanted = "int32" if integral else "float32"
            require(
                weights.dtype == wanted and weights.shape == (out.shape[axis],), "C2", f"{wanted} weights"
            )

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """The docstring's formulas."""
        x, top, bottom, fy, left, right, fx = (call.array(i) for i in range(7))
        wide = x.astype(np.int64 if self.blend in INTEGRAL else np.float32)
        rows = [wide[:, places] for places in (top, bottom)]
        corners = [row[:, :, places] for row in rows for places in (left, right)]
        weights = [w.astype(wide.dtype)[shape] for w, shape in ((fy, _ROWS), (fx, _COLUMNS))]
        with np.errstate(all="ignore"):
            value = blend(self.blend, corners, weights[0], weights[1])
        if x.dtype == np.uint8 and self.blend not in INTEGRAL:
            value = np.trunc(value + np.float32(0.5))
        return (value.astype(x.dtype),)


_ROWS = (None, slice(None), None, None)
_COLUMNS = (None, None, slice(None), None)
