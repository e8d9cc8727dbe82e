"""``qnn.hybrid_depthwise_conv2d``: DEPTHWISE_CONV_2D of float activations and int8 weights."""

from __future__ import annotations

from dataclasses import dataclass

from qimport.ir.check import require
from qimport.ir.graph import Call, operation
from qimport.qnn.dynamic_quantization import DynamicKind
from qimport.qnn.geometry import DepthwiseGeometry
from qimport.qnn.hybrid import HybridOperation, ScaleOrder

BLOCK = 4
"""Output channels the optimized kernel scales at a time."""


@operation
@dataclass(frozen=True)
class HybridDepthwiseConv2d(DepthwiseGeometry, HybridOperation):
    """Depthwise convolution of floats with int8 weights ("dynamic range quantization").

    DepthwiseGeometry of x float32, w int8 and bias float32:

        acc[n,y,x,o] = wrap32(sum (code(x) - zero_point) * w), images quantized on the fly, asymmetric
        y[n,y,x,o]   = activation(acc * s_x * s_w[o] + bias[o])

    reference         f32(acc * f32(s_x * s_w)) + bias (``EvalHybridPerChannel`` in depthwise_conv.cc)
    builtin, xnnpack  whole blocks of 4 output channels f32(f32(acc * s_w) * s_x) + bias, the channels left
                      over f32(f32(acc * s_x) * s_w) + bias; the delegate takes none of these

    See :mod:`qimport.qnn.dynamic_quantization`. C1 x and the result are float32, w is int8. C2 see
    DepthwiseGeometry. C3 w has one scale or C * m. C4 bias is float32[C * m]. C5 the activation is one of the
    schema's.
    """

    NAME = "qnn.hybrid_depthwise_conv2d"
    TFLITE = ("DEPTHWISE_CONV_2D",)

    def verify(self, call: Call) -> None:
        """Check C1-C5."""
        super().verify(call)
        require(call.input(1).dtype == "int8", "C1", "the weights must be int8")

    def xnnpack_takes(self, call: Call) -> bool:
        """Never."""
        return False

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
