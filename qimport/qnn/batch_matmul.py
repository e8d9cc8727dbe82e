"""``qnn.batch_matmul``: the BATCH_MATMUL operator."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qimport.fixedpoint import f32, quantize_multiplier, wrap32
from qimport.ir.check import require
from qimport.ir.graph import Array, Call, operation
from qimport.ir.types import INTEGER_RANGE
from qimport.qnn.checks import require_per_tensor
from qimport.qnn.geometry import MatmulGeometry
from qimport.qnn.requantization import Requantization, fixed_point_factors, is_plain_8bit

RIGHT_TYPES = {"int8": ("int8",), "int16": ("int16", "int8")}
"""Element types of the right operand beside those of the left."""


@operation
@dataclass(frozen=True)
class BatchMatmul(MatmulGeometry):
    """Products of matrices in the last two dimensions: MatmulGeometry of integers.

        acc  = sum (a - z_a) * (b - z_b), modulo 2^32 (int16: 2^64)
        code = clamp(rescale(acc, s_a * s_b / s_out) + z_out)

    classic     s_a * s_b rounded to float32; ``double_away``, int16 ``single_up``
                (``reference_ops::BatchMatMul``, and ``optimized_ops::BatchMatMul``, which equals it)
    xnnpack     every step of the scale in float32, ``float32_even``; takes int8 where b has zero point 0

    Kernels without delegate know one scale per tensor: several scales of b count as 0, so that every result
    is z_out. That is no use, but what the interpreter computes.

    C1 a and the result are int8 or int16; b is int8, or int16 beside int16. C2 see
    MatmulGeometry. C3 a and the result have one scale, as b has unless it is int8; int16 and what is beside
    it has no zero point, nor has a b of several scales.
    """

    NAME = "qnn.batch_matmul"
    TFLITE = ("BATCH_MATMUL",)

    def verify(self, call: Call) -> None:
        """Check C1-C3."""
        a, b, out = call.input(0), call.input(1), call.output
        require(a.dtype in RIGHT_TYPES and out.dtype == a.dtype, "C1", "a and the result are int8 or int16")
        require(b.dtype in RIGHT_TYPES[a.dtype], "C1", f"no products of {a.dtype} and {b.dtype}")
        self.verify_geometry(call)
        require_per_tensor("C3", a, out)
        require(b.quantization is not None, "C3", "b needs a quantization")
        if b.dtype != "int8":
            require_per_tensor("C3", b)
        zeros = any(zero for type_ in (a, b, out) for zero in type_.quant.zero_points)
        require(a.dtype == "int8" or not zeros, "C3", "int16 tensors must have zero point 0")

    def accumulator(self, call: Call) -> str:
        """Element type of the accumulators."""
        return "int64" if call.input(0).dtype == "int16" else "int32"

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """The docstring's formula; every sum of less than 2^22 products is exact in float64."""
        a, b = (call.array(i).astype(np.float64) - call.input(i).quant.zero_point for i in (0, 1))
        a, b = self.upright(a, b)
        acc = (a @ b).astype(np.int64)
        if self.accumulator(call) == "int32":
            acc = wrap32(acc)
        return (self.requantization(call).codes(acc, call.output),)

    def requantization(self, call: Call) -> Requantization:
        """How accumulators become codes in the call's numerics."""
        out = call.output
        zero, (low, high) = out.quant.zero_point, INTEGER_RANGE[out.dtype]
        scale = self.scale(call)
        if self.kernel_family(call) == "xnnpack":
            wraps = zero < 0 and f32(scale) >= 1 and not call.mode.arm64
            return Requantization(
                "float32_even", (np.array([scale], np.float32),), zero, low, high, wraps=wraps
            )
        rounding = "single_up" if call.input(0).dtype == "int16" else "double_away"
        return Requantization(rounding, fixed_point_factors([scale]), zero, low, high)  # type: ignore[arg-type]

    def scale(self, call: Call) -> float:
        """s_a * s_b, rounded to float32, over s_out; 0 for several scales."""
        if len(call.input(1).quant.scales) > 1:
            return 0.0
        product = f32(call.input(0).quant.scale * call.input(1).quant.scale)
        return product / call.output.quant.scale

    def xnnpack_takes(self, call: Call) -> bool:
        """int8 with one scale each, and no zero point on the right."""
        a, b, out = call.input(0), call.input(1), call.output
        plain = all(type_.dtype == "int8" and is_plain_8bit(type_) for type_ in (a, b, out))
        return plain and b.quant.zero_point == 0

    def unsupported(self, call: Call) -> str | None:
        """Where the int16 kernels shift by negative counts, or the delegate fails to load the file."""
        scale = self.scale(call)
        product = f"the product of the input scales over the output scale is {scale:g}"
        if call.input(0).dtype == "int16" and quantize_multiplier(scale)[1] >= 15:
            return f"{product}; the interpreter's 16-bit kernels require less than 2^14"
        if self.kernel_family(call) == "xnnpack" and f32(scale) >= 256:
            return f"{product}; the XNNPACK delegate requires less than 256, or the file does not load"
        return None
