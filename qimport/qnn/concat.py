"""``qnn.concat``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from qimport import fixedpoint as fp
from qimport.ir.check import require
from qimport.ir.graph import Array, Call, operation
from qimport.ir.types import INTEGER_RANGE, TensorType
from qimport.qnn.base import QnnOperation
from qimport.qnn.checks import EIGHT_BIT, require_per_tensor, require_same_dtype
from qimport.qnn.unary import code_range


@operation
@dataclass(frozen=True)
class Concat(QnnOperation):
    """Operands one after the other along ``axis``; any element type.

    uint8 operands whose quantization differs from the result's are converted in float32
    (``ConcatenationWithScaling``): c = f32(s * f32(1 / s_out)),
    clamp(round_away(f32(f32(x * c) + f32(-z * c))) + z_out). All else is copied.
    Equal in all modes: the delegate takes 2 to 5 operands and copies them.

    C1 one element type. C2 shapes agree outside ``axis``, where they add up. C3 int8: every operand has the
    result's quantization. C4 int16: zero points are 0 (scales may differ and are ignored). C5 uint8: one
    scale and zero point each, or no quantization at all.
    """

    NAME = "qnn.concat"
    TFLITE: ClassVar[tuple[str, ...]] = ("CONCATENATION",)

    axis: int

    def verify(self, call: Call) -> None:
        """Check C1-C5."""
        out, parts = call.output, [call.input(i) for i in range(len(call.inputs))]
        require_same_dtype("C1", call)
        require(0 <= self.axis < len(out.shape), "C2", f"{out} has no dimension {self.axis}")
        for part in parts:
            outside = [shape[: self.axis] + shape[self.axis + 1 :] for shape in (part.shape, out.shape)]
            fits = len(part.shape) == len(out.shape) and outside[0] == outside[1]
            require(fits, "C2", f"{part} does not fit into {out}")
        total = sum(part.shape[self.axis] for part in parts)
        require(total == out.shape[self.axis], "C2", f"sizes along dimension {self.axis} add up to {total}")
        for part in parts:
            self._verify_quantization(part, out)

    @staticmethod
    def _verify_quantization(part: TensorType, out: TensorType) -> None:
        if out.dtype == "int8":
            require(part.quantization == out.quantization, "C3", f"{part} is quantized unlike {out}")
        elif out.dtype == "int16":
            zeros = {z for t in (part, out) if t.quantization is not None for z in t.quant.zero_points}
            require(zeros <= {0}, "C4", f"int16 needs zero point 0: {part}, {out}")
        elif out.dtype == "uint8" and part.quantization != out.quantization:
            require_per_tensor("C5", part, out)

    def xnnpack_takes(self, call: Call) -> bool:
        """2 to 5 8-bit or float operands that are only copied."""
        parts = [call.input(i) for i in range(len(call.inputs))]
        known = call.output.dtype in (*EIGHT_BIT, "float32")
        return known and 2 <= len(parts) <= 5 and not any(self.converts(p, call.output) for p in parts)

    @staticmethod
    def converts(part: TensorType, out: TensorType) -> bool:
        """Whether this operand's codes change on the way."""
        return out.dtype == "uint8" and part.quantization != out.quantization

    @staticmethod
    def conversion_table(part: TensorType, out: TensorType) -> Array:
        """The result's code for each of the 256 codes of a uint8 operand."""
        with np.errstate(all="ignore"):
            scale = np.float32(part.quant.scale) * (np.float32(1) / np.float32(out.quant.scale))
            bias = np.float32(-part.quant.zero_point) * scale
            real = code_range("uint8").astype(np.float32) * scale + bias
            codes = fp.float_to_int32(fp.round_away(real)) + out.quant.zero_point
        return np.clip(codes, *INTEGER_RANGE["uint8"]).astype(np.uint8)

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """NumPy concatenate after the conversions."""
        arrays = []
        for index in range(len(call.arrays)):
            part, array = call.input(index), call.array(index)
            converts = self.converts(part, call.output)
            arrays.append(self.conversion_table(part, call.output)[array] if converts else array)
        return (np.concatenate(arrays, self.axis),)
