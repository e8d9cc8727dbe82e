"""Constraints that several operators share. Every refusal says what was found and what is expected."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from qimport.frontend.ops.context import OperatorContext
from qimport.ir.graph import Value
from qimport.ir.types import DTYPES, Quantization

EIGHT_BIT = ("int8", "uint8")
MOVABLE = tuple(DTYPES)
"""Element types of operators that only move data."""

ACTIVATIONS = ("NONE", "RELU", "RELU6", "RELU_N1_TO_1")
"""Fused activations that the interpreter's 8-bit kernels know."""

SCALE_LIMIT = 2.0**30


def one_of(context: OperatorContext, value: Value, dtypes: Sequence[str]) -> None:
    """Check that the tensor has one of these element types."""
    found = value.type.dtype
    if found not in dtypes:
        context.unsupported(f"the element type is {found}; expected {' or '.join(dtypes)}", value)


def same_type(context: OperatorContext, first: Value, value: Value) -> None:
    """Check that both tensors have the same element type."""
    wanted, found = first.type.dtype, value.type.dtype
    if found != wanted:
        context.unsupported(
            f"the element type is {found}; expected {wanted} like tensor {first.name!r}", value
        )


def per_tensor(context: OperatorContext, value: Value) -> None:
    """Check that the tensor is quantized with a single scale."""
    count = len(quantization(context, value).scales)
    if count != 1:
        context.unsupported(f"it has {count} scales; expected 1", value)


def quantization(context: OperatorContext, value: Value) -> Quantization:
    """Return the quantization of a tensor that must have one."""
    found = value.type.quantization
    if found is None:
        context.unsupported(f"the {value.type.dtype} tensor has no scale; expected a quantized tensor", value)
    return found


def moves(context: OperatorContext, *values: Value) -> None:
    """Check that operands and result of a data movement have one element type, and one that can be moved."""
    first = values[0]
    if first.type.dtype not in MOVABLE:
        context.unsupported(
            f"the element type is {first.type.dtype}; expected one of {', '.join(MOVABLE)}", first
        )
    for value in values[1:]:
        same_type(context, first, value)


def equal_quantization(context: OperatorContext, value: Value, result: Value | None = None) -> None:
    """Check that the operand has the scale and zero point of the (first) result."""
    out = result or context.out
    found, wanted = value.type.quantization, out.type.quantization
    if _codes(found) == _codes(wanted):
        return
    context.require(
        False, f"{_describe(found)}; expected {_describe(wanted)} like the result {out.name!r}", value
    )


def _codes(found: Quantization | None) -> tuple[tuple[float, ...], tuple[int, ...]] | None:
    return None if found is None else (found.scales, found.zero_points)


def _describe(found: Quantization | None) -> str:
    if found is None:
        return "no scale"
    if len(found.scales) > 1:
        return f"{len(found.scales)} scales"
    return f"scale {found.scale:.9g}, zero point {found.zero_point}"


def scale_factor(context: OperatorContext, factor: float, what: str) -> None:
    """Check that a factor between scales has a fixed-point form with a sensible shift."""
    context.require(factor < SCALE_LIMIT, f"{what} is {factor:g}; expected less than 2^30", context.out)


def activation(context: OperatorContext) -> str:
    """Return the fused activation; refuse one that 8-bit kernels do not know."""
    name: str = context.option("fused_activation_function")
    context.require(name in ACTIVATIONS, f"the fused activation is {name}; expected {', '.join(ACTIVATIONS)}")
    quantized, bound = context.out.type.quantization, 6.0 if name == "RELU6" else 1.0
    if quantized is not None and name in ("RELU6", "RELU_N1_TO_1"):
        sentence = f"{name} ends {bound / quantized.scale:g} steps from zero; expected less than 2^31"
        context.require(bound / quantized.scale < 2**31 - 2**16, sentence, context.out)
    return name


def follow_batch(context: OperatorContext, x: Value, wanted: tuple[int, ...]) -> tuple[int, ...]:
    """Return a constant shape for ``x`` that does not fit, with its baked batch of 1 made the chosen one.

    Only where that is provable: both shapes begin with 1 in the file, and nothing but the leading dimension
    of ``x`` changed. Then what the operator did to the only row it can do to each row by itself.
    """
    stated, shape = context.stated_shape(x), x.type.shape
    if not stated or stated[0] != 1 or stated[1:] != shape[1:] or wanted[:1] != (1,):
        return wanted
    return (shape[0], *wanted[1:])


def rank(context: OperatorContext, value: Value, wanted: int) -> None:
    """Check that the tensor has this many dimensions."""
    shape = value.type.shape
    if len(shape) != wanted:
        context.misfit(f"tensor {value.name!r} has shape {shape}; expected {wanted} dimensions", value)


def broadcast(context: OperatorContext, values: Sequence[Value]) -> tuple[int, ...]:
    """Return the common shape of tensors that stretch along dimensions of size 1."""
    shapes = [value.type.shape for value in values]
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        names = " and ".join(f"{value.name!r} of shape {value.type.shape}" for value in values)
        context.misfit(f"tensors {names} do not broadcast", values[-1])
