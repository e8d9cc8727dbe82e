"""``qnn.hybrid_dense``: FULLY_CONNECTED of float activations and int8 weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from qimport.fixedpoint import Int
from qimport.ir.check import require
from qimport.ir.graph import Call, operation
from qimport.ir.types import TensorType
from qimport.qnn.dynamic_quantization import DynamicKind, quantize_rows
from qimport.qnn.float_weighted import bias_of
from qimport.qnn.hybrid import HybridOperation, ScaleOrder
from qimport.summation import Float32

SMALLEST_DEPTH, SMALLEST_OUTPUTS = 32, 4
"""What the optimized kernel for int4 weights asks for."""

NIBBLE_ZERO = 7
"""What it adds to weights, so that they are not negative but for -8."""


def has_nibble_kernel(w: TensorType) -> bool:
    """Whether the optimized kernel for int4 weights takes these."""
    outputs, depth = w.shape
    return w.dtype == "int4" and depth % 2 == 0 and depth >= SMALLEST_DEPTH and outputs >= SMALLEST_OUTPUTS


@operation
@dataclass(frozen=True)
class HybridDense(HybridOperation):
    """Matrix product of floats with an int8 weight matrix ("dynamic range quantization").

    Operands: x float32 (flattened to [rows, K]), w int8 or int4 [N, K], bias float32[N] or None (counts as
    zeros). The result has rows * N elements, N along its last dimension.

        acc[r,n] = wrap32(sum (code(x)[r,k] - zero_point[r]) * w[n,k]), rows quantized on the fly
        y[r,n]   = activation(acc * s_x[r] * s_w[n] + bias[n])

    reference, builtin   symmetric rows, asymmetric ones with ``asymmetric``; f32(acc * f32(s_x * s_w)) + bias
                         (``EvalHybrid`` in fully_connected.cc)
    builtin, int4        even K of at least 32, N of at least 4: symmetric rows whatever ``asymmetric`` says;
                         the kernel stores w + 7, so that with A = sum code * (w + 7) and q = sum code
                         f32(f32(-7 * q * s_x) * s_w + bias) + f32(f32(A * s_x) * s_w)
                         (``optimized_4bit``); measured
    xnnpack              rows as XNNPACK's qd8 quantizes them whatever ``asymmetric`` says;
                         fma(f32(acc * s_x), s_w, bias). int4 weights are taken for even K only.

    See :mod:`qimport.qnn.dynamic_quantization`. C1 x and the result are float32, w is int8 or int4 of rank 2.
    C2 K divides the size of x; the result has rows * N elements and N along its last dimension. C3 w has one
    scale or N. C4 bias is float32[N]. C5 the activation is one of the schema's.

    ``constant_weights`` says that weights and bias are stored in the file, which the delegate asks for.
    """

    NAME = "qnn.hybrid_dense"
    TFLITE = ("FULLY_CONNECTED",)
    WEIGHT_AXIS = 0

    activation: str = "NONE"
    asymmetric: bool = False
    constant_weights: bool = True

    def verify(self, call: Call) -> None:
        """Check C1-C5."""
        x, w, out = call.input(0), call.input(1), call.output
        require(len(w.shape) == 2, "C1", "the weights must have rank 2")
        outputs, depth = w.shape
        require(depth > 0 and x.size % depth == 0, "C2", f"{x} does not consist of rows of {depth}")
        fits = bool(out.shape) and out.shape[-1] == outputs and out.size == x.size // depth * outputs
        require(fits, "C2", f"the result must hold {x.size // depth} rows of {outputs}")
        self.verify_hybrid(call, outputs)

    def dynamic_kind(self, call: Call) -> DynamicKind:
        """See the class."""
        if self.kernel_family(call) == "xnnpack":
            return "delegate"
        if self.stores_nibbles(call):
            return "symmetric_away"
        return "asymmetric" if self.asymmetric else "symmetric"

    def xnnpack_takes(self, call: Call) -> bool:
        """int4 only in whole bytes per row."""
        w = call.input(1)
        return super().xnnpack_takes(call) and (w.dtype == "int8" or w.shape[1] % 2 == 0)

    def stores_nibbles(self, call: Call) -> bool:
        """Whether the optimized kernel for int4 weights runs."""
        return self.kernel_family(call) == "builtin" and has_nibble_kernel(call.input(1))

    def unbounded(self, call: Call) -> Float32:
        """See the class."""
        if not self.stores_nibbles(call):
            return super().unbounded(call)
        codes = quantize_rows(call.array(0).reshape(-1, self.row_size(call)), self.dynamic_kind(call))
        w = call.array(1).astype(np.int64)
        acc = (codes.centred @ (w + NIBBLE_ZERO).T).astype(np.float32)
        offset = (-NIBBLE_ZERO * codes.centred.sum(1, keepdims=True)).astype(np.float32)
        s_w = np.array(call.input(1).quant.scales, np.float32)
        start = (offset * codes.scale) * s_w + bias_of(call)
        return np.asarray(start + (acc * codes.scale) * s_w).reshape(call.output.shape)

    def row_size(self, call: Call) -> int:
        """K."""
        return call.input(1).shape[1]

    def scale_orders(self, call: Call) -> tuple[ScaleOrder, ScaleOrder | None, int]:
        """See the class."""
        return "fused" if self.kernel_family(call) == "xnnpack" else "together", None, 0

    def accumulate(self, x: Int, w: Int, call: Call) -> npt.NDArray[np.float64]:
        """One matrix product."""
        rows = x.reshape(-1, w.shape[1]).astype(np.float64)
        acc: npt.NDArray[np.float64] = rows @ w.astype(np.float64).T
        return acc
