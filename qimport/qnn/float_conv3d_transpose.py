"""``qnn.float_conv3d_transpose``: CONV_3D_TRANSPOSE of float32 tensors."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product

import numpy as np

from qimport.ir.check import require
from qimport.ir.graph import Call, operation
from qimport.qnn.float_conv3d import Triple
from qimport.qnn.float_weighted import OPTIMIZED, REFERENCE, FloatWeighted, Sums
from qimport.qnn.optimized_product import optimized_product
from qimport.summation import Float32


@operation
@dataclass(frozen=True)
class FloatConv3dTranspose(FloatWeighted):
    """Transposed convolution of floats: every input voxel adds a window to the result.

    Operands: x NDHWC, w [KD, KH, KW, O, C], bias [O] or None (counts as zeros). ``offset`` is how far the
    windows reach over the lower end of each dimension; what falls outside the result is dropped.

        y[n,d*sd+p-front,i*sh+r-top,j*sw+c-left,o] += x[n,d,i,j,:] . w[p,r,c,o,:]; then bias and activation

    reference   one product after the other, by input planes, rows, columns and channels; the bias is added
                last (``reference_ops::Conv3DTranspose``)
    builtin     the products of one image with all weights as Eigen sums them
                (:mod:`qimport.qnn.optimized_product`), then added by input planes, rows and columns; the bias
                last (``optimized_ops::Conv3DTranspose``)
    xnnpack     not delegated

    C1 float32; x, w and the result have rank 5. C2 w has x's channels, the result O channels and x's batch;
    strides are positive, offsets not negative. C3 bias is [O]. C4 the activation is one of the schema's.
    """

    NAME = "qnn.float_conv3d_transpose"
    ARM64_FLOATS = ()
    TFLITE = ("CONV_3D_TRANSPOSE",)
    WEIGHT_AXIS = 3

    stride: Triple = (1, 1, 1)
    offset: Triple = (0, 0, 0)
    activation: str = "NONE"

    def xnnpack_takes(self, call: Call) -> bool:
        """Never."""
        return False

    def verify_geometry(self, call: Call) -> int:
        """Check C2 and the ranks of C1; the channels of the result."""
        x, w, out = call.input(0), call.input(1), call.output
        require(len(x.shape) == len(w.shape) == len(out.shape) == 5, "C1", "ranks must be 5")
        fits = (w.shape[4], out.shape[4], out.shape[0]) == (x.shape[4], w.shape[3], x.shape[0])
        require(fits, "C2", f"{x} and {w} do not give {out}")
        positive = min(self.stride) > 0 and min(self.offset) >= 0
        require(positive, "C2", "strides must be positive, offsets not negative")
        return w.shape[3]

    def sums(self, call: Call) -> Sums:
        """See the class."""
        return REFERENCE if self.kernel_family(call) == "reference" else OPTIMIZED

    def products(self, call: Call, bias: Float32, sums: Sums) -> Float32:
        """One tap after the other: in the order of input voxels that is from the last to the first."""
        x: Float32 = call.array(0)
        w: Float32 = call.array(1)
        out, extent = call.output.shape, x.shape[1:4]
        ends = [
            max((n - 1) * s + k, first + size)
            for n, s, k, first, size in zip(
                extent, self.stride, w.shape[:3], self.offset, out[1:4], strict=True
            )
        ]
        canvas = np.zeros((x.shape[0], *ends, out[4]), np.float32)
        images = _image_products(x, w) if sums.optimized else None
        with np.errstate(all="ignore"):
            for tap in reversed(list(product(*map(range, w.shape[:3])))):
                steps = zip(tap, extent, self.stride, strict=True)
                seen = canvas[_all_images(slice(k, k + (n - 1) * s + 1, s) for k, n, s in steps)]
                if images is not None:
                    seen += images[(slice(None),) * 4 + tap]
                    continue
                for channel in range(x.shape[4]):
                    seen += x[..., channel, None] * w[tap][:, channel]
            cut = (slice(first, first + size) for first, size in zip(self.offset, out[1:4], strict=True))
            return np.asarray(canvas[_all_images(cut)] + bias)


def _all_images(place: Iterable[slice]) -> tuple[slice, ...]:
    """An index of planes, rows and columns, behind that of images."""
    return (slice(None), *place)


def _image_products(x: Float32, w: Float32) -> Float32:
    """[N, D, H, W, KD, KH, KW, O]: every voxel of every image times all weights."""
    depth = x.shape[4]
    matrix = np.ascontiguousarray(w.reshape(-1, depth).T)
    with np.errstate(all="ignore"):
        parts = [optimized_product(image.reshape(-1, depth), matrix) for image in x]
    return np.stack(parts).reshape(*x.shape[:4], *w.shape[:4])
