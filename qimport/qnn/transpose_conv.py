"""``qnn.transpose_conv``: the TRANSPOSE_CONV operator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from qimport.fixedpoint import Rounding, wrap32
from qimport.ir.graph import Array, Call, operation
from qimport.qnn.geometry import TransposeConvGeometry, has_bias
from qimport.qnn.weighted import WeightedOperation

BLOCK = 8
"""Output channels the optimized int8 kernel rounds at a time."""

FLAT_BLOCK = 16
"""Elements of the result the optimized uint8 kernel rounds at a time."""


@operation
@dataclass(frozen=True)
class TransposeConv(TransposeConvGeometry, WeightedOperation):
    """Transposed convolution: TransposeConvGeometry of integers.

        acc[n,i*sh+r-top,j*sw+c-left,o] += (x[n,i,j,:] - z_x) . (w[o,r,c,:] - z_w)
        acc  = acc + bias[o], modulo 2^32 (int16 without int32 bias: 2^64)
        code = clamp(rescale(acc, s_x * s_w[o] / s_out) + z_out, low, high)

    reference   s_x * s_w / s_out in float64 (uint8: s_x * s_w rounded to float32), rescale ``double_away``
                (``reference_integer_ops::TransposeConv``, ``reference_ops::TransposeConv``)
    builtin     the same scales; int8 ``double_up`` in whole blocks of 8 output channels, uint8 in whole
                blocks of 16 elements of the flat result; ``double_away`` in what is left over
    int16       ``single_up`` in both, but with an int32 bias as int8
    xnnpack     every step of the scale in float32, ``float32_even``, bounds as XNNPACK rounds them; requires
                every effective scale < 256; takes no window smaller than its stride with padding SAME

    C1 x and the result are int8, int16 or uint8; w is uint8 beside uint8, otherwise int8. C2 see
    TransposeConvGeometry. C3 x and the
    result have one scale; w has one, or, unless it is uint8, one per output channel; only uint8 weights have
    zero points, and no int16 tensor. C4 bias is int32[O], or int64[O] beside int16, with zero point 0. C5 the
    activation is one of the schema's.
    """

    NAME = "qnn.transpose_conv"
    TFLITE = ("TRANSPOSE_CONV",)
    WEIGHT_TYPES: ClassVar = {"int8": ("int8",), "uint8": ("uint8",), "int16": ("int8",)}
    NEEDS_BIAS_TO_DELEGATE = False

    def classic_rounding(self, call: Call) -> tuple[Rounding, Rounding | None, int]:
        """See the class; for uint8 of the first elements, up to :meth:`flat_blocks`."""
        if self.accumulator(call) == "int64":
            return "single_up", None, 0
        if self.kernel_family(call) != "builtin":
            return "double_away", None, 0
        channels = call.output.shape[3]
        if call.input(0).dtype == "uint8":
            return ("double_up" if call.output.size >= FLAT_BLOCK else "double_away"), None, 0
        whole = channels - channels % BLOCK
        if whole == 0:
            return "double_away", None, 0
        return ("double_up", None, 0) if whole == channels else ("double_up", "double_away", whole)

    def flat_leftover(self, call: Call) -> int:
        """How many elements at the end of the flat result round ``double_away``, unlike the others."""
        mixed = self.kernel_family(call) == "builtin" and call.input(0).dtype == "uint8"
        return call.output.size % FLAT_BLOCK if mixed and call.output.size >= FLAT_BLOCK else 0

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """The docstring's formula."""
        rest = self.flat_leftover(call)
        if not rest:
            return super().evaluate(call)
        x = call.array(0).astype(np.int64) - call.input(0).quant.zero_point
        w = call.array(1).astype(np.int64) - call.input(1).quant.zero_point
        acc = self.accumulate(x, w, call).astype(np.int64)
        if has_bias(call):
            acc = acc + call.array(2).astype(np.int64)
        flat = wrap32(acc).reshape(-1)
        form = self.requantization(call)
        codes = form.codes(flat, call.output)
        codes[-rest:] = form.rounded_as("double_away").codes(flat[-rest:], call.output)
        return (codes.reshape(call.output.shape),)
