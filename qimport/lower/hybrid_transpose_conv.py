"""TRANSPOSE_CONV of float activations and int8 weights."""

from __future__ import annotations

import numpy as np

from qimport.ir.graph import Value
from qimport.lower.float_transpose_conv import placed, spread
from qimport.lower.float_weighted import Window, emit_activation, emit_sums
from qimport.lower.hybrid import apply_scales, emit_rows
from qimport.lower.rule import Emitter, Use, rule
from qimport.lower.transpose_conv import emit_phases, interleave
from qimport.qnn.float_weighted import REFERENCE
from qimport.qnn.hybrid_transpose_conv import HybridTransposeConv
from qimport.summation import Float32


@rule(HybridTransposeConv)
def lower_hybrid_transpose_conv(emit: Emitter, op: HybridTransposeConv, use: Use) -> Value:
    """Images are the rows that are quantized; their codes lose the zero point at once."""
    x, w = use.operand(0), use.operand(1)
    images = x.type.shape[0]
    rows = emit_rows(emit, emit.reshape(x, (images, x.type.size // images)), op.dynamic_kind(use.call))
    assert rows.zero is not None
    centred = emit.reshape(emit.binary("sub", emit.cast(rows.codes, "int32"), rows.zero), x.type.shape)
    scale = emit.reshape(rows.scale, (images, 1, 1, 1))
    bias = use.operands[2] if len(use.operands) > 2 else None
    bias = emit.constant(np.zeros(w.type.shape[0], np.float32)) if bias is None else bias
    lower = _delegated if op.kernel_family(use.call) == "xnnpack" else _classic
    result = lower(emit, op, use, (centred, scale, bias))
    return emit_activation(emit, result, op.activation, op.kernel_family(use.call))


def _delegated(emit: Emitter, op: HybridTransposeConv, use: Use, parts: tuple[Value, Value, Value]) -> Value:
    """Integer sums, then both scales and the bias."""
    centred, scale, bias = parts
    outputs = use.operand(1).type.shape[0]
    codes, none = emit.cast(centred, "int16"), emit.constant(np.zeros(outputs, np.int32))
    acc, axes = emit_phases(emit, op, (codes, use.operand(1), none), (0, 0), use.output.shape)
    sums = emit.cast(interleave(emit, acc, op.stride, axes), "float32")
    return apply_scales(emit, "fused", sums, scale, _scales(use), bias)


def _classic(emit: Emitter, op: HybridTransposeConv, use: Use, parts: tuple[Value, Value, Value]) -> Value:
    """Products of a tap, channel by channel, lie where they fall; a sum along them goes on with the total."""
    centred, scale, bias = parts
    data = use.operand(1).data
    assert data is not None
    outputs, kh, kw, depth = data.shape
    count = use.output.size // outputs
    x = emit.cast(emit.reshape(centred, (*centred.type.shape, 1)), "float32")
    scale = emit.reshape(scale, (*scale.type.shape, 1))
    ones = emit.constant(np.ones((depth + 1, 1, 1, outputs), np.float32))
    total = emit.constant(np.zeros((count, 1, 1, outputs), np.float32))
    for tap in reversed(range(kh * kw)):
        r, c = divmod(tap, kw)
        w = emit.constant(np.ascontiguousarray(data[:, r, c].T.astype(np.float32)))
        products = emit.binary("mul", emit.binary("mul", x, w), emit.constant(_scales(use)))
        products = emit.binary("mul", products, scale)
        flat = emit.reshape(products, (*centred.type.shape[:3], depth * outputs))
        image = placed(emit, op, use, spread(emit, flat, op.stride), (r, c), (1, 1))
        if image is not None:
            terms = emit.concat((total, emit.reshape(image, (count, depth, 1, outputs))), 1)
            total = emit_sums(emit, terms, ones, None, Window(groups=outputs), REFERENCE)
    return emit.binary("add", emit.reshape(total, use.output.shape), bias)


def _scales(use: Use) -> Float32:
    return np.array(use.call.input(1).quant.scales, np.float32)
