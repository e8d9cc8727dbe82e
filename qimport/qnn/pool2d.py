"""``qnn.average_pool2d``, ``qnn.max_pool2d``, ``qnn.l2_pool2d``: reductions of windows over images."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from qimport.fixedpoint import Int
from qimport.ir.check import require
from qimport.ir.graph import Array, Call, operation
from qimport.qnn.base import QnnOperation
from qimport.qnn.checks import require_per_tensor
from qimport.qnn.float_pool import (
    Float32,
    PatchFunction,
    clamp,
    largest,
    ordered_sum,
    reciprocals,
    square_sum,
)
from qimport.qnn.float_weighted import bounds
from qimport.qnn.geometry import Padding, verify_window
from qimport.qnn.requantization import ACTIVATIONS, is_plain_8bit, output_range
from qimport.summation import sum_in_passes

UNDILATED = (1, 1)


class Pool(QnnOperation):
    """Operand x NHWC; windows see only the pixels inside the image."""

    RANKED = True

    DTYPES: ClassVar[tuple[str, ...]] = ("int8", "uint8", "int16", "float32")

    size: tuple[int, int]
    stride: tuple[int, int]
    padding: Padding
    activation: str

    def real(self, call: Call) -> bool:
        """Whether this is about float32."""
        return call.output.dtype == "float32"

    def xnnpack_takes(self, call: Call) -> bool:
        """float32, or 8 bits with one scale and no quantized dimension; strides no longer than the window."""
        within = self.stride[0] <= self.size[0] and self.stride[1] <= self.size[1]
        codes = is_plain_8bit(call.input(0)) and is_plain_8bit(call.output)
        return within and (self.real(call) or codes)

    def verify(self, call: Call) -> None:
        """Check C1-C4."""
        x, out = call.input(0), call.output
        require(len(x.shape) == len(out.shape) == 4, "C1", "ranks must be 4")
        require(x.dtype == out.dtype, "C1", "operand and result must be of one type")
        require(x.dtype in self.DTYPES, "C1", f"no windows over {x.dtype}")
        if not self.real(call):
            require_per_tensor("C1", x, out)
        require(min(self.size) > 0, "C2", "the window must not be empty")
        verify_window(call, self.size, self.stride, UNDILATED, self.padding)
        require(x.shape[3] == out.shape[3], "C2", "the channels change")
        require(bool(self.counts(call).all()), "C3", "a window lies outside the image")
        require(self.activation in ACTIVATIONS, "C4", f"unknown activation {self.activation}")

    def spans(self, call: Call, axis: int) -> Int:
        """First and one past the last pixel inside the image of every window, [2, windows] (axis 0: rows)."""
        extent, count = call.input(0).shape[1 + axis], call.output.shape[1 + axis]
        first = np.arange(count) * self.stride[axis] - self.padding[axis][0]
        return np.array([np.maximum(first, 0), np.minimum(first + self.size[axis], extent)])

    def counts(self, call: Call) -> npt.NDArray[np.int32]:
        """Pixels inside the image of every window, [1, OH, OW, 1]."""
        rows, columns = (np.maximum(np.diff(self.spans(call, axis), axis=0)[0], 0) for axis in (0, 1))
        return np.asarray(np.outer(rows, columns)[None, :, :, None], np.int32)

    def codes_range(self, call: Call) -> tuple[int, int]:
        """Clip bounds in the call's numerics."""
        return output_range(self.activation, call.output, self.kernel_family(call))

    def real_range(self, call: Call) -> tuple[float, float]:
        """Bounds of float32 results in the call's numerics; an infinity is no bound."""
        return bounds(self.activation, self.kernel_family(call))

    def reduce_real(self, call: Call, reduction: PatchFunction) -> Float32:
        """``reduction`` of every window's float32 pixels."""
        image, found = np.asarray(call.array(0), np.float32), np.empty(call.output.shape, np.float32)
        with np.errstate(all="ignore"):
            for y, x, patch in self._patches(call, image):
                found[:, y, x] = reduction(np.asarray(patch, np.float32))
        return found

    def bounded(self, x: Array, call: Call) -> tuple[Array, ...]:
        """float32 results within the activation's bounds."""
        return (np.asarray(clamp(x, *self.real_range(call)), np.float32),)

    def reduce(self, call: Call, reduction: Callable[[Array], Array]) -> Int:
        """``reduction`` of [N, rows, columns, C] to [N, C] for every window."""
        found = np.empty(call.output.shape, np.int64)
        for y, x, patch in self._patches(call, call.array(0).astype(np.int64)):
            found[:, y, x] = reduction(patch)
        return found

    def _patches(self, call: Call, image: Array) -> Iterator[tuple[int, int, Array]]:
        for y, (top, bottom) in enumerate(self.spans(call, 0).T):
            for x, (left, right) in enumerate(self.spans(call, 1).T):
                yield y, x, image[:, top:bottom, left:right]


