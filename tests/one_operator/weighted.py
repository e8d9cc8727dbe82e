"""CONV_2D, DEPTHWISE_CONV_2D, FULLY_CONNECTED, TRANSPOSE_CONV and BATCH_MATMUL on integers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from qimport.ir.graph import Array
from qimport.ir.types import INTEGER_RANGE, Quantization, TensorType
from tests.cases import Draw, add_tensor, window_options
from tests.flatbuffer_builder import ModelBuilder
from tests.one_operator.model import OneOperator, generator
from tests.single_op import quantized

ACTIVATIONS = ("NONE", "NONE", "RELU", "RELU6", "RELU_N1_TO_1")


@dataclass(frozen=True)
class Types:
    """Element types of one combination; ``bias`` None: absent."""

    x: str
    w: str
    bias: str | None
    out: str


def combination(name: str) -> Types:
    """From ``x w bias out`` in words, ``-`` for no bias."""
    x, w, bias, out = name.split()
    return Types(x, w, None if bias == "-" else bias, out)


class Weighted:
    """The tensors of one weighted operator, drawn one after the other."""

    def __init__(self, draw: Draw, types: Types) -> None:
        self.draw = draw
        self.types = types
        self.model = ModelBuilder()
        self.fed: list[int] = []
        self.arrays: list[Array] = []

    def activations(self, shape: tuple[int, ...]) -> TensorType:
        """The type of x; int16 has no zero point."""
        if self.types.x == "int16":
            return quantized("int16", shape, self.draw.scale(1e-5, 1e-2), 0)
        return self.draw.tensor(self.types.x, shape)

    def feed(self, type_: TensorType, data: Array | None = None) -> int:
        """A tensor that the test feeds with ``data``, or random codes."""
        index = add_tensor(self.model, type_)
        self.fed.append(index)
        self.arrays.append(self.codes(type_) if data is None else data)
        return index

    def codes(self, type_: TensorType) -> Array:
        """Uniform codes; for int16 often small ones, whose sums do not saturate."""
        lowest, highest = INTEGER_RANGE[type_.dtype]
        if type_.dtype == "int16" and self.draw.pick(True, False):
            lowest, highest = -1200, 1200
        return self.draw.rng.integers(lowest, highest, type_.shape, endpoint=True).astype(type_.numpy)

    def weights(
        self, shape: tuple[int, ...], axis: int, *, zero_point: bool = False
    ) -> tuple[TensorType, Array]:
        """Type and content of w: per tensor, or per channel where the type allows it."""
        dtype, rng = self.types.w, self.draw.rng
        zero = self.draw.zero_point(dtype) if dtype == "uint8" or (zero_point and dtype == "int8") else 0
        lowest, highest = INTEGER_RANGE[dtype]
        if self.draw.ties:
            lowest, highest = max(zero - 3, lowest), min(zero + 3, highest)
        data = rng.integers(lowest, highest, shape, endpoint=True).astype(quantized(dtype, (), 1, 0).numpy)
        channels = shape[axis]
        if dtype != "uint8" and not zero and channels > 1 and self.draw.pick(True, False):
            scales = tuple(self.draw.scale() for _ in range(channels))
            return TensorType(dtype, shape, Quantization(scales, (0,) * channels, axis)), data
        return quantized(dtype, shape, self.draw.scale(), zero), data

    def bias(self, x: TensorType, w: TensorType, channels: int) -> int:
        """The constant bias, or -1."""
        if self.types.bias is None:
            return -1
        scales = [float(np.float32(x.quant.scale * s)) for s in w.quant.scales]
        limit = 40 if self.draw.ties else 5000 if x.itemsize == 1 else 10**6
        if self.types.bias == "int64" and self.draw.pick(True, False, False):
            limit = 2**40
        data = self.draw.rng.integers(-limit, limit, channels).astype(self.types.bias)
        if self.draw.pick(True, *[False] * 7):
            self.fed.append(self.model.tensor((channels,), self.types.bias, scales))
            self.arrays.append(data)
            return self.fed[-1]
        return self.model.tensor((channels,), self.types.bias, scales, data=data)

    def result(
        self, x: TensorType, w: TensorType, data: Array, taps: int, shape: tuple[int, ...]
    ) -> TensorType:
        """A result whose range random sums fill; sometimes a far too fine or coarse one."""
        spread = (
            float(np.std(data.astype(np.float64))) * (74 if x.itemsize == 1 else 9000) * np.sqrt(taps) + 1
        )
        steps = 50 if self.types.out != "int16" else 12000
        scale = x.quant.scale * float(np.median(w.quant.scales)) * spread / steps
        scale = self.draw.near(scale / self.draw.pick(1, 1, 1, 1, 1, 1, 1, 64, 1 / 64, 3000))
        if self.types.out == "int16":
            least = (
                x.quant.scale * max(w.quant.scales) / 2**13
            )  # beyond, 16x8 kernels shift by negative counts
            return quantized("int16", shape, max(scale, self.draw.near(least)), 0)
        return self.draw.tensor(self.types.out, shape, scale)

    def constant(self, type_: TensorType, data: Array) -> int:
        """A constant of the file."""
        return add_tensor(self.model, type_, data)

    def finish(
        self, builtin: str, inputs: list[int], out: TensorType, version: int, **options: Any
    ) -> OneOperator:
        """The file of the one operator."""
        result = add_tensor(self.model, out)
        while inputs[-1] == -1:
            inputs = inputs[:-1]
        self.model.operator(builtin, inputs, [result], version, **options)
        text = f"{builtin} {self.types} {options} -> {out}"
        return OneOperator(self.model.build(self.fed, [result]), (self.arrays,), text)


def bias_option(types: Types) -> dict[str, Any]:
    """The option that states an int32 bias beside int16."""
    return {"quantized_bias_type": "INT32"} if types.x == "int16" and types.bias == "int32" else {}


def image(draw: Draw, channels: int) -> tuple[int, int, int, int]:
    """A small NHWC shape."""
    return int(draw.pick(1, 1, 2)), *(int(draw.rng.integers(1, 8)) for _ in range(2)), channels


def drawn_window(draw: Draw) -> tuple[dict[str, Any], tuple[int, int], tuple[int, int], tuple[int, int]]:
    """Options of a sliding window; window, stride and dilation, (rows, columns) each."""
    size = (int(draw.rng.integers(1, 4)), int(draw.rng.integers(1, 4)))
    stride = (int(draw.rng.integers(1, 4)), int(draw.rng.integers(1, 4)))
    dilation = draw.pick((1, 1), (1, 1), (2, 1), (1, 3))
    options = {
        "stride_h": stride[0],
        "stride_w": stride[1],
        "dilation_h_factor": dilation[0],
        "dilation_w_factor": dilation[1],
        "fused_activation_function": draw.pick(*ACTIVATIONS),
    }
    return options, size, stride, dilation


def conv2d(draw: Draw, types: Types, groups: int) -> OneOperator:
    """CONV_2D with ``groups``."""
    make = Weighted(draw, types)
    depth = int(draw.pick(1, 2, 3, 4, 7, 16, 17))
    outputs = groups * int(draw.pick(1, 2, 3, 5, 8, 17))
    x = make.activations(image(draw, depth * groups))
    options, size, stride, dilation = drawn_window(draw)
    w, data = make.weights((outputs, *size, depth), 0)
    options["padding"], extent = extent_of(draw, x.shape, size, stride, dilation)
    out = make.result(x, w, data, depth * size[0] * size[1], (x.shape[0], *extent, outputs))
    inputs = [make.feed(x), make.constant(w, data), make.bias(x, w, outputs)]
    return make.finish("CONV_2D", inputs, out, 8, **options, **bias_option(types))


def extent_of(
    draw: Draw,
    shape: tuple[int, ...],
    size: tuple[int, int],
    stride: tuple[int, int],
    dilation: tuple[int, int],
) -> tuple[str, tuple[int, int]]:
    """Padding and the result's rows and columns."""
    reach = ((size[0] - 1) * dilation[0] + 1, (size[1] - 1) * dilation[1] + 1)
    name, _, extent = draw.window((shape[1], shape[2]), reach, stride)
    return name, extent


