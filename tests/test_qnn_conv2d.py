"""CONV_2D against its lowering and the interpreter."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from qimport.errors import VerifyError
from qimport.ir.graph import Call
from qimport.ir.types import Quantization, TensorType
from qimport.oracle import Oracle
from qimport.qnn.conv2d import Conv2d
from tests.cases import ACTIVATIONS, Draw, Operand, OperatorCase, window_options
from tests.single_op import quantized


def random_case(seed: int) -> OperatorCase:
    """Any strides, dilations, paddings, groups, channel tails and quantization."""
    draw = Draw.of(seed)
    dtype, groups = draw.dtype(), draw.pick(1, 1, 1, 2, 3)
    depth, outputs = draw.pick(1, 2, 3, 5, 8, 16, 17), groups * draw.pick(1, 2, 3, 4, 7, 8, 11)
    kernel, stride = (draw.pick(1, 2, 3), draw.pick(1, 2, 3, 5)), (draw.pick(1, 2, 3), draw.pick(1, 1, 2))
    dilation = (draw.pick(1, 1, 2), draw.pick(1, 1, 3))
    extent = (draw.pick(1, 4, 5, 7), draw.pick(3, 5, 6))
    x = draw.tensor(dtype, (draw.pick(1, 1, 2), *extent, depth * groups))
    w = draw.weights(dtype, (outputs, *kernel, depth), 0, per_channel=bool(draw.pick(True, True, False)))
    reach = ((kernel[0] - 1) * dilation[0] + 1, (kernel[1] - 1) * dilation[1] + 1)
    name, padding, counts = draw.window(extent, reach, stride)
    out = draw.weighted_output(x, w, kernel[0] * kernel[1] * depth, (x.shape[0], *counts, outputs))
    activation = draw.pick(*ACTIVATIONS)
    return conv_case(
        draw.fed(x), w, draw.bias(x, w.type, outputs), out, name, padding, stride, dilation, activation
    )


def conv_case(
    x: Operand,
    w: Operand,
    bias: Operand,
    out: TensorType,
    name: str = "VALID",
    padding: tuple[tuple[int, int], tuple[int, int]] = ((0, 0), (0, 0)),
    stride: tuple[int, int] = (1, 1),
    dilation: tuple[int, int] = (1, 1),
    activation: str = "NONE",
) -> OperatorCase:
    """A convolution and its file."""
    groups = x.type.shape[3] // w.type.shape[3]
    op = Conv2d(stride, dilation, padding, groups, activation)
    options = window_options(name, stride, dilation, activation)
    return OperatorCase(op, (x, w, bias), out, "CONV_2D", options)


@pytest.mark.parametrize("seed", range(60))
def test_equals_interpreter(seed: int, oracle: Oracle) -> None:
    random_case(seed).check(oracle)


def unit_weights(dtype: str, shape: tuple[int, ...], scale: float = 1.0, zero: int = 0) -> Operand:
    """Weights whose codes are one above the zero point."""
    return Operand(quantized(dtype, shape, scale, zero), np.full(shape, zero + 1, dtype))


def no_bias(channels: int, scale: float) -> Operand:
    """Zeros with a quantization record."""
    return Operand(quantized("int32", (channels,), scale, 0), np.zeros(channels, np.int32))


@pytest.mark.parametrize("zero", [-128, 7, 127])
def test_border_sees_the_zero_point(zero: int, oracle: Oracle) -> None:
    """C07: a corner of a 3x3 window sees four pixels, an edge six, the centre nine."""
    x = quantized("int8", (1, 4, 4, 1), 1.0, zero)
    step = 1 if zero < 0 else -1
    fed = Operand(x, value=np.full(x.shape, zero + step, np.int8))
    out = quantized("int8", (1, 4, 4, 1), 1.0, 0)
    case = conv_case(fed, unit_weights("int8", (1, 3, 3, 1)), no_bias(1, 1.0), out, "SAME", ((1, 1), (1, 1)))
    for codes in case.check(oracle).values():
        assert [codes[0, 0, 0, 0], codes[0, 0, 1, 0], codes[0, 1, 1, 0]] == [4 * step, 6 * step, 9 * step]


def test_input_at_zero_point_gives_bias(oracle: Oracle) -> None:
    """C08: padding is the zero point, in uint8 as well."""
    x = quantized("uint8", (1, 5, 5, 2), 0.5, 128)
    fed = Operand(x, value=np.full(x.shape, 128, np.uint8))
    bias = Operand(quantized("int32", (3,), 0.5, 0), np.array([1, -5, 90], np.int32))
    out = quantized("uint8", (1, 5, 5, 3), 0.5, 10)
    w = unit_weights("uint8", (3, 3, 3, 2), zero=77)
    for codes in conv_case(fed, w, bias, out, "SAME", ((1, 1), (1, 1))).check(oracle).values():
        assert (codes == np.array([11, 5, 100])).all()


@pytest.mark.parametrize(("size", "kernel", "stride"), [(8, 3, 2), (7, 3, 2), (5, 2, 3), (4, 1, 3)])
def test_same_padding_depends_on_stride(size: int, kernel: int, stride: int, oracle: Oracle) -> None:
    """C11: the smaller half comes first, and kernels shorter than the stride need none."""
    draw = Draw.of(size)
    x, w = draw.tensor("int8", (1, size, size, 3)), draw.weights("int8", (4, kernel, kernel, 3), 0, True)
    count = -(-size // stride)
    total = max((count - 1) * stride + kernel - size, 0)
    pads = (total // 2, total - total // 2)
    out = draw.weighted_output(x, w, kernel * kernel * 3, (1, count, count, 4))
    bias = draw.bias(x, w.type, 4)
    conv_case(draw.fed(x), w, bias, out, "SAME", (pads, pads), (stride, stride)).check(oracle)


@pytest.mark.parametrize("pixels", [1, 2, 3])
@pytest.mark.parametrize("channels", [1, 7, 16, 33])
def test_results_smaller_than_any_tile(pixels: int, channels: int, oracle: Oracle) -> None:
    """C30: one to nine pixels, 1 to 33 channels."""
    draw = Draw.of(pixels + channels)
    x = draw.tensor("int8", (1, pixels, pixels, channels))
    w = draw.weights("int8", (34 - channels, 1, 1, channels), 0, True)
    out = draw.weighted_output(x, w, channels, (1, pixels, pixels, 34 - channels))
    conv_case(draw.fed(x), w, draw.bias(x, w.type, 34 - channels), out).check(oracle)


def test_three_roundings(oracle: Oracle) -> None:
    """C03: ties away, ties up, ties to even; accumulators 4, 12, -4, -12 eighths."""
    x = quantized("int8", (1, 1, 4, 1), 1.0, 0)
    fed = Operand(x, value=np.array([4, 12, -4, -12], np.int8).reshape(x.shape))
    case = conv_case(
        fed, unit_weights("int8", (1, 1, 1, 1)), no_bias(1, 1.0), quantized("int8", (1, 1, 4, 1), 8.0, 0)
    )
    found = {mode: codes.ravel().tolist() for mode, codes in case.check(oracle).items()}
    assert found == {"reference": [1, 2, -1, -2], "builtin": [1, 2, 0, -1], "xnnpack": [0, 2, 0, -2]}


def test_groups_round_as_the_reference_kernel(oracle: Oracle) -> None:
    """C14: two groups; the optimized kernel hands them to the reference one."""
    x = quantized("int8", (1, 1, 2, 2), 1.0, 0)
    fed = Operand(x, value=np.array([4, 12, -4, -12], np.int8).reshape(x.shape))
    out = quantized("int8", (1, 1, 2, 2), 8.0, 0)
    results = conv_case(fed, unit_weights("int8", (2, 1, 1, 1)), no_bias(2, 1.0), out).check(oracle)
    assert results["builtin"].ravel().tolist() == results["reference"].ravel().tolist() == [1, 2, -1, -2]


def test_accumulator_wraps(oracle: Oracle) -> None:
    """A bias near the end of int32."""
    x = quantized("int8", (1, 1, 1, 1), 1.0, 0)
    bias = Operand(quantized("int32", (1,), 1.0, 0), np.array([2**31 - 1], np.int32))
    out = quantized("int8", (1, 1, 1, 1), 2.0**25, 0)
    w = unit_weights("int8", (1, 1, 1, 1))
    for code, wanted in ((0, 64), (1, -64)):
        fed = Operand(x, value=np.full(x.shape, code, np.int8))
        assert all(codes.item() == wanted for codes in conv_case(fed, w, bias, out).check(oracle).values())


def test_activation_bounds_differ_in_xnnpack(oracle: Oracle) -> None:
    """RELU6 with scale 2.4 and zero point -128 ends at -125, in XNNPACK at -126 (-125.5 to even)."""
    x = quantized("int8", (1, 1, 1, 1), 1.0, 0)
    fed = Operand(x, value=np.full(x.shape, 100, np.int8))
    out = quantized("int8", (1, 1, 1, 1), 2.4, -128)
    case = conv_case(fed, unit_weights("int8", (1, 1, 1, 1)), no_bias(1, 1.0), out, activation="RELU6")
    found = {mode: codes.item() for mode, codes in case.check(oracle).items()}
    assert found == {"reference": -125, "builtin": -125, "xnnpack": -126}


def test_files_the_delegate_does_not_load(oracle: Oracle) -> None:
    """Effective scales from 256 on; one bias scale for per-channel weights. The other modes run them."""
    draw = Draw.of(2)
    x, w = draw.tensor("int8", (1, 2, 2, 3), 0.5), draw.weights("int8", (4, 1, 1, 3), 0, True)
    largest = max(w.type.quant.scales) * 0.5
    for factor, loads in ((255.9, True), (256.1, False)):
        out = draw.tensor("int8", (1, 2, 2, 4), largest / factor)
        results = conv_case(draw.fed(x), w, draw.bias(x, w.type, 4), out).check(oracle)
        assert ("xnnpack" in results) == loads
    out = draw.tensor("int8", (1, 2, 2, 4), 1.0)
    assert "xnnpack" not in conv_case(draw.fed(x), w, no_bias(4, 0.5), out).check(oracle)


@pytest.mark.parametrize(("depth", "wanted"), [(4, 127), (2, 127), (1, -128)])
def test_results_below_int32_wrap_in_xnnpack(depth: int, wanted: int, oracle: Oracle) -> None:
    """-2^30 times 2 and a negative zero point: GEMM kernels wrap, depthwise ones do not."""
    x, w = quantized("int8", (1, 2, 2, 4), 1.0, 0), unit_weights("int8", (4, 1, 1, depth), 2.0)
    bias = Operand(quantized("int32", (4,), 2.0, 0), np.full(4, -(2**30), np.int32))
    fed = Operand(x, value=np.zeros(x.shape, np.int8))
    results = conv_case(fed, w, bias, quantized("int8", (1, 2, 2, 4), 1.0, -1)).check(oracle)
    assert set(results["xnnpack"].reshape(-1).tolist()) == {wanted}


def test_bias_without_record_stays_with_builtin(oracle: Oracle) -> None:
    """The delegate leaves such a convolution alone."""
    draw = Draw.of(4)
    x, w = draw.tensor("int8", (1, 3, 3, 5)), draw.weights("int8", (4, 1, 1, 5), 0, True)
    out = draw.weighted_output(x, w, 5, (1, 3, 3, 4))
    bare = Operand(TensorType("int32", (4,)), draw.bias(x, w.type, 4).data)
    case = conv_case(draw.fed(x), w, bare, out)
    assert case.op.kernel_family(case.call("xnnpack")) == "builtin"
    case.check(oracle)


def test_computed_weights(oracle: Oracle) -> None:
    """Weights that are no constants of the file."""
    draw = Draw.of(6)
    x, w = draw.tensor("int8", (1, 3, 3, 5)), draw.weights("int8", (4, 1, 1, 5), 0, False)
    out = draw.weighted_output(x, w, 5, (1, 3, 3, 4))
    case = conv_case(draw.fed(x), Operand(w.type, value=w.data), draw.bias(x, w.type, 4), out)
    replace(case, op=replace(case.op, constant_weights=False)).check(oracle)


X, W, OUT = (
    quantized("int8", (1, 4, 4, 4), 1.0, 0),
    quantized("int8", (6, 3, 3, 2), 1.0, 0),
    quantized("int8", (1, 2, 2, 6), 1.0, 0),
)
BIAS = TensorType("int32", (6,))
PER_CHANNEL, FIVE = Quantization((1.0,) * 6, (0,) * 6, 0), Quantization((1.0,) * 5, (0,) * 5, 3)


@pytest.mark.parametrize(
    ("label", "op", "types", "out"),
    [
        ("C1", Conv2d(groups=2), (X, W, BIAS), quantized("int16", OUT.shape, 1.0, 0)),
        ("C1", Conv2d(groups=2), (X, quantized("uint8", W.shape, 1.0, 0), BIAS), OUT),
        ("C1", Conv2d(groups=2), (X, W.with_shape((6, 3, 6)), BIAS), OUT),
        ("C2", Conv2d(groups=1), (X, W, BIAS), OUT),
        ("C2", Conv2d(groups=4), (X, W.with_shape((6, 3, 3, 1)), BIAS), OUT),
        ("C2", Conv2d(groups=2, padding=((0, 1), (0, 0))), (X, W, BIAS), OUT),
        ("C2", Conv2d(groups=2, stride=(0, 1)), (X, W, BIAS), OUT),
        ("C2", Conv2d(groups=2, dilation=(2, 1)), (X, W, BIAS), OUT),
        ("C3", Conv2d(groups=2), (X, TensorType("int8", W.shape), BIAS), OUT),
        (
            "C3",
            Conv2d(groups=2),
            (X, replace(W, quantization=FIVE), BIAS),
            OUT,
        ),
        ("C3", Conv2d(groups=2), (X, quantized("int8", W.shape, 1.0, 3), BIAS), OUT),
        ("C4", Conv2d(groups=2), (X, W, TensorType("int32", (5,))), OUT),
        ("C4", Conv2d(groups=2), (X, W, TensorType("int64", (6,))), OUT),
        ("C4", Conv2d(groups=2), (X, W, quantized("int32", (6,), 1.0, 1)), OUT),
        ("C5", Conv2d(groups=2, activation="TANH"), (X, W, BIAS), OUT),
    ],
)
def test_constraints(label: str, op: Conv2d, types: tuple[TensorType, ...], out: TensorType) -> None:
    Conv2d(groups=2).verify(Call((X, replace(W, quantization=PER_CHANNEL), BIAS), (OUT,)))
    with pytest.raises(VerifyError, match=label):
        op.verify(Call(types, (out,)))
