"""DEPTHWISE_CONV_2D against its lowering and the interpreter."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from qimport.errors import VerifyError
from qimport.ir.graph import Call
from qimport.ir.types import Quantization, TensorType
from qimport.oracle import Oracle
from qimport.qnn.depthwise_conv2d import DepthwiseConv2d
from tests.cases import ACTIVATIONS, Draw, Operand, OperatorCase, window_options
from tests.single_op import quantized


def random_case(seed: int) -> OperatorCase:
    """Any strides, dilations, paddings, multipliers, channel tails and quantization."""
    draw = Draw.of(seed)
    dtype, channels, multiplier = draw.dtype(), draw.pick(1, 2, 3, 7, 8, 9, 16, 17, 33), draw.pick(1, 1, 2, 4)
    outputs = channels * multiplier
    kernel, stride = (draw.pick(1, 2, 3), draw.pick(1, 2, 3, 5)), (draw.pick(1, 2, 3), draw.pick(1, 1, 2))
    dilation = (draw.pick(1, 1, 2), draw.pick(1, 1, 3))
    extent = (draw.pick(1, 4, 5, 7), draw.pick(3, 5, 6))
    x = draw.tensor(dtype, (draw.pick(1, 1, 2), *extent, channels))
    w = draw.weights(dtype, (1, *kernel, outputs), 3, per_channel=bool(draw.pick(True, True, False)))
    if len(w.type.quant.scales) == 1 and draw.pick(True, False):
        q = w.type.quant
        w = Operand(TensorType(dtype, w.type.shape, Quantization(q.scales, q.zero_points, 3)), w.data)
    reach = ((kernel[0] - 1) * dilation[0] + 1, (kernel[1] - 1) * dilation[1] + 1)
    name, padding, counts = draw.window(extent, reach, stride)
    out = draw.weighted_output(x, w, kernel[0] * kernel[1], (x.shape[0], *counts, outputs))
    bias = draw.bias(x, w.type, outputs)
    return depthwise_case(draw.fed(x), w, bias, out, name, padding, stride, dilation, draw.pick(*ACTIVATIONS))


def depthwise_case(
    x: Operand,
    w: Operand,
    bias: Operand | None,
    out: TensorType,
    name: str = "VALID",
    padding: tuple[tuple[int, int], tuple[int, int]] = ((0, 0), (0, 0)),
    stride: tuple[int, int] = (1, 1),
    dilation: tuple[int, int] = (1, 1),
    activation: str = "NONE",
) -> OperatorCase:
    """A depthwise convolution and its file."""
    multiplier = w.type.shape[3] // x.type.shape[3]
    options = window_options(name, stride, dilation, activation, depth_multiplier=multiplier)
    op = DepthwiseConv2d(stride, dilation, padding, activation)
    return OperatorCase(op, (x, w, bias), out, "DEPTHWISE_CONV_2D", options)


@pytest.mark.parametrize("seed", range(60))
def test_equals_interpreter(seed: int, oracle: Oracle) -> None:
    random_case(seed).check(oracle)


def test_channel_times_multiplier(oracle: Oracle) -> None:
    """C13: 3 channels, multiplier 4, twelve scales: output channel c * 4 + j reads channel c."""
    x = quantized("int8", (1, 1, 1, 3), 1.0, 0)
    fed = Operand(x, value=np.array([1, 2, 3], np.int8).reshape(x.shape))
    q = Quantization(tuple(float(i + 1) for i in range(12)), (0,) * 12, 3)
    w = Operand(TensorType("int8", (1, 1, 1, 12), q), np.ones((1, 1, 1, 12), np.int8))
    bias = Operand(TensorType("int32", (12,), replace(q, axis=0)), np.zeros(12, np.int32))
    out = quantized("int8", (1, 1, 1, 12), 1.0, 0)
    wanted = [1, 2, 3, 4, 10, 12, 14, 16, 27, 30, 33, 36]
    for codes in depthwise_case(fed, w, bias, out).check(oracle).values():
        assert codes.ravel().tolist() == wanted


@pytest.mark.parametrize(("kernel", "stride"), [((3, 1), 2), ((1, 3), 2), ((1, 1), 2), ((2, 5), 3)])
def test_same_padding_per_axis(kernel: tuple[int, int], stride: int, oracle: Oracle) -> None:
    """C12: kernels that are not square, also shorter than the stride."""
    draw = Draw.of(3)
    x, w = draw.tensor("int8", (1, 8, 8, 2)), draw.weights("int8", (1, *kernel, 2), 3, True)
    count = -(-8 // stride)
    totals = [max((count - 1) * stride + k - 8, 0) for k in kernel]
    top, left = ((total // 2, total - total // 2) for total in totals)
    out = draw.weighted_output(x, w, kernel[0] * kernel[1], (1, count, count, 2))
    bias = draw.bias(x, w.type, 2)
    depthwise_case(draw.fed(x), w, bias, out, "SAME", (top, left), (stride, stride)).check(oracle)


def test_blocks_of_eight_channels(oracle: Oracle) -> None:
    """The accumulator -4 eighths rounds to 0 in a block of the optimized kernel and to -1 behind the last."""
    x = quantized("int8", (1, 1, 1, 19), 1.0, 0)
    fed = Operand(x, value=np.full(x.shape, -4, np.int8))
    w = Operand(quantized("int8", (1, 1, 1, 19), 1.0, 0), np.ones((1, 1, 1, 19), np.int8))
    bias = Operand(quantized("int32", (19,), 1.0, 0), np.zeros(19, np.int32))
    results = depthwise_case(fed, w, bias, quantized("int8", x.shape, 8.0, 0)).check(oracle)
    assert results["builtin"].ravel().tolist() == [0] * 16 + [-1] * 3
    assert results["reference"].ravel().tolist() == [-1] * 19
    assert results["xnnpack"].ravel().tolist() == [0] * 19


def test_uint8_with_dimension_three_stays_with_builtin(oracle: Oracle) -> None:
    draw = Draw.of(5)
    x, w = draw.tensor("uint8", (1, 3, 3, 9)), draw.weights("uint8", (1, 2, 2, 9), 3, False)
    stated = Operand(replace(w.type, quantization=replace(w.type.quant, axis=3)), w.data)
    out, bias = draw.weighted_output(x, w, 4, (1, 2, 2, 9)), draw.bias(x, w.type, 9)
    for weights, family in ((w, "xnnpack"), (stated, "builtin")):
        case = depthwise_case(draw.fed(x), weights, bias, out)
        assert case.op.kernel_family(case.call("xnnpack")) == family
        case.check(oracle)


@pytest.mark.parametrize(
    ("channels", "multiplier", "taps", "wanted"),
    [(4, 1, 25, -128), (4, 1, 26, 127), (4, 2, 1, 127), (1, 1, 1, -128)],
)
def test_results_below_int32_in_xnnpack(
    channels: int, multiplier: int, taps: int, wanted: int, oracle: Oracle
) -> None:
    """-2^30 times 2 and a negative zero point wrap only where the delegate uses its GEMM kernels."""
    outputs = channels * multiplier
    x, kernel = quantized("int8", (1, 2, 30, channels), 1.0, 0), (1, 1, taps, outputs)
    w = Operand(quantized("int8", kernel, 2.0, 0), np.ones(kernel, np.int8))
    bias = Operand(quantized("int32", (outputs,), 2.0, 0), np.full(outputs, -(2**30), np.int32))
    fed = Operand(x, value=np.zeros(x.shape, np.int8))
    out = quantized("int8", (1, 2, 31 - taps, outputs), 1.0, -1)
    results = depthwise_case(fed, w, bias, out).check(oracle)
    assert set(results["xnnpack"].reshape(-1).tolist()) == {wanted}


def test_absent_bias(oracle: Oracle) -> None:
    """The reference kernel takes it for zeros; the optimized one reads it."""
    draw = Draw.of(8)
    x, w = draw.tensor("int8", (1, 3, 3, 9)), draw.weights("int8", (1, 2, 2, 9), 3, True)
    case = depthwise_case(draw.fed(x), w, None, draw.weighted_output(x, w, 4, (1, 2, 2, 9)))
    assert list(case.check(oracle)) == ["reference"]


def test_computed_weights(oracle: Oracle) -> None:
    draw = Draw.of(6)
    x, w = draw.tensor("int8", (1, 3, 3, 3)), draw.weights("int8", (1, 2, 2, 6), 3, False)
    out = draw.weighted_output(x, w, 4, (1, 2, 2, 6))
    case = depthwise_case(draw.fed(x), Operand(w.type, value=w.data), draw.bias(x, w.type, 6), out)
    replace(case, op=replace(case.op, constant_weights=False)).check(oracle)


X, W, OUT = (quantized("int8", shape, 1.0, 0) for shape in ((1, 4, 4, 3), (1, 3, 3, 6), (1, 2, 2, 6)))


@pytest.mark.parametrize(
    ("label", "w", "out"),
    [
        ("C1", W.with_shape((2, 3, 3, 6)), OUT),
        ("C2", W.with_shape((1, 3, 3, 5)), OUT.with_shape((1, 2, 2, 5))),
        ("C2", W, OUT.with_shape((1, 2, 2, 3))),
        ("C2", W, OUT.with_shape((2, 2, 2, 6))),
        ("C3", quantized("int8", W.shape, 1.0, 3), OUT),
        ("C3", replace(W, quantization=Quantization((1.0,) * 5, (0,) * 5, 0)), OUT),
    ],
)
def test_constraints(label: str, w: TensorType, out: TensorType) -> None:
    DepthwiseConv2d().verify(Call((X, W, None), (OUT,)))
    with pytest.raises(VerifyError, match=label):
        DepthwiseConv2d().verify(Call((X, w, None), (out,)))