@operation
@dataclass(frozen=True)
class AveragePool2d(Pool):
    """Mean of a window, counting only pixels inside the image.

        sum  = sum of x over the n pixels of the window inside the image
        code = clamp(sum / n rounded half away from zero, low, high)

    The same in all three modes (``reference_integer_ops::AveragePool``, ``reference_ops::AveragePool`` and
    their optimized forms; the delegate takes no average of codes). Zero points do not enter and the scales
    of x and the result are not compared: the codes are averaged.

    float32: y = clamp(sum / n), the sum from 0 by index (row, column); infinities become the largest numbers.
    xnnpack: y = clamp(sum * float32(1 / n)); the sum of :func:`qimport.summation.sum_in_passes` goes down the
    columns, with zeros for pixels outside the image. One pixel is y = clamp(x). It takes no other average.

    C1 x and the result are int8, uint8 or int16, with one scale each, or float32; of rank 4. C2 the result
    shape follows from window, stride and padding. C3 every window sees at least one pixel. C4 the activation
    is one of the schema's. ``padding`` is ((top, bottom), (left, right)).
    """

    NAME = "qnn.average_pool2d"
    TFLITE = ("AVERAGE_POOL_2D",)

    size: tuple[int, int]
    stride: tuple[int, int]
    padding: Padding = ((0, 0), (0, 0))
    activation: str = "NONE"

    def xnnpack_takes(self, call: Call) -> bool:
        """float32 only, with strides no longer than the window."""
        return self.real(call) and super().xnnpack_takes(call)

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """The docstring's formula."""
        n = self.counts(call)
        if not self.real(call):
            total = self.reduce(call, lambda patch: patch.sum((1, 2)))
            mean = np.sign(total) * ((np.abs(total) + n // 2) // n)
            return (np.clip(mean, *self.codes_range(call)).astype(call.output.numpy),)
        if self.kernel_family(call) != "xnnpack":
            return self.bounded(self.reduce_real(call, ordered_sum) / n.astype(np.float32), call)
        if self.size == (1, 1):
            return self.bounded(call.array(0), call)
        return self.bounded(self._passes(call) * reciprocals(n), call)

    def _passes(self, call: Call) -> Float32:
        image = np.pad(call.array(0), ((0, 0), *self.padding, (0, 0)))
        _, height, width, _ = call.output.shape
        rows, columns = (
            (count - 1) * step + 1 for count, step in zip((height, width), self.stride, strict=True)
        )
        taps = [
            image[:, y : y + rows : self.stride[0], x : x + columns : self.stride[1]]
            for x in range(self.size[1])
            for y in range(self.size[0])
        ]
        with np.errstate(all="ignore"):
            return np.asarray(sum_in_passes(taps, np.zeros_like(taps[0]), np.add), np.float32)


@operation
@dataclass(frozen=True)
class MaxPool2d(Pool):
    """Largest element of a window, among the pixels inside the image.

        code = clamp(max of x over the pixels of the window inside the image, low, high)

    The same in all three modes (``reference_integer_ops::MaxPool``, ``reference_ops::MaxPool`` and their
    optimized forms) except that xnnpack rounds the bounds of a fused activation its own way, and requires
    equal quantization of x and the result. The others do not compare it. float32: x if x > best, by index,
    from the smallest finite number, then clamped; a zero that xnnpack clamps to 0 is never negative, unless
    the window is a single pixel.

    C1 x and the result are int8, uint8 or int16, with one scale each, or float32; of rank 4. C2 the result
    shape follows from window, stride and padding. C3 every window sees at least one pixel. C4 the activation
    is one of the schema's. ``padding`` is ((top, bottom), (left, right)).
    """

    NAME = "qnn.max_pool2d"
    TFLITE = ("MAX_POOL_2D",)

    size: tuple[int, int]
    stride: tuple[int, int]
    padding: Padding = ((0, 0), (0, 0))
    activation: str = "NONE"

    def unsupported(self, call: Call) -> str | None:
        """Why there are no bytes to equal: the delegate takes the use, then fails to load the file."""
        alike = call.input(0).quantization == call.output.quantization
        if alike or self.kernel_family(call) != "xnnpack":
            return None
        return "operand and result are quantized unlike each other; the XNNPACK delegate pools no such codes"

    def loses_sign(self, call: Call) -> bool:
        """Whether -0.0 becomes 0.0."""
        delegated = self.kernel_family(call) == "xnnpack" and self.size != (1, 1)
        return delegated and self.real_range(call)[0] == 0

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """The docstring's formula."""
        if self.real(call):
            (real,) = self.bounded(self.reduce_real(call, largest), call)
            return (np.asarray(real + np.float32(0)) if self.loses_sign(call) else real,)
        found = self.reduce(call, lambda patch: patch.max((1, 2)))
        return (np.clip(found, *self.codes_range(call)).astype(call.output.numpy),)


@operation
@dataclass(frozen=True)
class L2Pool2d(Pool):
    """Root of the mean square of a window, counting only the n pixels inside the image.

        reference  y = clamp(sqrt(sum x^2 / n))
        otherwise  y = clamp(sqrt(sum x^2 * float32(1 / n)))

    The sum goes by index from 0, every step is rounded to float32. The delegate does not take it.

    C1 x and the result are float32, of rank 4. C2 the result shape follows from window, stride and padding.
    C3 every window sees at least one pixel. C4 the activation is one of the schema's.
    """

    NAME = "qnn.l2_pool2d"
    TFLITE = ("L2_POOL_2D",)
    DTYPES = ("float32",)

    size: tuple[int, int]
    stride: tuple[int, int]
    padding: Padding = ((0, 0), (0, 0))
    activation: str = "NONE"

    def xnnpack_takes(self, call: Call) -> bool:
        """Never."""
        return False

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """The docstring's formula."""
        total, n = self.reduce_real(call, square_sum), self.counts(call)
        divided = self.kernel_family(call) == "reference"
        with np.errstate(all="ignore"):
            mean = total / n.astype(np.float32) if divided else total * reciprocals(n)
            return self.bounded(np.sqrt(mean), call)
