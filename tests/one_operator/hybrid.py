"""CONV_2D, DEPTHWISE_CONV_2D and FULLY_CONNECTED of float32 activations and int8 or int4 weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from qimport.ir.types import Quantization, TensorType
from qimport.qnn.float_batch_matmul import HybridBatchMatmul
from qimport.qnn.float_transpose_conv import FloatTransposeConv
from qimport.qnn.hybrid_conv2d import HybridConv2d
from qimport.qnn.hybrid_dense import HybridDense
from qimport.qnn.hybrid_depthwise_conv2d import HybridDepthwiseConv2d
from qimport.qnn.hybrid_transpose_conv import HybridTransposeConv
from tests.cases import ACTIVATIONS, Draw, Operand, OperatorCase, window_options
from tests.one_operator.float_weighted import known, matmul_operands
from tests.one_operator.float_weighted import transpose_case as float_transpose_case
from tests.one_operator.model import OneOperator, generator


def activations(draw: Draw, shape: tuple[int, ...]) -> Operand:
    """Numbers near ties of their quantization, rows of zeros, one outlier, images of different ranges."""
    data = draw.rng.standard_normal(shape)
    if draw.ties:
        data = draw.rng.integers(-127, 128, shape) * draw.pick(1.0, 0.5, 0.25)
    data = data * 2.0 ** int(draw.rng.integers(-10, 11))
    if draw.pick(True, False, False):
        data.reshape(-1)[int(draw.rng.integers(data.size))] *= 50
    if draw.pick(True, False, False):
        data[0] *= draw.pick(0.0, 100.0, 0.01)
    if draw.pick(True, False, False, False):
        data = np.abs(data) * draw.pick(1, -1)
    return Operand(TensorType("float32", shape), value=data.astype(np.float32))


def weights(draw: Draw, dtype: str, shape: tuple[int, ...], axis: int, several: bool) -> Operand:
    """Constant int8 or int4 weights with one scale, or one per channel, perhaps all the same.

    Sometimes the code that converters avoid is among them, which kernels get wrong.
    """
    limit = 7 if dtype == "int4" else 127
    data = draw.rng.integers(-limit, limit + 1, shape).astype(np.int8)
    if draw.pick(True, False, False):
        data[draw.rng.random(shape) < 0.1] = -limit - 1
    count = shape[axis] if several else 1
    scales = [draw.scale(1e-4, 1.0) for _ in range(count)]
    if draw.pick(True, False, False, False):
        scales = scales[:1] * count
    q = Quantization(tuple(scales), (0,) * count, axis if count > 1 else None)
    return Operand(TensorType(dtype, shape, q), data)


def dense_case(draw: Draw) -> OperatorCase:
    """Any rank and tails; with and without bias; constant and computed weights; int4."""
    depth, outputs = int(draw.rng.integers(1, 70)), int(draw.rng.integers(1, 34))
    keep, dtype = bool(draw.pick(True, False)), draw.pick("int8", "int8", "int4")
    lead = draw.pick((1,), (3,), (2, 3), (1, 2, 2))
    x = activations(draw, (*lead, depth))
    w = weights(draw, dtype, (outputs, depth), 0, bool(draw.pick(True, False)))
    if dtype == "int8" and draw.pick(*[False] * 4, True):
        w = Operand(w.type, value=w.data)
    bias = known(draw, (outputs,)) if draw.pick(True, True, False) else None
    out = TensorType("float32", (*lead, outputs) if keep else (int(np.prod(lead)), outputs))
    activation, asymmetric = draw.pick(*ACTIVATIONS), bool(draw.pick(True, False))
    op = HybridDense(activation, asymmetric, constant_weights=w.data is not None)
    options = {
        "fused_activation_function": activation,
        "keep_num_dims": keep,
        "asymmetric_quantize_inputs": asymmetric,
    }
    return OperatorCase(op, (x, w, bias), out, "FULLY_CONNECTED", options)


def conv_case(draw: Draw) -> OperatorCase:
    """Windows, strides, dilations, groups, SAME and VALID; pointwise layers often."""
    size = draw.pick((1, 1), (int(draw.rng.integers(1, 4)), int(draw.rng.integers(1, 4))))
    stride, dilation = draw.pick((1, 1), (1, 1), (2, 1), (2, 2)), draw.pick((1, 1), (1, 1), (2, 1), (2, 2))
    extent = (int(draw.rng.integers(1, 8)), int(draw.rng.integers(1, 8)))
    groups, dtype = int(draw.pick(1, 1, 1, 2, 3)), draw.pick("int8", "int8", "int4")
    depth, size_of_group = int(draw.pick(1, 2, 3, 4, 8, 13)), int(draw.pick(1, 2, 3, 4, 5, 11))
    channels, outputs = groups * depth, groups * size_of_group
    reach = tuple((n - 1) * d + 1 for n, d in zip(size, dilation, strict=True))
    name, padding, counts = draw.window(extent, (reach[0], reach[1]), stride)
    x = activations(draw, (int(draw.pick(1, 2)), *extent, channels))
    w = weights(draw, dtype, (outputs, *size, depth), 0, groups > 1 or bool(draw.pick(True, False)))
    activation = draw.pick(*ACTIVATIONS)
    op = HybridConv2d(stride, dilation, padding, groups, activation)
    options = window_options(name, stride, dilation, activation)
    out = TensorType("float32", (x.type.shape[0], *counts, outputs))
    return OperatorCase(op, (x, w, known(draw, (outputs,))), out, "CONV_2D", options)


def depthwise_case(draw: Draw) -> OperatorCase:
    """Windows, depth multipliers, dilation."""
    size = (int(draw.rng.integers(1, 5)), int(draw.rng.integers(1, 5)))
    stride, dilation = draw.pick((1, 1), (1, 1), (2, 2)), draw.pick((1, 1), (1, 1), (2, 2))
    extent = (int(draw.rng.integers(1, 9)), int(draw.rng.integers(1, 9)))
    channels, multiplier = int(draw.pick(1, 2, 3, 4, 8, 9, 17)), int(draw.pick(1, 1, 1, 2, 3, 8))
    outputs = channels * multiplier
    reach = tuple((n - 1) * d + 1 for n, d in zip(size, dilation, strict=True))
    name, padding, counts = draw.window(extent, (reach[0], reach[1]), stride)
    x = activations(draw, (int(draw.pick(1, 2)), *extent, channels))
    w = weights(draw, "int8", (1, *size, outputs), 3, True)
    activation = draw.pick(*ACTIVATIONS)
    op = HybridDepthwiseConv2d(stride, dilation, padding, activation)
    options = window_options(name, stride, dilation, activation, depth_multiplier=multiplier)
    out = TensorType("float32", (x.type.shape[0], *counts, outputs))
    return OperatorCase(op, (x, w, known(draw, (outputs,))), out, "DEPTHWISE_CONV_2D", options)


def transpose_case(draw: Draw) -> OperatorCase:
    """The cases of floats with integer weights."""
    case = float_transpose_case(draw)
    x, w, _ = case.operands
    assert isinstance(case.op, FloatTransposeConv) and x is not None and w is not None
    op = HybridTransposeConv(case.op.stride, case.op.offset, case.op.activation, case.op.constant_weights)
    integers = weights(draw, "int8", w.type.shape, 0, bool(draw.pick(True, False)))
    return replace(case, op=op, operands=(activations(draw, x.type.shape), integers, case.operands[2]))


def with_old_weights(draw: Draw, case: OperatorCase) -> OperatorCase:
    """The case with its int8 weights typed uint8, and perhaps a zero point that says nothing."""
    x, w, bias = case.operands
    assert w is not None
    if w.data is None or w.type.dtype != "int8" or len(w.type.quant.scales) > 1:
        return case
    q = Quantization(w.type.quant.scales, (int(draw.pick(0, 128)),))
    old = Operand(TensorType("uint8", w.type.shape, q), w.data.view(np.uint8))
    return replace(case, operands=(x, old, bias))


@generator("hybrid with uint8 weights")
def old_weights(draw: Draw) -> OneOperator:
    """Weights typed uint8 that mean int8."""
    return OneOperator.of(with_old_weights(draw, draw.pick(dense_case, conv_case)(draw)))


def matmul_case(draw: Draw, computed: bool = False) -> OperatorCase:
    """Float times int8 matrices, the right one perhaps computed, for which the delegate has no results."""
    a, b, out, adj_x, adj_y = matmul_operands(draw)
    w = weights(draw, "int8", b, len(b) - (2 if adj_y else 1), several=False)
    if computed:
        w = Operand(w.type, value=w.data)
    # Asymmetric products with several leading dimensions are nonsense.
    asymmetric = bool(draw.pick(True, False)) and len(a) < 4
    op = HybridBatchMatmul(adj_x, adj_y, asymmetric, constant_weights=w.data is not None)
    options = {"adj_x": adj_x, "adj_y": adj_y, "asymmetric_quantize_inputs": asymmetric}
    result = TensorType("float32", out)
    return OperatorCase(op, (activations(draw, a), w), result, "BATCH_MATMUL", options)


CASES: dict[str, Callable[[Draw], OperatorCase]] = {
    "FULLY_CONNECTED": dense_case,
    "CONV_2D": conv_case,
    "DEPTHWISE_CONV_2D": depthwise_case,
    "TRANSPOSE_CONV": transpose_case,
    "BATCH_MATMUL": matmul_case,
}
"""Random cases by operator."""

for _name, _case in CASES.items():
    generator(f"{_name} hybrid")(lambda draw, case=_case: OneOperator.of(case(draw)))
