"""``qnn.depthwise_conv2d``: the DEPTHWISE_CONV_2D operator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from qimport.fixedpoint import Rounding, quantize_multiplier
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
                builtin-arm64: ``double_up`` throughout in uint8 as well where the 3x3 kernel runs (see
                :meth:`shifts_last`), whose left shifts come last and saturate
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
        if self.shifts_last(call):
            return "double_up", None, 0
        blocked = self.kernel_family(call) == "builtin" and call.input(0).dtype == "int8"
        channels = call.output.shape[3]
        whole = channels - channels % BLOCK if blocked else 0
        if whole == 0:
            return "double_away", None, 0
        return ("double_up", None, 0) if whole == channels else ("double_up", "double_away", whole)

    def shifts_last(self, call: Call) -> bool:
        """Whether the kernel for 3x3 windows of the ARM build runs, which shifts left after multiplying.

        It wants equal strides of 1 or 2, equal padding of 0 or 1 above and to the left, whole blocks of 8
        channels, a last window that ends at most that far behind the image, and not just one of height and
        width to be 1; uint8 only where no factor shifts left.
        """
        x, (_, height, width, outputs) = call.input(0), call.input(1).shape
        if self.kernel_family(call) != "builtin" or not call.mode.arm64 or x.dtype == "int16":
            return False
        pad, stride = self.padding[0][0], self.stride[0]
        square = (height, width) == (3, 3) and self.dilation == (1, 1) and self.stride in ((1, 1), (2, 2))
        even = self.padding[1][0] == pad and pad in (0, 1) and outputs == x.shape[3] and outputs % BLOCK == 0
        behind = [
            (count - 1) * stride + 3 - pad - extent
            for count, extent in zip(call.output.shape[1:3], x.shape[1:3], strict=True)
        ]
        if not (square and even) or max(behind) > pad or (x.shape[1] == 1) != (x.shape[2] == 1):
            return False
        return x.dtype == "int8" or max(self._exponents(call)) <= 0

    def late_shifts(self, call: Call) -> npt.NDArray[np.int32] | None:
        """Left shifts per channel that come after the rescale; None where there are none."""
        if not self.shifts_last(call) or max(self._exponents(call)) <= 0:
            return None
        return np.array([max(exponent, 0) for exponent in self._exponents(call)], np.int32)

    def _exponents(self, call: Call) -> list[int]:
        return [quantize_multiplier(scale)[1] for scale in self.classic_scales(call)]