def depthwise_conv2d(draw: Draw, types: Types) -> OneOperator:
    """DEPTHWISE_CONV_2D with a depth multiplier."""
    make = Weighted(draw, types)
    channels = int(draw.pick(1, 2, 3, 5, 8, 9, 16, 19))
    multiplier = int(draw.pick(1, 1, 1, 2, 3))
    x = make.activations(image(draw, channels))
    options, size, stride, dilation = drawn_window(draw)
    outputs = channels * multiplier
    w, data = make.weights((1, *size, outputs), 3)
    options["padding"], extent = extent_of(draw, x.shape, size, stride, dilation)
    out = make.result(x, w, data, size[0] * size[1], (x.shape[0], *extent, outputs))
    inputs = [make.feed(x), make.constant(w, data), make.bias(x, w, outputs)]
    return make.finish("DEPTHWISE_CONV_2D", inputs, out, 6, depth_multiplier=multiplier, **options)


def fully_connected(draw: Draw, types: Types) -> OneOperator:
    """FULLY_CONNECTED of any rank, with constant or fed weights."""
    make = Weighted(draw, types)
    depth, outputs = int(draw.rng.integers(1, 40)), int(draw.rng.integers(1, 34))
    if draw.pick(True, False, False, False, False, False):
        depth = int(draw.pick(300, 601))
    keep = bool(draw.pick(True, False))
    lead = draw.pick((1,), (3,), (2, 3), (1, 2, 2))
    x = make.activations((*lead, depth))
    w, data = make.weights((outputs, depth), 0, zero_point=True)
    out = make.result(x, w, data, depth, (*lead, outputs) if keep else (int(np.prod(lead)), outputs))
    fed = draw.pick("x", "x", "x", "w", "xw") if types.w not in ("int2", "int4") else "x"
    first = make.feed(x) if "x" in fed else make.constant(x, make.codes(x))
    second = make.feed(w, data) if "w" in fed else make.constant(w, data)
    options = {"fused_activation_function": draw.pick(*ACTIVATIONS), "keep_num_dims": keep}
    inputs = [first, second, make.bias(x, w, outputs)]
    return make.finish("FULLY_CONNECTED", inputs, out, 13, **options, **bias_option(types))


