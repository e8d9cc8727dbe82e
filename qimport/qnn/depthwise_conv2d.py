"""``qnn.depthwise_conv2d``: the DEPTHWISE_CONV_2D operator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from qimport.fixedpoint import Rounding
from qimport.ir.check import require
from qimport.ir.graph import Call, operation
from qimport.qnn.geometry import DepthwiseGeometry
from qimport.qnn.weighted import WeightedOperation

BLOCK = 8
"""Output channels the optimized int8 kernel rounds at a time."""


@operation
@dataclass(frozen=True)
class DepthwiseConv2d(DepthwiseGeometry, WeightedOperation):
    """Depthwise convolution with a depth multiplier m: DepthwiseGeometry of integers.

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
    beside int8, int8 beside int16. C2 see DepthwiseGeometry. C3 x and the result have one scale; w has one,
    or, unless it is uint8, one per output channel; only uint8 weights have zero points, and no int16 tensor.
    C4 bias is int32[C * m], int64[C * m] beside int16, with zero point 0. C5 the activation is one of the
    schema's.

    ``constant_weights`` says that weights and bias are stored in the file, which the delegate asks for.
    """

    NAME = "qnn.depthwise_conv2d"
    TFLITE = ("DEPTHWISE_CONV_2D",)
    WEIGHT_TYPES: ClassVar = {**WeightedOperation.WEIGHT_TYPES, "int16": ("int8",)}

    constant_weights: bool = True

    def verify(self, call: Call) -> None:
        """Check C1-C5."""
        super().verify(call)
        wide = call.input(0).dtype != "int16" or self.accumulator(call) == "int64"
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
