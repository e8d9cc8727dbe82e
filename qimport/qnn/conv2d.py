"""``qnn.conv2d``: the CONV_2D operator."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from qimport.fixedpoint import Int, Rounding
from qimport.ir.check import require
from qimport.ir.graph import Call, operation
from qimport.qnn.convolution import DEPTHWISE_TAPS, Padding, WeightedOperation, verify_window, window_taps


@operation
@dataclass(frozen=True)
class Conv2d(WeightedOperation):
    """Two-dimensional convolution, possibly in groups.

    Operands: x NHWC, w OHWI with I = C / groups, bias int32[O] or None (counts as zeros). ``padding`` is
    ((top, bottom), (left, right)); taps outside the image contribute zero.

        acc[n,y,x,o] = bias[o] + sum (x - z_x) * (w - z_w), modulo 2^32 (int64 bias: 2^64)
        code         = clamp(rescale(acc, s_x * s_w[o] / s_out) + z_out, low, high)

    reference   s_x * s_w / s_out in float64 (uint8: s_x * s_w rounded to float32), rescale ``double_away``
                (``reference_integer_ops::ConvPerChannel``, ``reference_ops::Conv``)
    builtin     the same scales; ``double_up`` (ruy), with groups ``double_away`` (the reference kernel runs).
                Ruy rounds so on CPUs with AVX; without AVX its portable path rounds once.
    int64 bias  ``single_up`` in both (``reference_integer_ops::ConvPerChannel``, 16x8)
    xnnpack     every step of the scale in float32, ``float32_even``, bounds as XNNPACK rounds them; requires
                every effective scale < 256, and several bias scales exactly with several weight scales

    C1 x and the result are int8, int16 or uint8; w is uint8 beside uint8, otherwise int8 or int4; ranks are
    4. C2 the result shape follows from window, stride, dilation, padding and O; I * groups = C and groups
    divides O. C3 x and the result have one scale; w has one, or, unless it is uint8, one per output channel;
    only uint8 weights have zero points, and no int16 tensor. C4 bias is int32[O], or int64[O] beside int16,
    with zero point 0. C5 the activation is one of the schema's.

    ``constant_weights`` says that weights and bias are stored in the file, which the delegate asks for.
    """

    NAME = "qnn.conv2d"
    TFLITE = ("CONV_2D",)
    WEIGHT_AXIS = 0

    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    padding: Padding = ((0, 0), (0, 0))
    groups: int = 1
    activation: str = "NONE"
    constant_weights: bool = True

    def verify(self, call: Call) -> None:
        """Check C1-C5."""
        x, w, out = call.input(0), call.input(1), call.output
        require(len(x.shape) == len(w.shape) == len(out.shape) == 4, "C1", "ranks must be 4")
        outputs, kh, kw, depth = w.shape
        verify_window(call, (kh, kw), self.stride, self.dilation, self.padding)
        fits = self.groups > 0 and depth * self.groups == x.shape[3] and outputs % self.groups == 0
        require(fits and out.shape[3] == outputs, "C2", f"{self.groups} groups do not fit {w}")
        self.verify_weights(call, outputs)
        zero_free = w.dtype == "uint8" or not any(w.quant.zero_points)
        require(zero_free, "C3", f"{w.dtype} weights must have zero points 0")

    def classic_rounding(self, call: Call) -> tuple[Rounding, Rounding | None, int]:
        """See the class."""
        if self.accumulator(call) == "int64":
            return "single_up", None, 0
        ruy = self.kernel_family(call) == "builtin" and self.groups == 1
        return "double_up" if ruy else "double_away", None, 0

    def is_depthwise(self, call: Call) -> bool:
        """See there."""
        outputs, kh, kw, depth = call.input(1).shape
        return outputs == self.groups and depth == 1 and kh * kw <= DEPTHWISE_TAPS

    def accumulate(self, x: Int, w: Int, call: Call) -> npt.NDArray[np.float64]:
        """One matrix product per tap and group."""
        outputs, kh, kw, depth = w.shape
        per_group = outputs // self.groups
        acc = np.zeros(call.output.shape)
        extent = (acc.shape[1], acc.shape[2])
        weights = w.astype(np.float64)
        taps = window_taps(x.astype(np.float64), (kh, kw), self.stride, self.dilation, self.padding, extent)
        for row, column, seen in taps:
            for g in range(self.groups):
                o = slice(g * per_group, (g + 1) * per_group)
                i = slice(g * depth, (g + 1) * depth)
                acc[..., o] += seen[..., i] @ weights[o, row, column].T
        return acc
