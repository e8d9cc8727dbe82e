"""``qnn.hybrid_conv2d``: CONV_2D of float activations and int8 weights."""

from __future__ import annotations

from dataclasses import dataclass

from qimport.ir.graph import Call, operation
from qimport.qnn.dynamic_quantization import DynamicKind
from qimport.qnn.geometry import Conv2dGeometry
from qimport.qnn.hybrid import HybridOperation, ScaleOrder


@operation
@dataclass(frozen=True)
class HybridConv2d(Conv2dGeometry, HybridOperation):
    """Convolution of floats with int8 weights, possibly in groups ("dynamic range quantization").

    Conv2dGeometry of x float32, w int8 or int4 and bias float32:

        acc[n,y,x,o] = wrap32(sum (code(x) - zero_point) * w), x quantized on the fly
        y[n,y,x,o]   = activation(acc * s_x * s_w[o] + bias[o])

    reference, builtin   weight scales that are all equal, without groups: symmetric images,
                         f32(acc * f32(s_x * s_w)) + bias (``EvalHybrid`` in conv.cc). Otherwise asymmetric
                         images (``EvalHybridPerChannel``): f32(f32(acc * s_w) * s_x) + bias in reference and
                         with groups, in builtin without groups as with equal scales. Groups need O scales.
    xnnpack              images as XNNPACK's qd8 quantizes them, pixels where the window is one pixel with
                         stride 1; fma(f32(acc * s_x), s_w, bias)
    xnnpack-arm64        f32(acc * f32(s_x * s_w)) + bias, but for windows with a single result pixel per
                         image; little as xnnpack, which is Cortex-A53, not A55

    See :mod:`qimport.qnn.dynamic_quantization`. C1 x and the result are float32, w is int8 or int4. C2
    see Conv2dGeometry. C3 w has one scale or O. C4 bias is float32[O]. C5 the activation is one of the
    schema's.
    """

    NAME = "qnn.hybrid_conv2d"
    TFLITE = ("CONV_2D",)

    def _per_channel(self, call: Call) -> bool:
        return self.groups > 1 or len(set(call.input(1).quant.scales)) > 1

    def dynamic_kind(self, call: Call) -> DynamicKind:
        """See the class."""
        if self.kernel_family(call) == "xnnpack":
            return "delegate"
        return "asymmetric" if self._per_channel(call) else "symmetric"

    def row_size(self, call: Call) -> int:
        """An image, or a pixel."""
        x = call.input(0)
        return x.shape[3] if self._delegated_pixels(call) else x.size // x.shape[0]

    def _delegated_pixels(self, call: Call) -> bool:
        """Whether the delegate runs a dense layer of pixels."""
        _, kh, kw, _ = call.input(1).shape
        pointwise = (kh, kw) == (1, 1) and self.stride == (1, 1) and self.padding == ((0, 0), (0, 0))
        return pointwise and self.groups == 1 and self.kernel_family(call) == "xnnpack"

    def packs_rows(self, call: Call) -> bool:
        """See there."""
        return call.mode.arm64 and not call.mode.little and self._delegated_pixels(call)

    def scale_orders(self, call: Call) -> tuple[ScaleOrder, ScaleOrder | None, int]:
        """See the class."""
        family = self.kernel_family(call)
        if family == "xnnpack":
            apart = call.mode.arm64 and not call.mode.little
            several = self.packs_rows(call) or call.output.size > call.output.shape[0] * call.output.shape[3]
            return "together" if apart and several else "fused", None, 0
        portable = family == "reference" or self.groups > 1
        return "weights_first" if portable and self._per_channel(call) else "together", None, 0

    def unsupported(self, call: Call) -> str | None:
        """Where the classic kernels refuse one scale."""
        count, outputs = len(call.input(1).quant.scales), call.input(1).shape[0]
        if self.groups > 1 and count != outputs and self.kernel_family(call) != "xnnpack":
            return f"{self.groups} groups with {count} weight scales; the interpreter requires {outputs}"
        return super().unsupported(call)

    def xnnpack_takes(self, call: Call) -> bool:
        """int8 weights only."""
        return super().xnnpack_takes(call) and call.input(1).dtype == "int8"
