"""CONV_2D, DEPTHWISE_CONV_2D and FULLY_CONNECTED of float32 activations and integer weights."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from qimport.frontend.ops import checks
from qimport.frontend.ops.context import OperatorContext
from qimport.ir.graph import Value
from qimport.ir.types import Quantization, TensorType

_INTEGERS = ("int8", "uint8", "int4")


def is_hybrid(context: OperatorContext, position: int = 1) -> bool:
    """Whether float32 activations meet integer weights at this operand."""
    return context.input(position).type.dtype in _INTEGERS


def hybrid_weights(
    context: OperatorContext, axis: int, dtypes: Sequence[str] = _INTEGERS, position: int = 1
) -> Value:
    """Return the weights as int8 or int4 with one scale, or one per index of dimension ``axis``.

    Weights of old files are typed uint8 and mean int8: the kernels read the same bytes as int8, and take no
    zero point off either.
    """
    weights = context.input(position)
    if weights.type.dtype not in dtypes:
        found = f"the weights have element type {weights.type.dtype} beside float32 activations"
        context.unsupported(f"{found}; expected float32, {', '.join(dtypes)}", weights)
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
