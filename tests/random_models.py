"""Random .tflite files of all supported 8-bit operators: residuals, shared constants, used outputs, islands.

Every draw obeys what the interpreter demands of an operator, so a refusal at import is a gap.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from qimport.ir.graph import Array
from qimport.ir.types import INTEGER_RANGE, TensorType
from tests.cases import ACTIVATIONS, Draw, Operand, add_tensor
from tests.flatbuffer_builder import ModelBuilder
from tests.single_op import quantized

MOST_ELEMENTS = 3000
CHANNELS = (1, 2, 3, 5, 7, 8, 9, 16, 17, 24, 33)
TABLES = ("LOGISTIC", "TANH", "HARD_SWISH", "RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1")
VERSIONS = {"CONV_2D": 3, "DEPTHWISE_CONV_2D": 3, "FULLY_CONNECTED": 4, "RESHAPE": 1, "EXPAND_DIMS": 1}
FIRST_VERSION_ONLY = ("HARD_SWISH", "RELU_N1_TO_1", "RELU_0_TO_1")


class DoesNotFit(Exception):
    """The operator drawn does not go with its operand; another one is drawn."""


@dataclass(frozen=True)
class Tensor:
    """A tensor of the file."""

    index: int
    type: TensorType
    constant: bool = False


class RandomModel:
    """Grows a model one operator at a time."""

    def __init__(self, seed: int) -> None:
        self.draw = Draw.of(seed)
        self.model = ModelBuilder()
        self.inputs: list[Tensor] = []
        self.computed: list[Tensor] = []
        self.weights: dict[tuple[tuple[int, ...], str], tuple[int, Operand]] = {}
        self.operators: list[str] = []
        self.read: set[int] = set()
        self.feed(self.new_type(self.draw.dtype(), self.shape()))

    def grow(self, steps: int) -> bytes:
        """The file after ``steps`` operators; results are what nobody reads and some of the rest."""
        first = self.inputs[0]
        while len(self.operators) < steps:
            recent = [t for t in (first, *self.computed[-5:]) if t.type.dtype != "float32"]
            x = recent[-1] if self.draw.rng.random() < 0.6 else self.draw.pick(*recent)
            step = self.draw.pick(*STEPS)
            try:
                step(self, x)
            except DoesNotFit:
                continue
        outputs = [t for t in self.computed if t.index not in self.read or self.draw.rng.random() < 0.15]
        if self.draw.rng.random() < 0.05:
            outputs.append(first)
        order = self.draw.rng.permutation(len(outputs))
        return self.model.build([t.index for t in self.inputs], [outputs[i].index for i in order])

    def arrays(self) -> list[list[Array]]:
        """Inputs to run on: uniform codes, and the ends of their range."""
        rng = self.draw.rng
        ends = [
            rng.choice(np.array(INTEGER_RANGE[t.type.dtype], t.type.numpy), t.type.shape) for t in self.inputs
        ]
        return [[self.draw.codes(t.type) for t in self.inputs], ends]

    def version(self, name: str) -> int:
        """A version of an operator that takes these element types."""
        return 1 if name in FIRST_VERSION_ONLY else VERSIONS.get(name, 2)

    # Tensors

    def new_type(self, dtype: str, shape: Sequence[int]) -> TensorType:
        """A type with a quantization of its own."""
        return self.draw.tensor(dtype, shape)

    def values(self, type_: TensorType) -> Array:
        """Random elements."""
        return self.draw.codes(type_)

    def shape(self) -> tuple[int, ...]:
        """Mostly an image."""
        rng, rank = self.draw.rng, self.draw.pick(4, 4, 4, 3, 2)
        return (*(int(n) for n in rng.integers(1, (3, 8, 8)[: rank - 1])), self.draw.pick(*CHANNELS))

    def feed(self, type_: TensorType) -> Tensor:
        """A new input."""
        self.inputs.append(Tensor(add_tensor(self.model, type_), type_))
        return self.inputs[-1]

    def constant(self, type_: TensorType) -> Tensor:
        """A new constant with random elements."""
        return Tensor(add_tensor(self.model, type_, self.values(type_)), type_, True)

    def integers(self, values: Sequence[Any]) -> int:
        """A new int32 constant."""
        data = np.array(values, np.int32)
        return self.model.tensor(data.shape, "int32", data=data)

    def partner(self, x: Tensor, shape: Sequence[int], like: TensorType | None = None) -> Tensor:
        """Another operand of this shape: a tensor there is, ``x`` itself, a constant or a new input."""
        wanted = (like or x.type).with_shape(tuple(shape))
        known = [
            t for t in (*self.computed, x) if (t.type.dtype, t.type.shape) == (wanted.dtype, wanted.shape)
        ]
        known = [t for t in known if like is None or t.type == wanted]
        if known and self.draw.rng.random() < 0.6:
            return self.draw.pick(*known)
        type_ = wanted if like else self.new_type(x.type.dtype, shape)
        return self.constant(type_) if self.draw.rng.random() < 0.5 else self.feed(type_)

    def emit(self, name: str, operands: Sequence[Tensor | int], type_: TensorType, **options: Any) -> Tensor:
        """Add an operator with one result."""
        return self.emit_results(name, operands, [type_], **options)[0]

    def emit_results(
        self, name: str, operands: Sequence[Tensor | int], types: Sequence[TensorType], **options: Any
    ) -> list[Tensor]:
        """Add an operator."""
        if sum(type_.size for type_ in types) > MOST_ELEMENTS:
            raise DoesNotFit
        results = [Tensor(add_tensor(self.model, type_), type_) for type_ in types]
        indices = [t if isinstance(t, int) else t.index for t in operands]
        self.model.operator(name, indices, [t.index for t in results], self.version(name), **options)
        self.read.update(indices)
        self.operators.append(name)
        self.computed.extend(results)
        return results

    # Operators

    def convolution(self, x: Tensor) -> None:
        """CONV_2D, also in groups, and DEPTHWISE_CONV_2D."""
        batch, *extent, channels = self.image(x)
        kernel, stride, dilation = self.numbers(4), self.numbers(3), self.draw.pick((1, 1), (1, 1), (2, 3))
        reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
        padding, _, count = self.draw.window((extent[0], extent[1]), (reach[0], reach[1]), stride)
        depthwise = self.draw.pick(True, False)
        groups = (
            self.draw.pick(*(n for n in range(1, channels + 1) if channels % n == 0)) if not depthwise else 1
        )
        groups = self.draw.pick(1, 1, groups)
        outputs = channels * self.draw.pick(1, 1, 2) if depthwise else groups * self.draw.pick(1, 2, 3, 8, 9)
        if max(outputs, channels) > 70:
            raise DoesNotFit
        shape = (1, *kernel, outputs) if depthwise else (outputs, *kernel, channels // groups)
        taps = math.prod(kernel) * (1 if depthwise else channels // groups)
        name = "DEPTHWISE_CONV_2D" if depthwise else "CONV_2D"
        window = {
            f"{what}_{axis}": n
            for what, pair in (("stride", stride), ("dilation", dilation))
            for axis, n in zip("hw", pair, strict=True)
        }
        options = {k if k.startswith("stride") else f"{k}_factor": n for k, n in window.items()}
        if depthwise:
            options["depth_multiplier"] = outputs // channels
        self.weighted(
            name, x, shape, 3 if depthwise else 0, taps, (batch, *count, outputs), padding=padding, **options
        )

    def dense(self, x: Tensor) -> None:
        """FULLY_CONNECTED."""
        depth, outputs, keep = x.type.shape[-1], self.draw.pick(1, 2, 5, 8, 17), self.draw.pick(True, False)
        rows = x.type.shape[:-1] if keep else (x.type.size // depth,)
        self.weighted("FULLY_CONNECTED", x, (outputs, depth), 0, depth, (*rows, outputs), keep_num_dims=keep)

    def weighted(
        self,
        name: str,
        x: Tensor,
        shape: tuple[int, ...],
        axis: int,
        taps: int,
        result: tuple[int, ...],
        **options: Any,
    ) -> None:
        """An operator with weights, possibly those of an earlier one, and a bias."""
        if math.prod(shape) > MOST_ELEMENTS:
            raise DoesNotFit
        key = (shape, x.type.dtype)
        if key not in self.weights or self.draw.pick(True, False):
            made = self.draw.weights(x.type.dtype, shape, axis, self.draw.pick(True, False))
            self.weights[key] = add_tensor(self.model, made.type, made.data), made
        index, w = self.weights[key]
        bias = self.draw.bias(x.type, w.type, shape[axis])
        operands = [x, index, add_tensor(self.model, bias.type, bias.data)]
        out = self.draw.weighted_output(x.type, w, taps, result)
        if name == "FULLY_CONNECTED" and self.draw.pick(True, False, False):
            del operands[2]
        self.emit(name, operands, out, fused_activation_function=self.activation(), **options)

    def arithmetic(self, x: Tensor) -> None:
        """ADD, SUB, MUL: residual, with itself, broadcast."""
        name, rng = self.draw.pick("ADD", "SUB", "MUL"), self.draw.rng
        shape = x.type.shape
        if rng.random() < 0.5:
            shape = tuple(n if rng.random() < 0.6 else 1 for n in shape)[self.draw.pick(0, 0, 1) :]
        y = self.partner(x, shape)
        a, b = (x, y) if rng.random() < 0.6 else (y, x)
        scales = x.type.quant.scale, y.type.quant.scale
        usual = scales[0] * scales[1] * 90 if name == "MUL" else max(scales)
        scale = self.draw.near(usual * float(rng.uniform(0.7, 2)))
        out = self.draw.tensor(x.type.dtype, x.type.shape, scale)
        self.emit(name, (a, b), out, fused_activation_function=self.activation())

    def pool(self, x: Tensor) -> None:
        """AVERAGE_POOL_2D, MAX_POOL_2D; the delegate does not load maxima of strides beyond the window."""
        batch, *extent, channels = self.image(x)
        kernel = self.numbers(4)
        stride = self.draw.pick((1, 1), kernel, (min(2, kernel[0]), kernel[1]))
        padding, _, count = self.draw.window((extent[0], extent[1]), kernel, stride)
        options = {
            "filter_height": kernel[0],
            "filter_width": kernel[1],
            "stride_h": stride[0],
            "stride_w": stride[1],
        }
        name, out = (
            self.draw.pick("AVERAGE_POOL_2D", "MAX_POOL_2D"),
            x.type.with_shape((batch, *count, channels)),
        )
        self.emit(name, [x], out, padding=padding, fused_activation_function=self.activation(), **options)

    def mean(self, x: Tensor) -> None:
        """MEAN over any dimensions, the usual ones more often."""
        rank, keep = len(x.type.shape), self.draw.pick(True, False)
        some = [axis for axis in range(rank) if self.draw.pick(True, False)] or [rank - 1]
        axes = self.draw.pick([1, 2], some) if rank == 4 else some
        shape = [1 if axis in axes else n for axis, n in enumerate(x.type.shape) if keep or axis not in axes]
        if not shape:
            raise DoesNotFit
        scale = self.draw.near(x.type.quant.scale * float(self.draw.rng.uniform(0.2, 1.2)))
        listed = [axis - self.draw.pick(0, rank) for axis in axes]
        out = self.draw.pick(x.type.with_shape(tuple(shape)), self.draw.tensor(x.type.dtype, shape, scale))
        self.emit("MEAN", [x, self.integers(listed)], out, keep_dims=keep)

    def softmax(self, x: Tensor) -> None:
        """SOFTMAX."""
        out = quantized(x.type.dtype, x.type.shape, 1 / 256, INTEGER_RANGE[x.type.dtype][0])
        self.emit("SOFTMAX", [x], out, beta=self.draw.pick(1.0, 1.0, 0.5))

    def table(self, x: Tensor) -> None:
        """A function of one tensor."""
        name = self.draw.pick(*TABLES)
        scale = (
            1 / 256
            if name == "LOGISTIC"
            else self.draw.near(x.type.quant.scale * float(self.draw.rng.uniform(0.3, 1.2)))
        )
        same = name.startswith("RELU") and self.draw.pick(True, False)
        self.emit(name, [x], x.type if same else self.draw.tensor(x.type.dtype, x.type.shape, scale))

    def requantize(self, x: Tensor) -> None:
        """QUANTIZE from codes, also between signed and unsigned."""
        scale = self.draw.near(x.type.quant.scale * float(np.exp(self.draw.rng.uniform(-2, 2))))
        self.emit(
            "QUANTIZE",
            [x],
            self.draw.tensor(self.draw.dtype(), x.type.shape, self.draw.pick(scale, x.type.quant.scale)),
        )

    def island(self, x: Tensor) -> None:
        """DEQUANTIZE, some moves of floats, QUANTIZE."""
        real = self.emit("DEQUANTIZE", [x], TensorType("float32", x.type.shape))
        for move in self.draw.pick(
            (), (RandomModel.reshape,), (RandomModel.pad,), (RandomModel.pad, RandomModel.part)
        ):
            move(self, real)
            real = self.computed[-1]
        quant = self.draw.pick(x.type, self.draw.tensor(x.type.dtype, ()))
        self.emit("QUANTIZE", [real], quant.with_shape(real.type.shape))

    # Moves

    def reshape(self, x: Tensor) -> None:
        """RESHAPE with an operand or an option, EXPAND_DIMS."""
        shape, size = x.type.shape, x.type.size
        if self.draw.pick(True, False, False) and len(shape) < 5:
            axis = int(self.draw.rng.integers(len(shape) + 1))
            self.emit(
                "EXPAND_DIMS",
                [x, self.integers([axis])],
                x.type.with_shape((*shape[:axis], 1, *shape[axis:])),
            )
            return
        wanted = self.draw.pick(
            shape, (shape[0], size // shape[0]), (1, size // shape[-1], 1, shape[-1]), (size,)
        )
        operands = self.draw.pick([x], [x, self.integers(wanted)])
        self.emit("RESHAPE", operands, x.type.with_shape(wanted), new_shape=list(wanted))

    def pad(self, x: Tensor) -> None:
        """PAD, in front of convolutions most often of height and width only, and PADV2."""
        rank = len(x.type.shape)
        if rank > 4:
            raise DoesNotFit
        counts = self.draw.rng.integers(0, 3, (rank, 2)) * self.draw.rng.integers(0, 2, (rank, 1))
        if rank == 4 and self.draw.pick(True, False):
            counts[[0, 3]] = 0
        out = x.type.with_shape(tuple(int(n) for n in x.type.shape + counts.sum(1)))
        filler = (
            []
            if x.type.dtype == "float32" or self.draw.pick(True, False)
            else [self.constant(x.type.with_shape((1,)))]
        )
        self.emit("PADV2" if filler else "PAD", [x, self.integers(counts), *filler], out)

    def part(self, x: Tensor) -> None:
        """STRIDED_SLICE."""
        shape = x.type.shape
        if len(shape) > 4:
            raise DoesNotFit
        begin = [int(self.draw.rng.integers(n)) for n in shape]
        step = [self.draw.pick(1, 1, 2) for _ in shape]
        count = [-(-(n - b) // s) for n, b, s in zip(shape, begin, step, strict=True)]
        self.emit(
            "STRIDED_SLICE", [x, *map(self.integers, (begin, shape, step))], x.type.with_shape(tuple(count))
        )

    def concat(self, x: Tensor) -> None:
        """CONCATENATION of up to six operands; uint8 ones may be quantized unlike the result."""
        shape, axis = x.type.shape, int(self.draw.rng.integers(len(x.type.shape)))
        alike = x.type if x.type.dtype == "int8" or self.draw.pick(True, False) else None
        sizes = [self.draw.pick(shape[axis], 1, 3) for _ in range(self.draw.pick(0, 1, 1, 2, 5))]
        parts = [x, *(self.partner(x, (*shape[:axis], n, *shape[axis + 1 :]), alike) for n in sizes)]
        total = sum(part.type.shape[axis] for part in parts)
        out = (alike or self.draw.tensor("uint8", ())).with_shape((*shape[:axis], total, *shape[axis + 1 :]))
        order = self.draw.rng.permutation(len(parts))
        self.emit("CONCATENATION", [parts[i] for i in order], out, axis=axis - self.draw.pick(0, len(shape)))

    # Choices

    def activation(self) -> str:
        """A fused activation."""
        return str(self.draw.pick("NONE", *ACTIVATIONS))

    def numbers(self, most: int) -> tuple[int, int]:
        """Two numbers from 1 to ``most``."""
        a, b = self.draw.rng.integers(1, most + 1, 2)
        return int(a), int(b)

    @staticmethod
    def image(x: Tensor) -> tuple[int, ...]:
        """The shape, if it has 4 dimensions."""
        if len(x.type.shape) != 4:
            raise DoesNotFit
        return x.type.shape


STEPS: tuple[Callable[[RandomModel, Tensor], None], ...] = (
    *(RandomModel.convolution,) * 4,
    *(RandomModel.arithmetic,) * 3,
    *(RandomModel.pool, RandomModel.concat, RandomModel.pad) * 2,
    RandomModel.dense,
    RandomModel.mean,
    RandomModel.softmax,
    RandomModel.table,
    RandomModel.requantize,
    RandomModel.island,
    RandomModel.reshape,
    RandomModel.part,
)
"""What is drawn from; some more often."""
