"""What weighted operations on float activations and integer weights share."""

from __future__ import annotations

from typing import Literal

import numpy as np

from qimport.fixedpoint import Int, wrap32
from qimport.ir.check import require
from qimport.ir.graph import Array, Call
from qimport.qnn.dynamic_quantization import Codes, DynamicKind, on_arm64, quantize_rows
from qimport.qnn.float_weighted import ACTIVATION_BOUNDS, bias_of, bounds
from qimport.qnn.geometry import Geometry, has_bias
from qimport.summation import Float32, fused_multiply_add

ScaleOrder = Literal["together", "together_fused", "weights_first", "input_first", "fused"]
"""How a sum meets its two scales s_x and s_w and the bias.

together        acc * (s_x * s_w) + bias
together_fused  the same, the last product and the sum in one rounding
weights_first   (acc * s_w) * s_x + bias
input_first     (acc * s_x) * s_w + bias
fused           acc * s_x, then times s_w plus bias in one rounding
"""


class HybridOperation(Geometry):
    """Operands x float32, w int8 or int4 with scales, bias float32 or None; the result is float32.

    x is quantized on the fly in rows, products are summed exactly, and sums become floats again. The classic
    kernels take the zero points of weights to be 0, whatever the file says.
    """

    activation: str
    constant_weights: bool

    def dynamic_kind(self, call: Call) -> DynamicKind:
        """How activations are quantized."""
        raise NotImplementedError

    def row_kind(self, call: Call) -> DynamicKind:
        """The same on the machine of the mode."""
        kind = self.dynamic_kind(call)
        return on_arm64(kind, self.packs_rows(call)) if call.mode.arm64 else kind

    def packs_rows(self, call: Call) -> bool:
        """Whether the delegate quantizes while it packs rows: on cores with dot products, in dense layers."""
        return False

    def row_size(self, call: Call) -> int:
        """Neighbouring elements of x that share a scale."""
        raise NotImplementedError

    def scale_orders(self, call: Call) -> tuple[ScaleOrder, ScaleOrder | None, int]:
        """How scales are applied, how to leftover channels, and the first of these."""
        raise NotImplementedError

    def excess(self, codes: Codes, w: Int, call: Call) -> Int | int:
        """What the kernel's sums are larger by than the exact ones."""
        return 0

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """The docstring's formula."""
        low, high = bounds(self.activation, self.kernel_family(call))
        return (np.minimum(np.maximum(self.unbounded(call), np.float32(low)), np.float32(high)),)

    def unbounded(self, call: Call) -> Float32:
        """The result before the activation."""
        x, out = call.array(0), call.output
        codes = quantize_rows(x.reshape(-1, self.row_size(call)), self.row_kind(call))
        w = call.array(1).astype(np.int64)
        acc = self.accumulate(codes.centred.reshape(x.shape), w, call).astype(np.int64)
        rows = codes.scale.shape[0]
        sums = wrap32(acc + self.excess(codes, w, call)).astype(np.float32).reshape(rows, -1, out.shape[-1])
        return self._scaled(sums, codes.scale[:, None], call).reshape(out.shape)

    def _scaled(self, sums: Float32, s_x: Float32, call: Call) -> Float32:
        s_w = np.array(call.input(1).quant.scales, np.float32)
        bias = bias_of(call)
        order, leftover, first = self.scale_orders(call)
        with np.errstate(all="ignore"):
            result = np.array(apply_scales(order, sums, s_x, s_w, bias))
            if leftover is not None:
                result[..., first:] = apply_scales(leftover, sums, s_x, s_w, bias)[..., first:]
        return result

    def xnnpack_takes(self, call: Call) -> bool:
        """Whether weights and bias are stored in the file."""
        return self.constant_weights

    def unsupported(self, call: Call) -> str | None:
        """Where the delegate takes the use, then fails to load the file."""
        if self.kernel_family(call) == "xnnpack" and any(call.input(1).quant.zero_points):
            return "the weights have a zero point; the XNNPACK delegate requires 0, or the file does not load"
        return None

    def verify(self, call: Call) -> None:
        """Check C1-C5."""
        x, w, out = call.input(0), call.input(1), call.output
        channels = self.verify_geometry(call)
        require(x.dtype == out.dtype == "float32", "C1", "input and result must be float32")
        require(w.dtype in ("int8", "int4"), "C1", "the weights must be int8 or int4")
        require(w.quantization is not None, "C3", "the weights need a quantization")
        q = w.quant
        along = q.axis == self.WEIGHT_AXIS and len(q.scales) == channels
        require(len(q.scales) == 1 or along, "C3", f"weights need one scale or {channels}")
        if has_bias(call):
            bias = call.input(2)
            fits = bias.dtype == "float32" and bias.shape == (channels,)
            require(fits, "C4", f"the bias must be float32[{channels}]")
        require(self.activation in ACTIVATION_BOUNDS, "C5", f"unknown activation {self.activation}")


def apply_scales(order: ScaleOrder, sums: Float32, s_x: Float32, s_w: Float32, bias: Float32) -> Float32:
    """Sums as floats, scaled, plus the bias; each step rounded to float32."""
    if order == "fused":
        return fused_multiply_add(sums * s_x, s_w, bias)
    if order == "together":
        return np.asarray(sums * (s_x * s_w) + bias)
    if order == "together_fused":
        return fused_multiply_add(sums, s_x * s_w, bias)
    first, second = (s_w, s_x) if order == "weights_first" else (s_x, s_w)
    return np.asarray((sums * first) * second + bias)
