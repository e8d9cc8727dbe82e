"""Constraints that many qnn operations share, so that each is worded once."""

from __future__ import annotations

from collections.abc import Mapping

from qimport.ir.check import require
from qimport.ir.graph import Call
from qimport.ir.types import TensorType

EIGHT_BIT = ("int8", "uint8")
QUANTIZED = (*EIGHT_BIT, "int16")


def require_per_tensor(label: str, *types: TensorType) -> None:
    """Every type has one scale and one zero point."""
    for type_ in types:
        single = type_.quantization is not None and len(type_.quant.scales) == 1
        require(single, label, f"{type_} needs one scale and one zero point")


def require_multiplier(label: str, before: TensorType, after: TensorType) -> None:
    """The ratio of the scales has a 32-bit multiplier whose left shift is under 32."""
    ratio = before.quant.scale / after.quant.scale
    require(ratio < 2**31, label, f"the scale of {before} is more than 2^31 times that of {after}")


def require_normalization(call: Call, fixed: Mapping[str, tuple[float, int]]) -> None:
    """C1: one type, float32 or one of ``fixed``, and one shape. C2: scale and zero point of the result."""
    x, out = call.input(0), call.output
    require(x.dtype in (*fixed, "float32"), "C1", f"{x} is not {', '.join(fixed)} or float32")
    require_same_dtype("C1", call)
    require_same_shape("C1", call)
    require(len(x.shape) >= 1, "C1", "the operand needs a dimension")
    if x.dtype != "float32":
        require_per_tensor("C1", x, out)
        found, wanted = (out.quant.scale, out.quant.zero_point), fixed[out.dtype]
        require(found == wanted, "C2", f"the output must be {wanted}, not {found}")


def require_same_shape(label: str, call: Call) -> None:
    """The result has the shape of the first operand."""
    x, out = call.input(0), call.output
    require(x.shape == out.shape, label, f"{x} and {out} differ in shape")


def require_same_dtype(label: str, call: Call) -> None:
    """The result and all operands have one element type."""
    for index in range(len(call.inputs)):
        x = call.input(index)
        require(x.dtype == call.output.dtype, label, f"{x} and {call.output} differ in element type")
