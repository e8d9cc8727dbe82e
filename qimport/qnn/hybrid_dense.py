"""``qnn.hybrid_dense``: FULLY_CONNECTED of float activations and int8 weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from qimport.fixedpoint import Int
from qimport.ir.graph import Call, operation
from qimport.ir.types import TensorType
from qimport.qnn.dynamic_quantization import Codes, DynamicKind, quantize_rows
from qimport.qnn.float_weighted import bias_of
from qimport.qnn.geometry import DenseGeometry
from qimport.qnn.hybrid import HybridOperation, ScaleOrder
from qimport.qnn.sign_excess import sign_excess
from qimport.summation import Float32

SMALLEST_DEPTH, SMALLEST_OUTPUTS = 32, 4
"""What the optimized kernel for int4 weights asks for."""

NIBBLE_ZERO = 7
"""What it adds to weights, so that they are not negative but for -8."""

NIBBLE_BLOCK = 32
"""Neighbouring weights of a row that it packs together."""


def has_nibble_kernel(w: TensorType) -> bool:
    """Whether the optimized kernel for int4 weights takes these."""
    outputs, depth = w.shape
    return w.dtype == "int4" and depth % 2 == 0 and depth >= SMALLEST_DEPTH and outputs >= SMALLEST_OUTPUTS


def stored_nibbles(w: npt.NDArray[Any]) -> Int:
    """The weights [N, K] whose sums with 7 the optimized kernel keeps in 4 bits.

    A byte takes element j of a block of 32 in its upper and element 16 + j in its lower half. A weight of -8
    leaves -1 there, whose sign spreads: it reads as 8, and so does the upper half above a lower one. In whole
    blocks the sign of an upper half with j % 4 < 2 also reaches the lower half two bytes further. Measured.
    """
    lowest = w == -NIBBLE_ZERO - 1
    rows, depth = w.shape
    blocks = np.pad(lowest, ((0, 0), (0, -depth % NIBBLE_BLOCK))).reshape(rows, -1, 2, NIBBLE_BLOCK // 2)
    upper, lower = blocks[:, :, 0], blocks[:, :, 1].copy()
    reaching = upper & (np.arange(NIBBLE_BLOCK // 2) % 4 < 2)
    reaching[:, depth // NIBBLE_BLOCK :] = False
    lower[:, :, 2:] |= reaching[:, :, :-2]
    spoiled = np.stack([upper | blocks[:, :, 1], lower], 2).reshape(rows, -1)[:, :depth]
    return np.where(spoiled, NIBBLE_ZERO + 1, w.astype(np.int64))


def rounds_twice(batch: int, outputs: int, depth: int) -> bool:
    """Whether the classic kernel of ARM cores with dot products rounds products before it adds the bias."""
    whole = depth % 16 == 0 and outputs % 2 == 0 and outputs >= batch
    many = batch % 4 == 0 or (batch >= 2 and outputs * depth >= 2**14)
    if not (whole and many):
        return False
    ratio = max(outputs // depth, depth // outputs)
    return not (batch >= 16 and outputs % 4 == 0 and batch.bit_length() - ratio.bit_length() > 2)


@operation
@dataclass(frozen=True)
class HybridDense(DenseGeometry, HybridOperation):
    """Matrix product of floats with an int8 weight matrix ("dynamic range quantization").

    DenseGeometry of x float32, w int8 or int4 and bias float32:

        acc[r,n] = wrap32(sum (code(x)[r,k] - zero_point[r]) * w[n,k]), rows quantized on the fly
        y[r,n]   = activation(acc * s_x[r] * s_w[n] + bias[n])

    reference, builtin   symmetric rows, asymmetric ones with ``asymmetric``; f32(acc * f32(s_x * s_w)) + bias
                         (``EvalHybrid`` in fully_connected.cc). Sums of int8 weights of -128 are off by
                         :mod:`qimport.qnn.sign_excess`
    builtin, int4        even K of at least 32, N of at least 4: symmetric rows whatever ``asymmetric`` says;
                         the kernel stores w + 7 (see :func:`stored_nibbles` about -8), so that with
                         A = sum code * (w + 7) and q = sum code
                         f32(f32(-7 * q * s_x) * s_w + bias) + f32(f32(A * s_x) * s_w)
                         (``optimized_4bit``); measured
    xnnpack              rows as XNNPACK's qd8 quantizes them whatever ``asymmetric`` says;
                         fma(f32(acc * s_x), s_w, bias). int4 weights are taken for even K only.
    builtin-arm64        int8: fma(acc, f32(s_x * s_w), bias), but as above where :func:`rounds_twice`
    xnnpack-arm64        f32(acc * f32(s_x * s_w)) + bias; little as xnnpack, which is Cortex-A53, not A55

    See :mod:`qimport.qnn.dynamic_quantization`. C1 x and the result are float32, w is int8 or int4.
    C2 see DenseGeometry. C3 w has one scale or N. C4 bias is float32[N]. C5 the activation is one of the
    schema's.

    ``constant_weights`` says that weights and bias are stored in the file, which the delegate asks for.
    """

    NAME = "qnn.hybrid_dense"
    TFLITE = ("FULLY_CONNECTED",)

    asymmetric: bool = False
    constant_weights: bool = True

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
        w = stored_nibbles(call.array(1))
        acc = (codes.centred @ (w + NIBBLE_ZERO).T).astype(np.float32)
        offset = (-NIBBLE_ZERO * codes.centred.sum(1, keepdims=True)).astype(np.float32)
        s_w = np.array(call.input(1).quant.scales, np.float32)
        start = (offset * codes.scale) * s_w + bias_of(call)
        return np.asarray(start + (acc * codes.scale) * s_w).reshape(call.output.shape)

    def row_size(self, call: Call) -> int:
        """K."""
        return call.input(1).shape[1]

    def exceeds(self, call: Call) -> bool:
        """Whether the kernel mistakes products of weights of -128."""
        return call.input(1).dtype == "int8" and self.kernel_family(call) != "xnnpack" and not call.mode.arm64

    def excess(self, codes: Codes, w: Int, call: Call) -> Int | int:
        """See the class."""
        return sign_excess(codes.centred + codes.zero_point, w) if self.exceeds(call) else 0

    def scale_orders(self, call: Call) -> tuple[ScaleOrder, ScaleOrder | None, int]:
        """See the class."""
        if self.kernel_family(call) == "xnnpack":
            return "together" if self.packs_rows(call) else "fused", None, 0
        outputs, depth = call.input(1).shape
        twice = not call.mode.arm64 or rounds_twice(call.output.size // outputs, outputs, depth)
        return "together" if twice else "together_fused", None, 0

    def unknown(self, call: Call) -> str | None:
        """As there, and the optimized kernel for int4 weights."""
        if call.mode.arm64 and self.stores_nibbles(call):
            return "the ARM build's kernel for int4 weights is not known"
        return super().unknown(call)

    def packs_rows(self, call: Call) -> bool:
        """See there."""
        return call.mode.arm64 and not call.mode.little
