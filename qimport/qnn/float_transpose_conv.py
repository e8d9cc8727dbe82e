"""``qnn.float_transpose_conv``: TRANSPOSE_CONV of float32 tensors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qimport.ir.graph import Call, operation
from qimport.qnn.float_weighted import DELEGATE, OPTIMIZED, REFERENCE, FloatWeighted, Sums
from qimport.qnn.geometry import TransposeConvGeometry
from qimport.qnn.optimized_product import optimized_product
from qimport.summation import Float32, fused_multiply_add


@operation
@dataclass(frozen=True)
class FloatTransposeConv(TransposeConvGeometry, FloatWeighted):
    """Transposed convolution: TransposeConvGeometry of float32.

        y[n,i*sh+r-top,j*sw+c-left,o] += x[n,i,j,:] . w[o,r,c,:]; then the bias and the activation

    reference   one product after the other, by input rows, columns and channels; the bias is added last
                (``reference_ops::TransposeConv``)
    builtin     the products of one image with all weights as Eigen sums them
                (:mod:`qimport.qnn.optimized_product`), then added by input rows and columns; the bias last
                (``optimized_ops::TransposeConvV2``)
    xnnpack     fused multiply-adds from the bias on, by rows and columns of the window, then channels. The
                delegate flushes subnormal numbers to zero, which is not reproduced.

    C1 float32. C2 see TransposeConvGeometry. C3 bias is [O]. C4 the activation is one of the schema's.
    """

    NAME = "qnn.float_transpose_conv"
    ARM64_FLOATS = ()
    TFLITE = ("TRANSPOSE_CONV",)

    def sums(self, call: Call) -> Sums:
        """See the class."""
        return {"reference": REFERENCE, "builtin": OPTIMIZED, "xnnpack": DELEGATE}[self.kernel_family(call)]

    def products(self, call: Call, bias: Float32, sums: Sums) -> Float32:
        """One tap after the other: in the order of input pixels that is from the last to the first."""
        x: Float32 = call.array(0)
        w: Float32 = call.array(1)
        with np.errstate(all="ignore"):
            if sums.fused:
                return self._fused(x, w, bias, call)
            if sums.optimized:
                images = self._image_products(x, w)
                return self.add_windows(np.float32, lambda r, c: [images[:, :, :, r, c]], call) + bias

            def products(r: int, c: int) -> list[Float32]:
                return [x[..., k, None] * w[:, r, c, k] for k in range(x.shape[3])]

            return self.add_windows(np.float32, products, call) + bias

    def _fused(self, x: Float32, w: Float32, bias: Float32, call: Call) -> Float32:
        """Fused multiply-adds from the bias on, the first tap first."""
        total = np.array(np.broadcast_to(bias, self.canvas(call)), np.float32)
        for r, c in np.ndindex(*w.shape[1:3]):
            reached = total[self.reach(r, c, call)]
            for k in range(x.shape[3]):
                reached[...] = fused_multiply_add(x[..., k, None], w[:, r, c, k], reached)
        return self.cut(total, call)

    def _image_products(self, x: Float32, w: Float32) -> Float32:
        """[N, H, W, KH, KW, O]: every pixel of every image times all weights."""
        outputs, kh, kw, depth = w.shape
        matrix = w.transpose(3, 1, 2, 0).reshape(depth, -1)
        with np.errstate(all="ignore"):
            parts = [optimized_product(image.reshape(-1, depth), matrix) for image in x]
        return np.stack(parts).reshape(*x.shape[:3], kh, kw, outputs)
