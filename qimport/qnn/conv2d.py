"""``qnn.conv2d``: the CONV_2D operator."""

from __future__ import annotations

from dataclasses import dataclass

from qimport.fixedpoint import Rounding
from qimport.ir.graph import Call, operation
from qimport.qnn.geometry import Conv2dGeometry
from qimport.qnn.requantization import matrix_rounding
from qimport.qnn.weighted import WeightedOperation


@operation
@dataclass(frozen=True)
class Conv2d(Conv2dGeometry, WeightedOperation):
    """Two-dimensional convolution, possibly in groups: Conv2dGeometry of integers.

        acc[n,y,x,o] = bias[o] + sum (x - z_x) * (w - z_w), modulo 2^32 (int64 bias: 2^64)
        code         = clamp(rescale(acc, s_x * s_w[o] / s_out) + z_out, low, high)

    reference   s_x * s_w / s_out in float64 (uint8: s_x * s_w rounded to float32), rescale ``double_away``
                (``reference_integer_ops::ConvPerChannel``, ``reference_ops::Conv``)
    builtin     the same scales; ``double_up`` (ruy), with groups ``double_away`` (the reference kernel runs).
                Ruy rounds so on CPUs with AVX; without AVX its portable path rounds once. builtin-arm64:
                ``exact_up`` in place of ``double_up``, but for one pixel with at least 4 channels of at least
                8 products each; int16 only with scales under 1
    int64 bias  ``single_up`` in both (``reference_integer_ops::ConvPerChannel``, 16x8)
    xnnpack     every step of the scale in float32, ``float32_even``, bounds as XNNPACK rounds them; requires
                every effective scale < 256, and several bias scales exactly with several weight scales

    C1 x and the result are int8, int16 or uint8; w is uint8 beside uint8, otherwise int8 or int4. C2 see
    Conv2dGeometry. C3 x and the result have one scale; w has one, or, unless it is uint8, one per output
    channel; only uint8 weights have zero points, and no int16 tensor. C4 bias is int32[O], or int64[O] beside
    int16, with zero point 0. C5 the activation is one of the schema's.
    """

    NAME = "qnn.conv2d"
    TFLITE = ("CONV_2D",)

    def classic_rounding(self, call: Call) -> tuple[Rounding, Rounding | None, int]:
        """See the class."""
        if self.accumulator(call) == "int64":
            return "single_up", None, 0
        if self.kernel_family(call) != "builtin" or self.groups > 1:
            return "double_away", None, 0
        rows = call.output.shape[3]
        depth = call.input(1).size // rows
        dtype = call.input(0).dtype
        return matrix_rounding(call.mode, call.output.size // rows, rows, depth, dtype), None, 0
