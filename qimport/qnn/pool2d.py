"""``qnn.average_pool2d`` and ``qnn.max_pool2d``: the AVERAGE_POOL_2D and MAX_POOL_2D operators."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from qimport.fixedpoint import Int
from qimport.ir.check import require
from qimport.ir.graph import Array, Call, operation
from qimport.qnn.base import QnnOperation
from qimport.qnn.checks import require_eight_bit
from qimport.qnn.convolution import Padding, verify_window
from qimport.qnn.requantization import ACTIVATIONS, is_plain_8bit, output_range

UNDILATED = (1, 1)


class Pool(QnnOperation):
    """Operand x NHWC; windows see only the pixels inside the image."""

    size: tuple[int, int]
    stride: tuple[int, int]
    padding: Padding
    activation: str

    def verify(self, call: Call) -> None:
        """Check C1-C4."""
        x, out = call.input(0), call.output
        require(len(x.shape) == len(out.shape) == 4, "C1", "ranks must be 4")
        require_eight_bit("C1", x, out)
        require(x.dtype == out.dtype, "C1", "operand and result must be of one type")
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

    def reduce(self, call: Call, reduction: Callable[[Array], Array]) -> Int:
        """``reduction`` of [N, rows, columns, C] to [N, C] for every window."""
        found = np.empty(call.output.shape, np.int64)
        for y, x, patch in self._patches(call):
            found[:, y, x] = reduction(patch)
        return found

    def _patches(self, call: Call) -> Iterator[tuple[int, int, Array]]:
        image = call.array(0).astype(np.int64)
        for y, (top, bottom) in enumerate(self.spans(call, 0).T):
            for x, (left, right) in enumerate(self.spans(call, 1).T):
                yield y, x, image[:, top:bottom, left:right]


@operation
@dataclass(frozen=True)
class AveragePool2d(Pool):
    """Mean of the codes of a window, counting only pixels inside the image.

        sum  = sum of x over the n pixels of the window inside the image
        code = clamp(sum / n rounded half away from zero, low, high)

    The same in all three modes (``reference_integer_ops::AveragePool``, ``reference_ops::AveragePool`` and
    their optimized forms; the delegate takes no 8-bit average). Zero points do not enter and the scales of x
    and the result are not compared: the codes are averaged.

    C1 x and the result are int8 or both uint8, of rank 4, with one scale each. C2 the result shape follows
    from window, stride and padding. C3 every window sees at least one pixel. C4 the activation is one of the
    schema's. ``padding`` is ((top, bottom), (left, right)).
    """

    NAME = "qnn.average_pool2d"
    TFLITE = ("AVERAGE_POOL_2D",)

    size: tuple[int, int]
    stride: tuple[int, int]
    padding: Padding = ((0, 0), (0, 0))
    activation: str = "NONE"

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """The docstring's formula."""
        total = self.reduce(call, lambda patch: patch.sum((1, 2)))
        n = self.counts(call)
        mean = np.sign(total) * ((np.abs(total) + n // 2) // n)
        return (np.clip(mean, *self.codes_range(call)).astype(call.output.numpy),)


@operation
@dataclass(frozen=True)
class MaxPool2d(Pool):
    """Largest code of a window, among the pixels inside the image.

        code = clamp(max of x over the pixels of the window inside the image, low, high)

    The same in all three modes (``reference_integer_ops::MaxPool``, ``reference_ops::MaxPool`` and their
    optimized forms) except that xnnpack rounds the bounds of a fused activation its own way, and requires
    equal quantization of x and the result. The others do not compare it.

    C1 x and the result are int8 or both uint8, of rank 4, with one scale each. C2 the result shape follows
    from window, stride and padding. C3 every window sees at least one pixel. C4 the activation is one of the
    schema's. ``padding`` is ((top, bottom), (left, right)).
    """

    NAME = "qnn.max_pool2d"
    TFLITE = ("MAX_POOL_2D",)

    size: tuple[int, int]
    stride: tuple[int, int]
    padding: Padding = ((0, 0), (0, 0))
    activation: str = "NONE"

    def xnnpack_takes(self, call: Call) -> bool:
        """One scale each without quantized dimension; strides no longer than the window."""
        within = self.stride[0] <= self.size[0] and self.stride[1] <= self.size[1]
        return within and is_plain_8bit(call.input(0)) and is_plain_8bit(call.output)

    def unsupported(self, call: Call) -> str | None:
        """Why there are no bytes to equal: the delegate takes the use, then fails to load the file."""
        alike = call.input(0).quantization == call.output.quantization
        if alike or self.kernel_family(call) != "xnnpack":
            return None
        return "operand and result are quantized unlike each other; the XNNPACK delegate pools no such codes"

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """The docstring's formula."""
        largest = self.reduce(call, lambda patch: patch.max((1, 2)))
        return (np.clip(largest, *self.codes_range(call)).astype(call.output.numpy),)
