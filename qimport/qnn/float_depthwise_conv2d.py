"""``qnn.float_depthwise_conv2d``: DEPTHWISE_CONV_2D of float32 tensors."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from qimport.ir.graph import Call, operation
from qimport.qnn.float_weighted import BIAS_FIRST, DELEGATE, REFERENCE, FloatWeighted, Sums
from qimport.qnn.geometry import DepthwiseGeometry
from qimport.summation import Float32, fused_multiply_add


@operation
@dataclass(frozen=True)
class FloatDepthwiseConv2d(DepthwiseGeometry, FloatWeighted):
    """Depthwise convolution of floats with a depth multiplier m.

    DepthwiseGeometry of float32; taps outside the image are products with 0, which no finite weight tells
    from no product.

        y[n,y,x,c*m+j] = activation(bias[c*m+j] + sum over rows and columns of x[..., c] * w[..., c*m+j])

    reference   one product after the other, each rounded, each sum rounded; the bias is added last
                (``reference_ops::DepthwiseConv``). Sums out of range become the largest number.
    builtin     the same, but starting from the bias (``optimized_ops::DepthwiseConvImpl``)
    xnnpack     fused multiply-adds, starting from the bias; with m = 1 and at most 25 taps columns come
                before rows (f32-dwconv), otherwise rows before columns (f32-igemm). The delegate flushes
                subnormal numbers to zero, which is not reproduced.

    C1 float32. C2 see DepthwiseGeometry. C3 bias is [C * m]. C4 the activation is one of the schema's.

    ``constant_weights`` says that weights and bias are stored in the file, which the delegate asks for.
    """

    NAME = "qnn.float_depthwise_conv2d"
    ARM64_FLOATS = ()
    TFLITE = ("DEPTHWISE_CONV_2D",)

    constant_weights: bool = True

    def sums(self, call: Call) -> Sums:
        """See the class."""
        family = self.kernel_family(call)
        if family != "xnnpack":
            return BIAS_FIRST if family == "builtin" else REFERENCE
        return replace(DELEGATE, columns_first=self.is_depthwise(call))

    def products(self, call: Call, bias: Float32, sums: Sums) -> Float32:
        """One tap after the other."""
        x, w = call.array(0), call.array(1)
        _, kh, kw, outputs = w.shape
        seen = self.patches(x, (kh, kw), call, sums.columns_first)
        seen = np.repeat(seen, outputs // x.shape[3], axis=4)
        order = (2, 1, 0) if sums.columns_first else (1, 2, 0)
        weights = w.transpose(*order, 3).reshape(kh * kw, outputs)
        total = np.zeros(call.output.shape, np.float32)
        with np.errstate(all="ignore"):
            if sums.bias_first:
                total = total + bias
            for tap in range(kh * kw):
                if sums.fused:
                    total = fused_multiply_add(seen[..., tap, :], weights[tap], total)
                else:
                    total = total + seen[..., tap, :] * weights[tap]
            return total if sums.bias_first else total + bias
