"""CONV_2D, DEPTHWISE_CONV_2D, FULLY_CONNECTED, BATCH_MATMUL and TRANSPOSE_CONV of float32."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from qimport.ir.graph import Array
from qimport.ir.types import TensorType
from qimport.qnn.float_batch_matmul import FloatBatchMatmul
from qimport.qnn.float_conv2d import FloatConv2d
from qimport.qnn.float_dense import FloatDense
from qimport.qnn.float_depthwise_conv2d import FloatDepthwiseConv2d
from qimport.qnn.float_transpose_conv import FloatTransposeConv
from tests.cases import ACTIVATIONS, Draw, Operand, OperatorCase, add_tensor, window_options
from tests.flatbuffer_builder import ModelBuilder
from tests.one_operator.model import OneOperator, generator


def floats(draw: Draw, shape: tuple[int, ...]) -> Array:
    """Normal numbers of any magnitude, or small integers (no sum rounds), sometimes one outlier."""
    if draw.pick(True, False, False, False):
        return draw.rng.integers(-4, 5, shape).astype(np.float32)
    data = draw.rng.standard_normal(shape) * 2.0 ** int(draw.rng.integers(-8, 9))
    if draw.pick(True, False, False):
        data.reshape(-1)[int(draw.rng.integers(data.size))] *= 1000
    return data.astype(np.float32)


def fed(draw: Draw, shape: tuple[int, ...]) -> Operand:
    """An operand the test feeds."""
    return Operand(TensorType("float32", shape), value=floats(draw, shape))


def known(draw: Draw, shape: tuple[int, ...]) -> Operand:
    """A constant operand."""
    return Operand(TensorType("float32", shape), floats(draw, shape))


def dense_case(draw: Draw) -> OperatorCase:
    """Any rank and tails; with and without bias; constant and computed weights."""
    depth, outputs = int(draw.rng.integers(1, 70)), int(draw.pick(1, 2, 3, 4, 7, 8, 9, 12, 15, 17, 33))
    if draw.pick(*[False] * 11, True):
        depth = int(draw.pick(1016, 1017, 1500, 2040, 3100))
    keep = bool(draw.pick(True, False))
    lead = draw.pick((1,), (1,), (3,), (2, 3), (1, 2, 2), (9,), (17,))
    x = fed(draw, (*lead, depth))
    w = known(draw, (outputs, depth)) if draw.pick(True, True, True, False) else fed(draw, (outputs, depth))
    bias = known(draw, (outputs,)) if draw.pick(True, True, False) else None
    out = TensorType("float32", (*lead, outputs) if keep else (int(np.prod(lead)), outputs))
    activation = draw.pick(*ACTIVATIONS)
    op = FloatDense(activation, constant_weights=w.data is not None)
    options = {"fused_activation_function": activation, "keep_num_dims": keep}
    return OperatorCase(op, (x, w, bias), out, "FULLY_CONNECTED", options)


def conv_case(draw: Draw) -> OperatorCase:
    """Windows, strides, dilations, groups, SAME and VALID."""
    size = (int(draw.rng.integers(1, 4)), int(draw.rng.integers(1, 4)))
    stride, dilation = draw.pick((1, 1), (1, 1), (2, 1), (2, 2)), draw.pick((1, 1), (1, 1), (2, 1), (2, 2))
    extent = (int(draw.rng.integers(1, 9)), int(draw.rng.integers(1, 9)))
    groups = int(draw.pick(1, 1, 1, 2, 5))
    depth, size_of_group = int(draw.pick(1, 2, 3, 4, 8, 13)), int(draw.pick(1, 2, 3, 4, 5, 8, 11, 16))
    channels, outputs = groups * depth, groups * size_of_group
    reach = tuple((n - 1) * d + 1 for n, d in zip(size, dilation, strict=True))
    name, padding, counts = draw.window(extent, (reach[0], reach[1]), stride)
    x, bias = fed(draw, (int(draw.pick(1, 1, 2)), *extent, channels)), known(draw, (outputs,))
    w = known(draw, (outputs, *size, depth))
    activation = draw.pick(*ACTIVATIONS)
    op = FloatConv2d(stride, dilation, padding, groups, activation)
    options = window_options(name, stride, dilation, activation)
    out = TensorType("float32", (x.type.shape[0], *counts, outputs))
    return OperatorCase(op, (x, w, bias), out, "CONV_2D", options)


def depthwise_case(draw: Draw) -> OperatorCase:
    """Windows up to 6 x 5, depth multipliers, dilation."""
    size = (int(draw.rng.integers(1, 7)), int(draw.rng.integers(1, 6)))
    stride, dilation = draw.pick((1, 1), (1, 1), (2, 2)), draw.pick((1, 1), (1, 1), (2, 2))
    extent = (int(draw.rng.integers(1, 9)), int(draw.rng.integers(1, 9)))
    channels, multiplier = int(draw.pick(1, 2, 3, 4, 8, 9, 17)), int(draw.pick(1, 1, 1, 2, 3, 8))
    outputs = channels * multiplier
    reach = tuple((n - 1) * d + 1 for n, d in zip(size, dilation, strict=True))
    name, padding, counts = draw.window(extent, (reach[0], reach[1]), stride)
    x, bias = fed(draw, (int(draw.pick(1, 1, 2)), *extent, channels)), known(draw, (outputs,))
    w = known(draw, (1, *size, outputs))
    activation = draw.pick(*ACTIVATIONS)
    op = FloatDepthwiseConv2d(stride, dilation, padding, activation)
    options = window_options(name, stride, dilation, activation, depth_multiplier=multiplier)
    out = TensorType("float32", (x.type.shape[0], *counts, outputs))
    return OperatorCase(op, (x, w, bias), out, "DEPTHWISE_CONV_2D", options)


def matmul_operands(draw: Draw) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], bool, bool]:
    """Shapes of two operands and their product, and which operands are transposed."""
    rows, depth, columns = (int(draw.rng.integers(1, limit)) for limit in (10, 40, 20))
    left, right = draw.pick(
        ((), ()), ((3,), (3,)), ((2, 3), (2, 3)), ((2, 1), (1, 3)), ((2,), ()), ((), (2,))
    )
    adj_x, adj_y = bool(draw.pick(True, False)), bool(draw.pick(True, False))
    a = (*left, depth, rows) if adj_x else (*left, rows, depth)
    b = (*right, columns, depth) if adj_y else (*right, depth, columns)
    return a, b, (*np.broadcast_shapes(left, right), rows, columns), adj_x, adj_y


def matmul_case(draw: Draw) -> OperatorCase:
    """Matrices of any rank, transposed or not, the right one perhaps constant."""
    a, b, out, adj_x, adj_y = matmul_operands(draw)
    right = known(draw, b) if draw.pick(True, False) else fed(draw, b)
    options = {"adj_x": adj_x, "adj_y": adj_y}
    result = TensorType("float32", out)
    return OperatorCase(
        FloatBatchMatmul(adj_x, adj_y), (fed(draw, a), right), result, "BATCH_MATMUL", options
    )


def transpose_case(draw: Draw) -> OperatorCase:
    """Windows larger and smaller than the stride, SAME and VALID, with and without bias."""
    size = (int(draw.rng.integers(1, 5)), int(draw.rng.integers(1, 5)))
    stride = draw.pick((1, 1), (2, 2), (2, 1), (3, 2))
    extent = (int(draw.rng.integers(1, 6)), int(draw.rng.integers(1, 6)))
    channels, outputs = int(draw.pick(1, 2, 3, 5, 17)), int(draw.pick(1, 2, 3, 4, 8, 9))
    name = draw.pick("SAME", "VALID")
    spare = [int(draw.rng.integers(step)) for step in stride]
    if name == "SAME":
        counts = [n * s - extra for n, s, extra in zip(extent, stride, spare, strict=True)]
    else:
        counts = [(n - 1) * s + k + extra for n, s, k, extra in zip(extent, stride, size, spare, strict=True)]
    reach = [(n - 1) * s + k for n, s, k in zip(extent, stride, size, strict=True)]
    offset = [max(whole - count, 0) // 2 for whole, count in zip(reach, counts, strict=True)]
    batch = int(draw.pick(1, 1, 2))
    x, w = fed(draw, (batch, *extent, channels)), known(draw, (outputs, *size, channels))
    bias = known(draw, (outputs,)) if draw.pick(True, False) else None
    activation = draw.pick(*ACTIVATIONS)
    gaps = name == "SAME" and (size[0] < stride[0] or size[1] < stride[1])
    op = FloatTransposeConv(stride, (offset[0], offset[1]), activation, not gaps)
    out = TensorType("float32", (batch, *counts, outputs))
    options = window_options(name, stride, activation=activation)
    return TransposeCase(op, (x, w, bias), out, "TRANSPOSE_CONV", options)


class TransposeCase(OperatorCase):
    """Writes the operands in the order of the file: the result's shape, weights, image, bias."""

    def file(self) -> bytes:
        """The .tflite file of the only operator."""
        model = ModelBuilder()
        x, w, bias = self.operands
        assert x is not None and w is not None
        shape = model.tensor((4,), "int32", data=np.array(self.output.shape, np.int32))
        weights, image = add_tensor(model, w.type, w.data), add_tensor(model, x.type)
        operands = [shape, weights, image]
        if bias is not None:
            operands.append(add_tensor(model, bias.type, bias.data))
        output = add_tensor(model, self.output)
        model.operator(self.builtin, operands, [output], 4, **self.options)
        return model.build([image], [output])


CASES: dict[str, Callable[[Draw], OperatorCase]] = {
    "FULLY_CONNECTED": dense_case,
    "CONV_2D": conv_case,
    "DEPTHWISE_CONV_2D": depthwise_case,
    "TRANSPOSE_CONV": transpose_case,
    "BATCH_MATMUL": matmul_case,
}
"""Random cases by operator."""

for _name, _case in CASES.items():
    generator(f"{_name} float32")(lambda draw, case=_case: OneOperator.of(case(draw)))
