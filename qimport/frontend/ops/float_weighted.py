"""What weighted operators ask of float32 activations and their weights, float32 or integer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from qimport.frontend.ops import checks
from qimport.frontend.ops.context import OperatorContext
from qimport.ir.graph import Value
from qimport.ir.types import Quantization, TensorType

INTEGER_WEIGHTS = ("int8", "uint8", "int4")
"""Element types of weights that kernels for float32 activations know."""


def is_float(context: OperatorContext) -> bool:
    """Whether the activations are float32, whatever the weights are."""
    return context.input(0).type.dtype == "float32"


def is_hybrid(context: OperatorContext) -> bool:
    """Whether the weights beside float32 activations are integers."""
    return context.input(1).type.dtype in INTEGER_WEIGHTS


def read_floats(
    context: OperatorContext,
    positions: tuple[int, int, int] = (0, 1, 2),
    *,
    axis: int = 0,
    integers: Sequence[str] = (),
) -> tuple[Value, Value, Value | None]:
    """Return activations, weights and bias at these positions, all float32 like the result.

    The weights may also have one of the element types ``integers``: see :func:`hybrid_weights`.
    """
    x, weights = (context.input(position) for position in positions[:2])
    bias = context.optional(positions[2])
    checks.one_of(context, x, ("float32",))
    for value in (bias, context.out):
        if value is not None and value.type.dtype != "float32":
            found = f"the element type is {value.type.dtype} beside float32 activations"
            context.unsupported(f"{found}; expected float32", value)
    if weights.type.dtype != "float32":
        weights = hybrid_weights(context, axis, integers)
    return x, weights, bias


def hybrid_weights(context: OperatorContext, axis: int, dtypes: Sequence[str]) -> Value:
    """Return the weights, operand 1, as int8 or int4 with one scale, or one per index of dimension ``axis``.

    Weights of old files are typed uint8 and mean int8: the kernels read the same bytes as int8, and take no
    zero point off either.
    """
    weights = context.input(1)
    if weights.type.dtype not in dtypes:
        found = f"the weights have element type {weights.type.dtype} beside float32 activations"
        context.unsupported(f"{found}; expected {', '.join(('float32', *dtypes))}", weights)
    checks.one_of(context, context.out, ("float32",))
    q = checks.quantization(context, weights)
    extent = weights.type.shape[axis] if axis < len(weights.type.shape) else 0
    if len(q.scales) not in (1, extent):
        context.unsupported(f"the weights have {len(q.scales)} scales; expected 1 or {extent}", weights)
    if weights.type.dtype == "uint8":
        if weights.data is None:
            context.unsupported("the uint8 weights are no constant", weights)
        zeros = (0,) * len(q.scales)
        kept = Quantization(q.scales, zeros, axis if len(q.scales) > 1 else None)
        view = np.ascontiguousarray(weights.data).view(np.int8)
        return Value(TensorType("int8", weights.type.shape, kept), weights.name, view)
    if weights.type.dtype == "int4" and weights.data is None:
        context.unsupported("the int4 weights are no constant", weights)
    if len(q.scales) > 1 and q.axis != axis:
        kept = Quantization(q.scales, q.zero_points, axis)
        return Value(TensorType(weights.type.dtype, weights.type.shape, kept), weights.name, weights.data)
    return weights
