"""``qnn.hybrid_transpose_conv``: TRANSPOSE_CONV of float activations and int8 weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qimport.ir.check import require
from qimport.ir.graph import Call, operation
from qimport.qnn.dynamic_quantization import DynamicKind, quantize_rows
from qimport.qnn.float_weighted import bias_of
from qimport.qnn.geometry import TransposeConvGeometry
from qimport.qnn.hybrid import HybridOperation, ScaleOrder
from qimport.summation import Float32


@operation
@dataclass(frozen=True)
class HybridTransposeConv(TransposeConvGeometry, HybridOperation):
    """Transposed convolution of floats with int8 weights ("dynamic range quantization").

    TransposeConvGeometry of x float32, w int8 and bias float32:

        y[n,i*sh+r-top,j*sw+c-left,o] += (code(x)[n,i,j,:] - zero_point[n]) . w[o,r,c,:], images quantized on
        the fly; then scales, the bias and the activation

    reference, builtin   asymmetric images; every product becomes f32(f32(p * s_w[o]) * s_x) before it is
                         added, in float32 by input rows, columns and channels; the bias last (measured)
    xnnpack              images as XNNPACK's qd8 quantizes them; fma(f32(acc * s_x), s_w, bias)

    See :mod:`qimport.qnn.dynamic_quantization`. C1 x and the result are float32, w is int8. C2 see
    TransposeConvGeometry. C3 w has one scale or O. C4 bias is float32[O]. C5 the activation is one of the
    schema's.
    """

    NAME = "qnn.hybrid_transpose_conv"
    ARM64_FLOATS = ()
    TFLITE = ("TRANSPOSE_CONV",)

    def verify(self, call: Call) -> None:
        """Check C1-C5."""
        super().verify(call)
        require(call.input(1).dtype == "int8", "C1", "the weights must be int8")

    def dynamic_kind(self, call: Call) -> DynamicKind:
        """See the class."""
        return "delegate" if self.kernel_family(call) == "xnnpack" else "asymmetric"

    def row_size(self, call: Call) -> int:
        """An image."""
        return call.input(0).size // call.input(0).shape[0]

    def scale_orders(self, call: Call) -> tuple[ScaleOrder, ScaleOrder | None, int]:
        """The delegate's."""
        return "fused", None, 0

    def unbounded(self, call: Call) -> Float32:
        """See the class; in the order of input pixels, taps come from the last to the first."""
        if self.kernel_family(call) == "xnnpack":
            return super().unbounded(call)
        x, w = call.array(0), call.array(1).astype(np.float32)
        codes = quantize_rows(x.reshape(x.shape[0], -1), "asymmetric")
        centred, s_x = codes.centred.reshape(x.shape).astype(np.float32), codes.scale[:, :, None, None]
        s_w = np.array(call.input(1).quant.scales, np.float32)

        def products(r: int, c: int) -> list[Float32]:
            channels = range(x.shape[3])
            return [((centred[..., k, None] * w[:, r, c, k]) * s_w) * s_x for k in channels]

        return np.asarray(self.add_windows(np.float32, products, call) + bias_of(call))
