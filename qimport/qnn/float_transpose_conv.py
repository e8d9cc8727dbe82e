"""``qnn.float_transpose_conv``: TRANSPOSE_CONV of float32 tensors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qimport.ir.check import require
from qimport.ir.graph import Call, operation
from qimport.qnn.float_weighted import DELEGATE, OPTIMIZED, REFERENCE, FloatWeighted, Sums
from qimport.qnn.optimized_product import optimized_product
from qimport.summation import Float32, fused_multiply_add


@operation
@dataclass(frozen=True)
class FloatTransposeConv(FloatWeighted):
    """Transposed convolution of floats: every input pixel adds a window to the result.

    Operands: x NHWC, w OHWI with I = C, bias [O] or None (counts as zeros). ``offset`` is how far the windows
    reach over the upper and left border; what falls outside the result is dropped.

        y[n,i*sh+r-top,j*sw+c-left,o] += x[n,i,j,:] . w[o,r,c,:]; then the bias and the activation

    reference   one product after the other, by input rows, columns and channels; the bias is added last
                (``reference_ops::TransposeConv``)
    builtin     the products of one image with all weights as Eigen sums them
                (:mod:`qimport.qnn.optimized_product`), then added by input rows and columns; the bias last
                (``optimized_ops::TransposeConvV2``)
    xnnpack     fused multiply-adds from the bias on, by rows and columns of the window, then channels. The
                delegate flushes subnormal numbers to zero, which is not reproduced.

    C1 float32; ranks are 4. C2 I = C, the result has O channels and x's batch; strides are positive, offsets
    not negative. C3 bias is [O]. C4 the activation is one of the schema's.

    ``constant_weights`` says that weights and bias are stored in the file and the window suits the delegate.
    """

    NAME = "qnn.float_transpose_conv"
    TFLITE = ("TRANSPOSE_CONV",)

    stride: tuple[int, int] = (1, 1)
    offset: tuple[int, int] = (0, 0)
    activation: str = "NONE"
    constant_weights: bool = True

    def verify(self, call: Call) -> None:
        """Check C1-C4."""
        x, w, out = call.input(0), call.input(1), call.output
        require(len(x.shape) == len(w.shape) == len(out.shape) == 4, "C1", "ranks must be 4")
        fits = w.shape[3] == x.shape[3] and out.shape[3] == w.shape[0] and out.shape[0] == x.shape[0]
        require(fits, "C2", f"{x} and {w} do not give {out}")
        positive = min(self.stride) > 0 and min(self.offset) >= 0
        require(positive, "C2", "strides must be positive, offsets not negative")
        self.verify_floats(call, w.shape[0])

    def sums(self, call: Call) -> Sums:
        """See the class."""
        return {"reference": REFERENCE, "builtin": OPTIMIZED, "xnnpack": DELEGATE}[self.kernel_family(call)]

    def products(self, call: Call, bias: Float32, sums: Sums) -> Float32:
        """One tap after the other: in the order of input pixels that is from the last to the first."""
        x: Float32 = call.array(0)
        w: Float32 = call.array(1)
        _, kh, kw, _ = w.shape
        taps = [(r, c) for r in range(kh) for c in range(kw)]
        canvas = self._canvas(call, bias if sums.bias_first else np.zeros_like(bias))
        images = self._image_products(x, w) if sums.optimized else None
        with np.errstate(all="ignore"):
            for r, c in taps if sums.fused else reversed(taps):
                seen = canvas[:, r : r + (x.shape[1] - 1) * self.stride[0] + 1 : self.stride[0],
                              c : c + (x.shape[2] - 1) * self.stride[1] + 1 : self.stride[1]]  # fmt: skip
                if images is not None:
                    seen += images[:, :, :, r, c]
                    continue
                for k in range(x.shape[3]):
                    left, right = x[..., k, None], w[:, r, c, k]
                    seen[...] = fused_multiply_add(left, right, seen) if sums.fused else seen + left * right
            (top, left_edge), (_, height, width, _) = self.offset, call.output.shape
            result = canvas[:, top : top + height, left_edge : left_edge + width]
            return np.asarray(result if sums.bias_first else result + bias)

    def _canvas(self, call: Call, start: Float32) -> Float32:
        """The result before it is cut off."""
        x, (_, kh, kw, _) = call.input(0), call.input(1).shape
        sizes = [
            max(
                (x.shape[1 + a] - 1) * self.stride[a] + (kh, kw)[a], self.offset[a] + call.output.shape[1 + a]
            )
            for a in (0, 1)
        ]
        shape = (x.shape[0], *sizes, call.output.shape[3])
        return np.array(np.broadcast_to(start, shape), np.float32)

    def _image_products(self, x: Float32, w: Float32) -> Float32:
        """[N, H, W, KH, KW, O]: every pixel of every image times all weights."""
        outputs, kh, kw, depth = w.shape
        matrix = w.transpose(3, 1, 2, 0).reshape(depth, -1)
        with np.errstate(all="ignore"):
            parts = [optimized_product(image.reshape(-1, depth), matrix) for image in x]
        return np.stack(parts).reshape(*x.shape[:3], kh, kw, outputs)
