"""``qnn.float_depthwise_conv2d``: DEPTHWISE_CONV_2D of float32 tensors."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from qimport.ir.check import require
from qimport.ir.graph import Call, operation
from qimport.qnn.convolution import DEPTHWISE_TAPS, Padding, has_bias, verify_window
from qimport.qnn.float_weighted import BIAS_FIRST, DELEGATE, REFERENCE, FloatWeighted, Sums, patches
from qimport.summation import Float32, fused_multiply_add


@operation
@dataclass(frozen=True)
class FloatDepthwiseConv2d(FloatWeighted):
    """Depthwise convolution of floats with a depth multiplier m.

    Operands: x NHWC, w [1, KH, KW, C * m], bias [C * m] or None (counts as zeros). Output channel c * m + j
    reads input channel c. ``padding`` is ((top, bottom), (left, right)); taps outside the image are products
    with 0, which no finite weight tells from no product.

        y[n,y,x,c*m+j] = activation(bias[c*m+j] + sum over rows and columns of x[..., c] * w[..., c*m+j])

    reference   one product after the other, each rounded, each sum rounded; the bias is added last
                (``reference_ops::DepthwiseConv``). Sums out of range become the largest number.
    builtin     the same, but starting from the bias (``optimized_ops::DepthwiseConvImpl``)
    xnnpack     fused multiply-adds, starting from the bias; with m = 1 and at most 25 taps columns come
                before rows (f32-dwconv), otherwise rows before columns (f32-igemm). The delegate flushes
                subnormal numbers to zero, which is not reproduced.

    C1 float32; ranks are 4; w has extent 1 in front. C2 the result shape follows from window, stride,
    dilation, padding and C * m. C3 bias is [C * m]. C4 the activation is one of the schema's.

    ``constant_weights`` says that weights and bias are stored in the file, which the delegate asks for.
    """

    NAME = "qnn.float_depthwise_conv2d"
    TFLITE = ("DEPTHWISE_CONV_2D",)

    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    padding: Padding = ((0, 0), (0, 0))
    activation: str = "NONE"
    constant_weights: bool = True

    def verify(self, call: Call) -> None:
        """Check C1-C4."""
        x, w, out = call.input(0), call.input(1), call.output
        require(len(x.shape) == len(w.shape) == len(out.shape) == 4, "C1", "ranks must be 4")
        one, kh, kw, outputs = w.shape
        require(one == 1, "C1", "the weights must have extent 1 in front")
        verify_window(call, (kh, kw), self.stride, self.dilation, self.padding)
        fits = outputs % x.shape[3] == 0 and out.shape[3] == outputs
        require(fits, "C2", f"{outputs} output channels are no multiple of {x.shape[3]} input channels")
        self.verify_floats(call, outputs)

    def sums(self, call: Call) -> Sums:
        """See the class."""
        family = self.kernel_family(call)
        if family != "xnnpack":
            return BIAS_FIRST if family == "builtin" else REFERENCE
        _, kh, kw, outputs = call.input(1).shape
        single = outputs == call.input(0).shape[3] and kh * kw <= DEPTHWISE_TAPS
        return replace(DELEGATE, columns_first=single)

    def unsupported(self, call: Call) -> str | None:
        """Where the optimized kernel would read a bias that is absent."""
        if self.kernel_family(call) == "builtin" and not has_bias(call):
            return "there is no bias; the interpreter's optimized kernel crashes without one"
        return None

    def products(self, call: Call, bias: Float32, sums: Sums) -> Float32:
        """One tap after the other."""
        x, w = call.array(0), call.array(1)
        _, kh, kw, outputs = w.shape
        seen = patches(x, (kh, kw), self.stride, self.dilation, self.padding, sums.columns_first)
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
