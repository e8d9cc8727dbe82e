"""Random qnn graphs of operations that keep or change shapes, for tests of passes."""

from __future__ import annotations

import numpy as np

from qimport import qnn
from qimport.ir.graph import Builder, Graph, Value
from qimport.ir.types import INTEGER_RANGE, Quantization, TensorType
from tests.single_op import scales_and_zeros

STEPS = ("concat", "pad", "part", "requantize", "reshape", "softmax", "through_float", "unary")


class RandomGraph:
    """Grows a graph one operation at a time; few quantizations, so that conversions often cancel."""

    def __init__(self, seed: int, dtype: str) -> None:
        self.rng = np.random.default_rng(seed)
        self.dtype = dtype
        self.build = Builder()
        drawn = scales_and_zeros(self.rng, dtype, 2)
        self.quants = [Quantization((float(np.float32(scale)),), (zero,)) for scale, zero in drawn]
        self.values = [Value(TensorType(dtype, (2, 3, 5), self.quants[0]), "x")]

    def grow(self, steps: int) -> Graph:
        """The graph after ``steps`` operations; its results are the last three values."""
        for step in range(steps):
            name = STEPS[int(self.rng.integers(len(STEPS)))]
            x = self.values[int(self.rng.integers(max(0, len(self.values) - 3), len(self.values)))]
            self.build.origin = f"operator {step}"
            self.values.append(getattr(self, name)(x))
        return Graph("random", (self.values[0],), tuple(self.values[-3:]), tuple(self.build.nodes))

    def quantization(self) -> Quantization:
        """One of the graph's quantizations."""
        return self.quants[int(self.rng.integers(len(self.quants)))]

    def unary(self, x: Value) -> Value:
        """A member of the RELU family, or TANH."""
        op = [qnn.Relu(), qnn.Relu6(), qnn.ReluN1To1(), qnn.Tanh()][int(self.rng.integers(4))]
        return self.build.emit(op, (x,), TensorType(self.dtype, x.type.shape, self.quantization()))

    def softmax(self, x: Value) -> Value:
        """SOFTMAX."""
        quant = Quantization((1 / 256,), (INTEGER_RANGE[self.dtype][0],))
        return self.build.emit(qnn.Softmax(1.0), (x,), TensorType(self.dtype, x.type.shape, quant))

    def requantize(self, x: Value) -> Value:
        """To another quantization or the same."""
        return self.build.emit(
            qnn.Requantize(), (x,), TensorType(self.dtype, x.type.shape, self.quantization())
        )

    def through_float(self, x: Value) -> Value:
        """DEQUANTIZE, perhaps a reshape, QUANTIZE."""
        real = self.build.emit(qnn.Dequantize(), (x,), TensorType("float32", x.type.shape))
        if self.rng.random() < 0.5:
            real = self.build.emit(qnn.Reshape(), (real,), TensorType("float32", (real.type.size,)))
        quant = x.type.quantization if self.rng.random() < 0.5 else self.quantization()
        return self.build.emit(qnn.Quantize(), (real,), TensorType(self.dtype, real.type.shape, quant))

    def pad(self, x: Value) -> Value:
        """Up to one element on each side, as long as the tensor stays small."""
        rank = len(x.type.shape)
        most = 2 if x.type.size < 300 else 1
        before, after = (tuple(self.rng.integers(0, most, rank).tolist()) for _ in range(2))
        shape = tuple(a + b + c for a, b, c in zip(before, x.type.shape, after, strict=True))
        return self.build.emit(qnn.Pad(before, after), (x,), x.type.with_shape(shape))

    def reshape(self, x: Value) -> Value:
        """To one dimension, or with one more."""
        shape = (x.type.size,) if self.rng.random() < 0.5 else (1, *x.type.shape)
        return self.build.emit(qnn.Reshape(), (x,), x.type.with_shape(shape))

    def part(self, x: Value) -> Value:
        """All but the first element of the largest dimension, or reversed."""
        axis = int(np.argmax(x.type.shape))
        rank, extent = len(x.type.shape), x.type.shape[axis]
        reverse = extent == 1 or self.rng.random() < 0.5
        begin = tuple((extent - 1 if reverse else 1) if i == axis else 0 for i in range(rank))
        stride = tuple(-1 if reverse and i == axis else 1 for i in range(rank))
        size = tuple(extent - (not reverse) if i == axis else n for i, n in enumerate(x.type.shape))
        return self.build.emit(qnn.StridedSlice(begin, stride, size), (x,), x.type.with_shape(size))

    def concat(self, x: Value) -> Value:
        """With itself, as long as the tensor stays small."""
        if x.type.size > 300:
            return self.reshape(x)
        shape = (2 * x.type.shape[0], *x.type.shape[1:])
        return self.build.emit(qnn.Concat(0), (x, x), x.type.with_shape(shape))