def transpose_conv(draw: Draw, types: Types) -> OneOperator:
    """TRANSPOSE_CONV; the result's shape is one from which a convolution leads back to x."""
    make = Weighted(draw, types)
    depth, outputs = int(draw.pick(1, 2, 3, 4, 7, 16)), int(draw.pick(1, 2, 3, 5, 8, 9, 16, 17))
    size = (int(draw.rng.integers(1, 5)), int(draw.rng.integers(1, 5)))
    stride = (int(draw.rng.integers(1, 4)), int(draw.rng.integers(1, 4)))
    extent = (int(draw.rng.integers(1, 11)), int(draw.rng.integers(1, 11)))
    padding, count = extent_of(draw, (1, *extent), size, stride, (1, 1))
    x = make.activations((int(draw.pick(1, 1, 2)), *count, depth))
    w, data = make.weights((outputs, *size, depth), 0)
    shape = (x.shape[0], *extent, outputs)
    out = make.result(x, w, data, depth * -(-size[0] // stride[0]) * -(-size[1] // stride[1]), shape)
    wanted = make.model.tensor((4,), "int32", data=np.array(shape, np.int32))
    inputs = [wanted, make.constant(w, data), make.feed(x), make.bias(x, w, outputs)]
    options = window_options(padding, stride, activation=draw.pick(*ACTIVATIONS), **bias_option(types))
    return make.finish("TRANSPOSE_CONV", inputs, out, 4, **options)


def batch_matmul(draw: Draw, types: Types) -> OneOperator:
    """BATCH_MATMUL with adjoint operands, broadcast batches, constant operands."""
    make = Weighted(draw, types)
    rows, depth, columns = (int(draw.pick(1, 2, 3, 5, 8, 17, 20)) for _ in range(3))
    left, right = draw.pick(
        ((), ()), ((3,), (3,)), ((2,), (1,)), ((1,), (2,)), ((2, 3), (3,)), ((2, 1), (1, 3)), ((), (2,))
    )
    adj_x, adj_y = bool(draw.pick(True, False)), bool(draw.pick(True, False))
    a = make.activations((*left, *((depth, rows) if adj_x else (rows, depth))))
    shape = (*right, *((columns, depth) if adj_y else (depth, columns)))
    zero = draw.pick(0, draw.zero_point("int8")) if types.x == "int8" else 0
    b = quantized(types.w, shape, draw.scale(), zero)
    data = draw.codes(b)
    out = make.result(a, b, data, depth, (*np.broadcast_shapes(left, right), rows, columns))
    fed = draw.pick("a", "b", "ab")
    first = make.feed(a) if "a" in fed else make.constant(a, make.codes(a))
    second = make.feed(b) if "b" in fed else make.constant(b, data)
    return make.finish("BATCH_MATMUL", [first, second], out, 4, adj_x=adj_x, adj_y=adj_y)


CONVOLUTIONS = (
    "int8 int8 int32 int8",
    "uint8 uint8 int32 uint8",
    "int8 int4 int32 int8",
    "int16 int8 int64 int16",
    "int16 int8 int32 int16",
    "int16 int4 int64 int16",
    "int16 int4 int32 int16",
)
DEPTHWISE = (
    "int8 int8 int32 int8",
    "int8 int8 - int8",
    "uint8 uint8 int32 uint8",
    "uint8 uint8 - uint8",
    "int8 int4 int32 int8",
    "int16 int8 int64 int16",
    "int16 int8 - int16",
)
DENSE = (
    "int8 int8 int32 int8",
    "int8 int8 - int8",
    "uint8 uint8 int32 uint8",
    "uint8 uint8 - uint8",
    "uint8 uint8 int32 int16",
    "int8 int4 int32 int8",
    "int8 int4 - int8",
    "int8 int2 int32 int8",
    "int16 int8 int64 int16",
    "int16 int8 int32 int16",
    "int16 int8 - int16",
    "int16 int4 int64 int16",
    "int16 int4 int32 int16",
    "int16 int2 int64 int16",
)


TRANSPOSED = (
    "int8 int8 int32 int8",
    "int8 int8 - int8",
    "uint8 uint8 int32 uint8",
    "uint8 uint8 - uint8",
    "int16 int8 int64 int16",
    "int16 int8 int32 int16",
    "int16 int8 - int16",
)
PRODUCTS = ("int8 int8 - int8", "int16 int16 - int16", "int16 int8 - int16")


def _register() -> None:
    for name in CONVOLUTIONS:
        types = combination(name)
        generator(f"CONV_2D {name}")(lambda draw, t=types: conv2d(draw, t, 1))
        generator(f"CONV_2D groups {name}")(lambda draw, t=types: conv2d(draw, t, int(draw.pick(2, 3, 4))))
    for name in DEPTHWISE:
        types = combination(name)
        generator(f"DEPTHWISE_CONV_2D {name}")(lambda draw, t=types: depthwise_conv2d(draw, t))
    for name in DENSE:
        types = combination(name)
        generator(f"FULLY_CONNECTED {name}")(lambda draw, t=types: fully_connected(draw, t))
    for name in TRANSPOSED:
        types = combination(name)
        generator(f"TRANSPOSE_CONV {name}")(lambda draw, t=types: transpose_conv(draw, t))
    for name in PRODUCTS:
        types = combination(name)
        generator(f"BATCH_MATMUL {name}")(lambda draw, t=types: batch_matmul(draw, t))


_register()
