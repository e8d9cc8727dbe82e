"""``qnn.float_conv3d``: CONV_3D of float32 tensors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from qimport.ir.check import require
from qimport.ir.graph import Call, operation
from qimport.qnn.float_weighted import BIAS_FIRST, REFERENCE, FloatWeighted, Sums
from qimport.summation import Float32, matrix_product

Triple = tuple[int, int, int]
Padding3 = tuple[tuple[int, int], tuple[int, int], tuple[int, int]]


@operation
@dataclass(frozen=True)
class FloatConv3d(FloatWeighted):
    """Convolution of floats over depth, height and width.

    Operands: x NDHWC, w [KD, KH, KW, C, O], bias [O] or None (counts as zeros). ``padding`` is a pair per
    dimension; taps outside are products with 0, which no finite weight tells from no product.

        y[n,d,y,x,o] = activation(bias[o] + sum of x * w over planes, rows, columns, channels of the window)

    reference   one product after the other, each rounded, each sum rounded; the bias is added last
                (``reference_ops::Conv3D``)
    builtin     fused multiply-adds in the same order, starting from the bias (``optimized_ops::Conv3D`` as
                it runs with AVX-512; measured without a difference)
    xnnpack     not delegated

    C1 float32; x, w and the result have rank 5. C2 the result follows from window, stride, dilation, padding
    and O; w has x's channels. C3 bias is [O]. C4 the activation is one of the schema's.
    """

    NAME = "qnn.float_conv3d"
    ARM64_FLOATS = ()
    TFLITE = ("CONV_3D",)
    WEIGHT_AXIS = 4

    stride: Triple = (1, 1, 1)
    dilation: Triple = (1, 1, 1)
    padding: Padding3 = ((0, 0), (0, 0), (0, 0))
    activation: str = "NONE"

    def xnnpack_takes(self, call: Call) -> bool:
        """Never."""
        return False

    def verify_geometry(self, call: Call) -> int:
        """Check C2 and the ranks of C1; the channels of the result."""
        x, w, out = call.input(0), call.input(1), call.output
        require(len(x.shape) == len(w.shape) == len(out.shape) == 5, "C1", "ranks must be 5")
        positive = min(*self.stride, *self.dilation) > 0 and min(map(min, self.padding)) >= 0
        require(positive, "C2", "strides and dilations must be positive, padding not negative")
        require(w.shape[3] == x.shape[4], "C2", f"{w} does not fit {x.shape[4]} channels")
        wanted = (x.shape[0], *self._extent(x.shape[1:4], w.shape[:3]), w.shape[4])
        require(min(wanted) > 0 and out.shape == wanted, "C2", f"the result must have shape {wanted}")
        return w.shape[4]

    def _extent(self, sizes: tuple[int, ...], window: tuple[int, ...]) -> tuple[int, ...]:
        rooms = zip(sizes, window, self.stride, self.dilation, self.padding, strict=True)
        return tuple((n + sum(pad) - (k - 1) * d - 1) // s + 1 for n, k, s, d, pad in rooms)

    def sums(self, call: Call) -> Sums:
        """See the class."""
        return REFERENCE if self.kernel_family(call) == "reference" else replace(BIAS_FIRST, fused=True)

    def products(self, call: Call, bias: Float32, sums: Sums) -> Float32:
        """A matrix product of patches and weights."""
        w: Float32 = call.array(1)
        padded = np.pad(call.array(0), ((0, 0), *self.padding, (0, 0)))
        spans = [self.span(tap, call.output.shape[1:4]) for tap in product(*map(range, w.shape[:3]))]
        patches = np.stack([padded[:, d, y, x] for d, y, x in spans], axis=4)
        outputs = w.shape[4]
        start = bias if sums.bias_first else np.zeros_like(bias)
        matrix, weights = patches.reshape(-1, w.size // outputs), w.reshape(-1, outputs)
        found = matrix_product(matrix, weights, start, fused=sums.fused)
        with np.errstate(all="ignore"):
            return np.asarray(found if sums.bias_first else found + bias).reshape(call.output.shape)

    def span(self, tap: tuple[int, ...], extent: tuple[int, ...]) -> tuple[slice, ...]:
        """Which planes, rows and columns of the padded x one tap of all windows sees."""
        steps = zip(tap, extent, self.stride, self.dilation, strict=True)
        return tuple(slice(k * d, k * d + (n - 1) * s + 1, s) for k, n, s, d in steps)
