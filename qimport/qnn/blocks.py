"""Blocks of an image moved into its channels or its batch, and back."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from qimport.ir.check import require
from qimport.ir.graph import Array, Call, operation
from qimport.ir.types import TensorType
from qimport.qnn.base import QnnOperation
from qimport.qnn.checks import require_same_dtype


@operation
@dataclass(frozen=True)
class SpaceToDepth(QnnOperation):
    """Every ``block`` x ``block`` pixels of x NHWC become one pixel, channels in row-major order.

    Any type, all modes equal.

    C1 one element type. C2 block >= 1 divides height and width; the result has shape
    [N, H / block, W / block, C * block^2].
    """

    NAME = "qnn.space_to_depth"
    TFLITE: ClassVar[tuple[str, ...]] = ("SPACE_TO_DEPTH",)

    block: int

    def verify(self, call: Call) -> None:
        """Check C1, C2."""
        x, out, block = call.input(0), call.output, self.block
        require_same_dtype("C1", call)
        divides = block > 0 and len(x.shape) == 4 and not x.shape[1] % block and not x.shape[2] % block
        require(divides, "C2", f"{x} does not consist of blocks of {block}")
        batch, height, width, channels = x.shape
        wanted = (batch, height // block, width // block, channels * block * block)
        require(out.shape == wanted, "C2", f"the result must have shape {wanted}")

    def split_shape(self, x: tuple[int, ...]) -> tuple[int, ...]:
        """The operand with rows and columns of blocks as dimensions of their own."""
        return (x[0], x[1] // self.block, self.block, x[2] // self.block, self.block, x[3])

    ORDER: ClassVar[tuple[int, ...]] = (0, 1, 3, 2, 4, 5)
    """The dimensions of :meth:`split_shape` as they lie in the result."""

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """NumPy reshape and transpose."""
        x = call.array(0)
        return (x.reshape(self.split_shape(x.shape)).transpose(self.ORDER).reshape(call.output.shape),)


@operation
@dataclass(frozen=True)
class DepthToSpace(QnnOperation):
    """Every pixel of x NHWC becomes ``block`` x ``block`` pixels of C / block^2 channels in row-major order.

    Any type, all modes equal.

    C1 one element type. C2 block >= 1, its square divides C; the result has shape
    [N, H * block, W * block, C / block^2].
    """

    NAME = "qnn.depth_to_space"
    TFLITE: ClassVar[tuple[str, ...]] = ("DEPTH_TO_SPACE",)

    block: int

    def verify(self, call: Call) -> None:
        """Check C1, C2."""
        x, out, block = call.input(0), call.output, self.block
        require_same_dtype("C1", call)
        divides = block > 0 and len(x.shape) == 4 and not x.shape[3] % (block * block)
        require(divides, "C2", f"the channels of {x} are no blocks of {block}")
        batch, height, width, channels = x.shape
        wanted = (batch, height * block, width * block, channels // (block * block))
        require(out.shape == wanted, "C2", f"the result must have shape {wanted}")

    def split_shape(self, x: tuple[int, ...]) -> tuple[int, ...]:
        """The operand with rows and columns of blocks as dimensions of their own."""
        return (*x[:3], self.block, self.block, x[3] // (self.block * self.block))

    ORDER: ClassVar[tuple[int, ...]] = (0, 1, 3, 2, 4, 5)
    """The dimensions of :meth:`split_shape` as they lie in the result."""

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """NumPy reshape and transpose."""
        x = call.array(0)
        return (x.reshape(self.split_shape(x.shape)).transpose(self.ORDER).reshape(call.output.shape),)


@dataclass(frozen=True)
class BlocksAndBatch(QnnOperation):
    """One number of ``block`` per spatial dimension, and what is padded or cropped around each of them."""

    block: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]

    def verify_borders(self, call: Call) -> None:
        """Check C1, and of C2 what is about ``before`` and ``after``."""
        x, out, count = call.input(0), call.output, len(self.block)
        same = (x.dtype, x.quantization) == (out.dtype, out.quantization)
        require(same, "C1", f"{x} and {out} differ in element type or quantization")
        counts = len(self.before) == len(self.after) == count < len(x.shape)
        require(counts, "C2", f"{count} blocks with borders {self.before} and {self.after} for {x}")
        require(min((0, *self.before, *self.after)) == 0, "C2", "borders must not be negative")


@operation
@dataclass(frozen=True)
class SpaceToBatch(BlocksAndBatch):
    """Interleaved samples of the padded operand become images of their own; x is [N, spatial..., rest...].

    ``block`` has one number per spatial dimension. Image (((j0 * block1) + j1) ... * N + n) of the result
    holds pixels (j0 + block0 * i0, j1 + block1 * i1, ...) of image n. Padding is the result's zero point, or
    0. Any type, all modes equal.

    C1 one element type, one quantization. C2 counts >= 0 per spatial dimension and side; each block >= 1
    divides the padded size. C3 the result has shape [N * prod(block), padded / block..., rest...].
    """

    NAME = "qnn.space_to_batch"
    TFLITE: ClassVar[tuple[str, ...]] = ("SPACE_TO_BATCH_ND",)

    def verify(self, call: Call) -> None:
        """Check C1-C3."""
        x, out, count = call.input(0), call.output, len(self.block)
        self.verify_borders(call)
        padded = self.padded_shape(x.shape)[1 : count + 1]
        divides = min(self.block, default=1) > 0 and not any(
            a % b for a, b in zip(padded, self.block, strict=True)
        )
        require(divides, "C2", f"{padded} does not consist of blocks of {self.block}")
        inner = [size // block for size, block in zip(padded, self.block, strict=True)]
        wanted = (x.shape[0] * math.prod(self.block), *inner, *x.shape[count + 1 :])
        require(out.shape == wanted, "C3", f"the result must have shape {wanted}")

    def widths(self, rank: int) -> list[tuple[int, int]]:
        """Padding of every dimension."""
        idle = [(0, 0)] * (rank - len(self.block) - 1)
        return [(0, 0), *zip(self.before, self.after, strict=True), *idle]

    def padded_shape(self, x: tuple[int, ...]) -> tuple[int, ...]:
        """The operand's shape with padding."""
        return tuple(size + sum(pads) for size, pads in zip(x, self.widths(len(x)), strict=True))

    def split_shape(self, padded: tuple[int, ...]) -> tuple[int, ...]:
        """The padded operand with each spatial dimension cut in two: i, then j."""
        count = len(self.block)
        pairs = [(n // b, b) for n, b in zip(padded[1 : count + 1], self.block, strict=True)]
        return (padded[0], *[size for pair in pairs for size in pair], *padded[count + 1 :])

    def order(self, rank: int) -> tuple[int, ...]:
        """The dimensions of :meth:`split_shape` as they lie in the result: j..., N, i..., rest."""
        count = len(self.block)
        rest = range(2 * count + 1, rank + count)
        return (*range(2, 2 * count + 1, 2), 0, *range(1, 2 * count + 1, 2), *rest)

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """NumPy pad, reshape and transpose."""
        x = np.pad(call.array(0), self.widths(call.array(0).ndim), constant_values=padding(call.output))
        return (
            x.reshape(self.split_shape(x.shape)).transpose(self.order(x.ndim)).reshape(call.output.shape),
        )


@operation
@dataclass(frozen=True)
class BatchToSpace(BlocksAndBatch):
    """The inverse of :class:`SpaceToBatch`; ``before`` and ``after`` are cut off. Any type, all modes equal.

    C1 one element type, one quantization. C2 crops >= 0 per spatial dimension and side; the batch is a
    multiple of prod(block), each block >= 1. C3 the result has shape [N / prod(block),
    size * block - crops..., rest...].
    """

    NAME = "qnn.batch_to_space"
    TFLITE: ClassVar[tuple[str, ...]] = ("BATCH_TO_SPACE_ND",)

    def verify(self, call: Call) -> None:
        """Check C1-C3."""
        x, out, count = call.input(0), call.output, len(self.block)
        self.verify_borders(call)
        divides = min(self.block, default=1) > 0 and not x.shape[0] % math.prod(self.block)
        require(divides, "C2", f"{x} does not hold images of {self.block} samples")
        crops = zip(self.merged_shape(x.shape), (0, *self.before), (0, *self.after), strict=False)
        inner = [size - first - last for size, first, last in crops]
        wanted = (*inner, *x.shape[count + 1 :])
        require(out.shape == wanted, "C3", f"the result must have shape {wanted}")

    def merged_shape(self, x: tuple[int, ...]) -> tuple[int, ...]:
        """The result's shape before it is cropped."""
        count = len(self.block)
        inner = [size * block for size, block in zip(x[1 : count + 1], self.block, strict=True)]
        return (x[0] // math.prod(self.block), *inner, *x[count + 1 :])

    def split_shape(self, x: tuple[int, ...]) -> tuple[int, ...]:
        """The operand with its batch cut into j..., N."""
        return (*self.block, x[0] // math.prod(self.block), *x[1:])

    def order(self, rank: int) -> tuple[int, ...]:
        """The dimensions of :meth:`split_shape` as they lie in the result: N, each i with its j, rest."""
        count = len(self.block)
        pairs = [axis for k in range(count) for axis in (count + 1 + k, k)]
        return (count, *pairs, *range(2 * count + 1, rank + count))

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """NumPy reshape, transpose and slices."""
        x, out = call.array(0), call.output.shape
        merged = x.reshape(self.split_shape(x.shape)).transpose(self.order(x.ndim))
        merged = merged.reshape(self.merged_shape(x.shape))
        starts = (0, *self.before, *[0] * (len(out) - len(self.before) - 1))
        return (merged[tuple(slice(a, a + n) for a, n in zip(starts, out, strict=True))].copy(),)


def padding(out: TensorType) -> int:
    """The code of SPACE_TO_BATCH_ND's padding."""
    return 0 if out.quantization is None else out.quant.zero_point
