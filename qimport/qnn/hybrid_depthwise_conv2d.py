"""``qnn.hybrid_depthwise_conv2d``: DEPTHWISE_CONV_2D of float activations and int8 weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from qimport.fixedpoint import Int
from qimport.ir.check import require
from qimport.ir.graph import Call, operation
from qimport.qnn.convolution import Padding, has_bias, verify_window, window_taps
from qimport.qnn.dynamic_quantization import DynamicKind
from qimport.qnn.hybrid import HybridOperation, ScaleOrder

BLOCK = 4
"""Output channels the optimized kernel scales at a time."""


@operation
@dataclass(frozen=True)
class HybridDepthwiseConv2d(HybridOperation):
    """Depthwise convolution of floats with int8 weights ("dynamic range quantization").

    Operands: x float32 NHWC, w int8 [1, KH, KW, C * m], bias float32[C * m] or None (counts as zeros). Output
    channel c * m + j reads input channel c. ``padding`` is ((top, bottom), (left, right)); taps outside the
    image contribute zero.

        acc[n,y,x,o] = wrap32(sum (code(x) - zero_point) * w), images quantized on the fly, asymmetric
        y[n,y,x,o]   = activation(acc * s_x * s_w[o] + bias[o])

    reference         f32(acc * f32(s_x * s_w)) + bias (``EvalHybridPerChannel`` in depthwise_conv.cc)
    builtin, xnnpack  whole blocks of 4 output channels f32(f32(acc * s_w) * s_x) + bias, the channels left
                      over f32(f32(acc * s_x) * s_w) + bias; the delegate takes none of these

    See :mod:`qimport.qnn.dynamic_quantization`. C1 x and the result are float32, w is int8; ranks are 4; w
    has extent 1 in front. C2 the result shape follows from window, stride, dilation, padding and C * m. C3 w
    has one scale or C * m. C4 bias is float32[C * m]. C5 the activation is one of the
    schema's.
    """

    NAME = "qnn.hybrid_depthwise_conv2d"
    TFLITE = ("DEPTHWISE_CONV_2D",)
    WEIGHT_AXIS = 3

    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    padding: Padding = ((0, 0), (0, 0))
    activation: str = "NONE"

    def verify(self, call: Call) -> None:
        """Check C1-C5."""
        x, w, out = call.input(0), call.input(1), call.output
        require(len(x.shape) == len(w.shape) == len(out.shape) == 4, "C1", "ranks must be 4")
        one, kh, kw, outputs = w.shape
        require(one == 1 and w.dtype == "int8", "C1", "the weights must be int8 with extent 1 in front")
        verify_window(call, (kh, kw), self.stride, self.dilation, self.padding)
        fits = outputs % x.shape[3] == 0 and out.shape[3] == outputs
        require(fits, "C2", f"{outputs} output channels are no multiple of {x.shape[3]} input channels")
        self.verify_hybrid(call, outputs)

    def xnnpack_takes(self, call: Call) -> bool:
        """Never."""
        return False

    def unsupported(self, call: Call) -> str | None:
        """Where the optimized kernel would read a bias that is absent."""
        if self.kernel_family(call) == "builtin" and not has_bias(call):
            return "there is no bias; the interpreter's optimized kernel crashes without one"
        return None

    def dynamic_kind(self, call: Call) -> DynamicKind:
        """See the class."""
        return "asymmetric"

    def row_size(self, call: Call) -> int:
        """An image."""
        x = call.input(0)
        return x.size // x.shape[0]

    def scale_orders(self, call: Call) -> tuple[ScaleOrder, ScaleOrder | None, int]:
        """See the class."""
        if self.kernel_family(call) == "reference":
            return "together", None, 0
        channels = call.output.shape[3]
        return "weights_first", "input_first", channels // BLOCK * BLOCK

    def accumulate(self, x: Int, w: Int, call: Call) -> npt.NDArray[np.float64]:
        """One elementwise product per tap."""
        _, kh, kw, outputs = w.shape
        acc = np.zeros(call.output.shape)
        extent = (acc.shape[1], acc.shape[2])
        repeated = np.repeat(x.astype(np.float64), outputs // x.shape[3], axis=3)
        taps = window_taps(repeated, (kh, kw), self.stride, self.dilation, self.padding, extent)
        for row, column, seen in taps:
            acc += seen * w[0, row, column]
        return acc
