"""``qnn.float_batch_matmul`` and ``qnn.hybrid_batch_matmul``: BATCH_MATMUL with a float32 left operand."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from qimport import summation
from qimport.fixedpoint import wrap32
from qimport.ir.check import require
from qimport.ir.graph import Array, Call, operation
from qimport.qnn.dynamic_quantization import DynamicKind, quantize_rows
from qimport.qnn.geometry import MatmulGeometry
from qimport.summation import Float32


@operation
@dataclass(frozen=True)
class FloatBatchMatmul(MatmulGeometry):
    """Products of matrices in the last two dimensions: MatmulGeometry of float32.

    reference, builtin   one product after the other, each rounded, each sum rounded
                         (``reference_ops::BatchMatMul``; the optimized one sums in the same order)
    xnnpack              fused multiply-adds in the same order (f32-gemm). The delegate flushes subnormal
                         numbers to zero, which is not reproduced.

    C1 float32. C2 see MatmulGeometry.
    """

    NAME = "qnn.float_batch_matmul"
    ARM64_FLOATS = ()
    TFLITE = ("BATCH_MATMUL",)

    def verify(self, call: Call) -> None:
        """Check C1, C2."""
        types = (call.input(0), call.input(1), call.output)
        require(all(type_.dtype == "float32" for type_ in types), "C1", "operands and result must be float32")
        self.verify_geometry(call)

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """One product of every sum at a time."""
        a, b = self.upright(call.array(0), call.array(1))
        fused = self.kernel_family(call) == "xnnpack"
        total: Float32 = np.zeros(call.output.shape, np.float32)
        with np.errstate(all="ignore"):
            for k in range(a.shape[-1]):
                left, right = a[..., k, None], b[..., k, None, :]
                if fused:
                    total = summation.fused_multiply_add(left, right, total)
                else:
                    total = np.asarray(total + left * right)
        return (total,)

    def xnnpack_takes(self, call: Call) -> bool:
        """Always."""
        return True


@operation
@dataclass(frozen=True)
class HybridBatchMatmul(MatmulGeometry):
    """Products of float matrices with int8 matrices ("dynamic range quantization").

    MatmulGeometry of a float32 and b int8; the result is float32:

        y = (sum (code(a) - zero_point) * b) * s_a * s_b, rows of a quantized on the fly

    reference, builtin   symmetric rows, asymmetric ones with ``asymmetric``; f32(acc * f32(s_a * s_b))
                         (``EvalHybrid`` in batch_matmul.cc). With several leading dimensions the kernel takes
                         scales from the rows of matrix number i + j + ... instead of matrix [i, j, ...]
                         (:func:`mixed_numbers`), and mixes up zero points beyond description: asymmetric
                         products of that kind have no bytes to equal.
    xnnpack              rows as XNNPACK's qd8 quantizes them; f32(f32(acc * s_a) * s_b); requires b to be
                         stored in the file

    See :mod:`qimport.qnn.dynamic_quantization`. C1 element types as above. C2 see MatmulGeometry.
    C3 b has one scale, or one per column of the product; zero points 0.
    """

    NAME = "qnn.hybrid_batch_matmul"
    ARM64_FLOATS = ("reference", "builtin")
    TFLITE = ("BATCH_MATMUL",)

    asymmetric: bool = False
    constant_weights: bool = True

    def verify(self, call: Call) -> None:
        """Check C1-C3."""
        a, b, out = call.input(0), call.input(1), call.output
        typed = a.dtype == out.dtype == "float32" and b.dtype == "int8"
        require(typed, "C1", "operands must be float32 and int8, the result float32")
        self.verify_geometry(call)
        require(b.quantization is not None, "C3", "b needs a quantization")
        require(len(b.quant.scales) in (1, out.shape[-1]), "C3", "b needs one scale or one per column")
        require(not any(b.quant.zero_points), "C3", "the zero points of b must be 0")

    def dynamic_kind(self, call: Call) -> DynamicKind:
        """See the class."""
        if self.kernel_family(call) == "xnnpack":
            return "delegate"
        return "asymmetric" if self.asymmetric else "symmetric"

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """The docstring's formula; every sum of less than 2^37 products is exact in float64."""
        a, b = self.upright(call.array(0), call.array(1))
        codes = quantize_rows(a.reshape(-1, a.shape[-1]), self.dynamic_kind(call))
        acc = codes.centred.reshape(a.shape).astype(np.float64) @ b.astype(np.float64)
        sums = wrap32(acc.astype(np.int64)).astype(np.float32)
        batch, s_b = call.output.shape[:-2], np.array(call.input(1).quant.scales, np.float32)
        delegate = self.kernel_family(call) == "xnnpack"
        numbers = (matrix_numbers if delegate else mixed_numbers)(a.shape[:-2], batch)
        s_a = codes.scale.reshape(-1, a.shape[-2], 1)[numbers].reshape(*batch, a.shape[-2], 1)
        return (np.asarray((sums * s_a) * s_b if delegate else sums * (s_a * s_b)),)

    def xnnpack_takes(self, call: Call) -> bool:
        """Always."""
        return True

    def unsupported(self, call: Call) -> str | None:
        """Where a kernel computes with what does not belong to the operands."""
        if self.kernel_family(call) == "xnnpack":
            if self.constant_weights:
                return None
            return "the int8 operand is computed at run time; the XNNPACK delegate gives wrong results for it"
        own, batch = call.input(0).shape[:-2], call.output.shape[:-2]
        if self.asymmetric and mixed_numbers(own, batch) != matrix_numbers(own, batch):
            return "there are several leading dimensions; the interpreter mixes up their zero points"
        return None


def matrix_numbers(own: tuple[int, ...], wanted: tuple[int, ...]) -> list[int]:
    """Which of an operand's matrices each matrix of the result uses; leading dimensions broadcast."""
    numbers = np.arange(math.prod(own)).reshape(own)
    return [int(number) for number in np.broadcast_to(numbers, wanted).reshape(-1)]


def mixed_numbers(own: tuple[int, ...], wanted: tuple[int, ...]) -> list[int]:
    """Whose rows' scales the classic hybrid kernel uses: the sum of the indices, where not broadcast."""
    aligned = (1,) * (len(wanted) - len(own)) + own
    total = np.zeros(wanted, np.int64)
    for index, size in zip(np.indices(wanted), aligned, strict=True):
        total += index * (size > 1)
    return [int(number) for number in total.reshape(-1)]
