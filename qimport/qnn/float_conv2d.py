"""``qnn.float_conv2d``: CONV_2D of float32 tensors."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from qimport.ir.graph import Call, operation
from qimport.qnn.float_weighted import DELEGATE, OPTIMIZED, REFERENCE, FloatWeighted, Sums, product
from qimport.qnn.geometry import Conv2dGeometry
from qimport.summation import Float32


@operation
@dataclass(frozen=True)
class FloatConv2d(Conv2dGeometry, FloatWeighted):
    """Two-dimensional convolution of floats, possibly in groups.

    Conv2dGeometry of float32; taps outside the image are products with 0, which no finite weight tells from
    no product.

        y[n,y,x,o] = activation(bias[o] + sum over rows, columns and channels of the window of x * w)

    reference   one product after the other, each rounded, each sum rounded; the bias is added last
                (``reference_ops::Conv``). Sums out of range become the largest number.
    builtin     as Eigen's matrix product of patches and weights sums them
                (:mod:`qimport.qnn.optimized_product`; measured without a difference); with groups as
                ``reference``
    xnnpack     fused multiply-adds in the order of ``reference``, starting from the bias (f32-gemm, f32-igemm
                for AVX-512); for groups of one input and one output channel and at most 25 taps columns come
                before rows (f32-dwconv). The delegate flushes subnormal numbers to zero, which is not
                reproduced.

    C1 float32. C2 see Conv2dGeometry. C3 bias is [O]. C4 the activation is one of the schema's.
    """

    NAME = "qnn.float_conv2d"
    ARM64_FLOATS = ()
    TFLITE = ("CONV_2D",)

    def sums(self, call: Call) -> Sums:
        """See the class."""
        family = self.kernel_family(call)
        if family == "xnnpack":
            return replace(DELEGATE, columns_first=self.is_depthwise(call))
        return OPTIMIZED if family == "builtin" and self.groups == 1 else REFERENCE

    def products(self, call: Call, bias: Float32, sums: Sums) -> Float32:
        """A matrix product of patches and weights per group."""
        w = call.array(1)
        outputs, kh, kw, depth = w.shape
        seen = self.patches(call.array(0), (kh, kw), call, sums.columns_first)
        axes = (2, 1, 3, 0) if sums.columns_first else (1, 2, 3, 0)
        matrix = w.transpose(axes).reshape(-1, outputs)
        size, found = outputs // self.groups, []
        for group in range(self.groups):
            mine = seen[..., group * depth : (group + 1) * depth].reshape(-1, kh * kw * depth)
            own = slice(group * size, (group + 1) * size)
            found.append(product(mine, matrix[:, own], bias[own], sums))
        return np.concatenate(found, axis=1).reshape(call.output.shape)
