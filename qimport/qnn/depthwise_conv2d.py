"""``qnn.depthwise_conv2d``: the DEPTHWISE_CONV_2D operator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from qimport.fixedpoint import Int, Rounding
from qimport.ir.check import require
from qimport.ir.graph import Call, operation
from qimport.qnn.convolution import (
    DEPTHWISE_TAPS,
    Padding,
    WeightedOperation,
    has_bias,
    verify_window,
    window_taps,
)

BLOCK = 8
"""Output channels the optimized int8 kernel rounds at a time."""


@operation
@dataclass(frozen=True)
class DepthwiseConv2d(WeightedOperation):
    """Depthwise convolution with a depth multiplier m.

    Operands: x NHWC, w [1, KH, KW, C * m], bias int32[C * m] or None (counts as zeros). Output channel
    c * m + j reads input channel c. ``padding`` is ((top, bottom), (left, right)); taps outside the image
    contribute zero.

        acc[n,y,x,c*m+j] = bias[c*m+j] + sum (x[..., c] - z_x) * (w[..., c*m+j] - z_w)
        acc              = acc modulo 2^32 (int16: 2^64)
        code             = clamp(rescale(acc, s_x * s_w[c*m+j] / s_out) + z_out, low, high)

    reference   s_x * s_w / s_out in float64 (uint8: s_x * s_w rounded to float32), rescale ``double_away``
                (``reference_integer_ops::DepthwiseConvPerChannel``, ``reference_ops::DepthwiseConv``)
    builtin     the same scales; uint8 ``double_away``; int8 ``double_up`` in whole blocks of 8 output
                channels and ``double_away`` in those left over (the vectorized loop and its tail); requires
                a bias
    int16       ``single_up`` in both (``reference_integer_ops::DepthwiseConvPerChannel``, 16x8)
    xnnpack     every step of the scale in float32, ``float32_even``, bounds as XNNPACK rounds them; requires
                every effective scale < 256, and several bias scales exactly with several weight
                scales; uint8 only if the weights' record names dimension 0

    C1 x and the result are int8, int16 or uint8; w is uint8 beside uint8, int8 or int4
    beside int8, int8 beside int16; ranks are 4; w has extent 1 in front. C2 the result shape
    follows from window, stride, dilation, padding and C * m. C3 x and the result have one scale; w has one,
    or, unless it is uint8, one per output channel; only uint8 weights have zero points, and no int16 tensor.
    C4 bias is int32[C * m], int64[C * m] beside int16, with zero point 0. C5 the activation is one of the
    schema's.

    ``constant_weights`` says that weights and bias are stored in the file, which the delegate asks for.
    """

    NAME = "qnn.depthwise_conv2d"
    TFLITE = ("DEPTHWISE_CONV_2D",)
    WEIGHT_AXIS = 3
    WEIGHT_TYPES: ClassVar = {**WeightedOperation.WEIGHT_TYPES, "int16": ("int8",)}

    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    padding: Padding = ((0, 0), (0, 0))
    activation: str = "NONE"
    constant_weights: bool = True

    def verify(self, call: Call) -> None:
        """Check C1-C5."""
        x, w, out = call.input(0), call.input(1), call.output
        require(len(x.shape) == len(w.shape) == len(out.shape) == 4, "C1", "ranks must be 4")
        one, kh, kw, outputs = w.shape
        require(one == 1, "C1", "the weights must have extent 1 in front")
        verify_window(call, (kh, kw), self.stride, self.dilation, self.padding)
        fits = outputs % x.shape[3] == 0 and out.shape[3] == outputs
        require(fits, "C2", f"{outputs} output channels are no multiple of {x.shape[3]} input channels")
        self.verify_weights(call, outputs)
        zero_free = w.dtype == "uint8" or not any(w.quant.zero_points)
        require(zero_free, "C3", f"{w.dtype} weights must have zero points 0")
        wide = x.dtype != "int16" or self.accumulator(call) == "int64"
        require(wide, "C4", "the bias beside int16 must be int64")

    def classic_rounding(self, call: Call) -> tuple[Rounding, Rounding | None, int]:
        """See the class."""
        if self.accumulator(call) == "int64":
            return "single_up", None, 0
        blocked = self.kernel_family(call) == "builtin" and call.input(0).dtype == "int8"
        channels = call.output.shape[3]
        whole = channels - channels % BLOCK if blocked else 0
        if whole == 0:
            return "double_away", None, 0
        return ("double_up", None, 0) if whole == channels else ("double_up", "double_away", whole)

    def is_depthwise(self, call: Call) -> bool:
        """Not with a depth multiplier."""
        _, kh, kw, outputs = call.input(1).shape
        return outputs == call.input(0).shape[3] and kh * kw <= DEPTHWISE_TAPS

    def unsupported(self, call: Call) -> str | None:
        """As there, and where the optimized kernel would read a bias that is absent."""
        optimized = self.kernel_family(call) == "builtin" and call.input(0).dtype != "int16"
        if optimized and not has_bias(call):
            return "there is no bias; the interpreter's optimized kernel crashes without one"
        return super().unsupported(call)

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
