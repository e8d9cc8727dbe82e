"""Shapes of weighted operators: where weights lie over activations, whatever the element types are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from qimport.elements import broadcast
from qimport.fixedpoint import Int
from qimport.ir.check import require
from qimport.ir.graph import Call
from qimport.qnn.base import QnnOperation
from qimport.summation import Float32

Padding = tuple[tuple[int, int], tuple[int, int]]

DEPTHWISE_TAPS = 25
"""Largest window of the delegate's depthwise kernels."""

_Number = TypeVar("_Number", bound=np.generic)


def has_bias(call: Call) -> bool:
    """Whether the optional third operand is there."""
    return len(call.inputs) > 2 and call.inputs[2] is not None


class Geometry(QnnOperation):
    """Operands x, w, bias or None (counts as zeros); the last dimension of the result is its channels."""

    RANKED = True

    WEIGHT_AXIS: ClassVar[int]
    """The dimension of w that counts channels of the result."""

    def verify_geometry(self, call: Call) -> int:
        """Check C1 as far as it is about ranks, and C2; the number of channels of the result."""
        raise NotImplementedError

    def accumulate(self, x: Int, w: Int, call: Call) -> npt.NDArray[np.float64]:
        """Sums of products of integers without zero points; float64 holds 2^37 of 16 by 8 bits exactly."""
        raise NotImplementedError

    def is_depthwise(self, call: Call) -> bool:
        """Whether the delegate uses its depthwise kernels."""
        return False


@dataclass(frozen=True)
class SlidingWindow(Geometry):
    """A window that slides over NHWC.

    ``padding`` is ((top, bottom), (left, right)); taps outside the image contribute zero. Batch, height and
    width of the result follow from window, stride, dilation and padding.
    """

    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    padding: Padding = ((0, 0), (0, 0))

    def taps(
        self, x: npt.NDArray[_Number], size: tuple[int, int], call: Call
    ) -> Iterator[tuple[int, int, npt.NDArray[_Number]]]:
        """For each tap of a window of this size: row, column, what it sees at every position; 0 outside."""
        extent = call.output.shape[1:3]
        padded = np.pad(x, ((0, 0), *self.padding, (0, 0)))
        for row, column in np.ndindex(size):
            top, left = row * self.dilation[0], column * self.dilation[1]
            rows = slice(top, top + (extent[0] - 1) * self.stride[0] + 1, self.stride[0])
            columns = slice(left, left + (extent[1] - 1) * self.stride[1] + 1, self.stride[1])
            yield row, column, padded[:, rows, columns]

    def patches(self, x: Float32, size: tuple[int, int], call: Call, columns_first: bool = False) -> Float32:
        """What every window sees, [N, OH, OW, taps, C]: rows of the window, then columns, or the reverse."""
        taps = list(self.taps(x, size, call))
        if columns_first:
            taps.sort(key=lambda tap: tap[1])
        return np.stack([seen for _, _, seen in taps], axis=3)


@dataclass(frozen=True)
class Conv2dGeometry(SlidingWindow):
    """Two-dimensional convolution, possibly in groups.

    Operands: x NHWC, w OHWI with I = C / groups, bias [O] or None (counts as zeros). ``padding`` is
    ((top, bottom), (left, right)); taps outside the image contribute zero.

    C1 ranks are 4. C2 the result shape follows from window, stride, dilation, padding and O; I * groups = C
    and groups divides O.

    ``constant_weights`` says that weights and bias are stored in the file, which the delegate asks for.
    """

    WEIGHT_AXIS = 0

    groups: int = 1
    activation: str = "NONE"
    constant_weights: bool = True

    def verify_geometry(self, call: Call) -> int:
        """See there."""
        x, w, out = call.input(0), call.input(1), call.output
        require(len(x.shape) == len(w.shape) == len(out.shape) == 4, "C1", "ranks must be 4")
        outputs, height, width, depth = w.shape
        verify_window(call, (height, width), self.stride, self.dilation, self.padding)
        fits = self.groups > 0 and depth * self.groups == x.shape[3] and outputs % self.groups == 0
        weights = f"{outputs} filters of depth {depth}"
        require(fits and out.shape[3] == outputs, "C2", f"{self.groups} groups do not fit {weights}")
        return outputs

    def is_depthwise(self, call: Call) -> bool:
        """Groups of one input and one output channel."""
        outputs, height, width, depth = call.input(1).shape
        return outputs == self.groups and depth == 1 and height * width <= DEPTHWISE_TAPS

    def accumulate(self, x: Int, w: Int, call: Call) -> npt.NDArray[np.float64]:
        """One matrix product per tap and group."""
        outputs, height, width, depth = w.shape
        per_group = outputs // self.groups
        acc, weights = np.zeros(call.output.shape), w.astype(np.float64)
        for row, column, seen in self.taps(x.astype(np.float64), (height, width), call):
            for group in range(self.groups):
                o = slice(group * per_group, (group + 1) * per_group)
                i = slice(group * depth, (group + 1) * depth)
                acc[..., o] += seen[..., i] @ weights[o, row, column].T
        return acc


@dataclass(frozen=True)
class DepthwiseGeometry(SlidingWindow):
    """Depthwise convolution with a depth multiplier m.

    Operands: x NHWC, w [1, KH, KW, C * m], bias [C * m] or None (counts as zeros). Output channel c * m + j
    reads input channel c. ``padding`` is ((top, bottom), (left, right)); taps outside the image contribute
    zero. In ``builtin`` there must be a bias unless x is int16: the optimized kernels crash without one.

    C1 ranks are 4; w has extent 1 in front. C2 the result shape follows from window, stride, dilation,
    padding and C * m.
    """

    WEIGHT_AXIS = 3

    activation: str = "NONE"

    def verify_geometry(self, call: Call) -> int:
        """See there."""
        x, w, out = call.input(0), call.input(1), call.output
        require(len(x.shape) == len(w.shape) == len(out.shape) == 4, "C1", "ranks must be 4")
        one, height, width, outputs = w.shape
        require(one == 1, "C1", "the weights must have extent 1 in front")
        verify_window(call, (height, width), self.stride, self.dilation, self.padding)
        fits = outputs % x.shape[3] == 0 and out.shape[3] == outputs
        require(fits, "C2", f"{outputs} output channels are no multiple of {x.shape[3]} input channels")
        return outputs

    def is_depthwise(self, call: Call) -> bool:
        """Not with a depth multiplier."""
        _, height, width, outputs = call.input(1).shape
        return outputs == call.input(0).shape[3] and height * width <= DEPTHWISE_TAPS

    def unsupported(self, call: Call) -> str | None:
        """As there, and where the optimized kernel would read a bias that is absent."""
        optimized = self.kernel_family(call) == "builtin" and call.input(0).dtype != "int16"
        if optimized and not has_bias(call):
            return "there is no bias; the interpreter's optimized kernel crashes without one"
        return super().unsupported(call)

    def accumulate(self, x: Int, w: Int, call: Call) -> npt.NDArray[np.float64]:
        """One elementwise product per tap."""
        _, height, width, outputs = w.shape
        acc = np.zeros(call.output.shape)
        repeated = np.repeat(x.astype(np.float64), outputs // x.shape[3], axis=3)
        for row, column, seen in self.taps(repeated, (height, width), call):
            acc += seen * w[0, row, column]
        return acc


@dataclass(frozen=True)
class TransposeConvGeometry(Geometry):
    """Transposed convolution: every input pixel adds a window to the result.

    Operands: x NHWC, w OHWI with I = C, bias [O] or None (counts as zeros). ``offset`` is how far the windows
    reach over the upper and left border; what falls outside the result is dropped.

    C1 ranks are 4. C2 I = C, the result has O channels and x's batch; strides are positive, offsets not
    negative.

    ``constant_weights`` says that weights and bias are stored in the file and the window suits the delegate.
    """

    WEIGHT_AXIS = 0

    stride: tuple[int, int] = (1, 1)
    offset: tuple[int, int] = (0, 0)
    activation: str = "NONE"
    constant_weights: bool = True

    def verify_geometry(self, call: Call) -> int:
        """See there."""
        x, w, out = call.input(0), call.input(1), call.output
        require(len(x.shape) == len(w.shape) == len(out.shape) == 4, "C1", "ranks must be 4")
        fits = w.shape[3] == x.shape[3] and out.shape[3] == w.shape[0] and out.shape[0] == x.shape[0]
        require(fits, "C2", f"{x} and {w} do not give {out}")
        positive = min(self.stride) > 0 and min(self.offset) >= 0
        require(positive, "C2", "strides must be positive, offsets not negative")
        return w.shape[0]

    def accumulate(self, x: Int, w: Int, call: Call) -> npt.NDArray[np.float64]:
        """One matrix product per tap, added where its results fall."""

        def product(row: int, column: int) -> list[npt.NDArray[np.float64]]:
            return [x.astype(np.float64) @ w[:, row, column].T.astype(np.float64)]

        return self.add_windows(np.float64, product, call)

    def add_windows(
        self, dtype: type[_Number], terms: Callable[[int, int], Sequence[npt.NDArray[_Number]]], call: Call
    ) -> npt.NDArray[_Number]:
        """Add up what every tap gives, [N, H, W, O], where it falls in the result.

        ``terms`` of tap (row, column) are added one after the other, the last tap first, which is the order
        of input pixels.
        """
        total = np.zeros(self.canvas(call), dtype)
        for row, column in reversed(list(np.ndindex(*call.input(1).shape[1:3]))):
            reached = total[self.reach(row, column, call)]
            for term in terms(row, column):
                reached += term
        return self.cut(total, call)

    def canvas(self, call: Call) -> tuple[int, int, int, int]:
        """The shape of the result and of what falls outside it."""
        (_, *size, _), (_, *window, _) = call.input(0).shape, call.input(1).shape
        batch, *extent, outputs = call.output.shape
        height, width = (
            max((size[a] - 1) * self.stride[a] + window[a], self.offset[a] + extent[a]) for a in (0, 1)
        )
        return batch, height, width, outputs

    def reach(self, row: int, column: int, call: Call) -> tuple[slice, slice, slice]:
        """Where the products of this tap fall on the canvas."""
        _, height, width, _ = call.input(0).shape
        down, across = self.stride
        rows = slice(row, row + (height - 1) * down + 1, down)
        return slice(None), rows, slice(column, column + (width - 1) * across + 1, across)

    def cut(self, canvas: npt.NDArray[_Number], call: Call) -> npt.NDArray[_Number]:
        """The result's part of the canvas."""
        (top, left), (_, height, width, _) = self.offset, call.output.shape
        return canvas[:, top : top + height, left : left + width]


@dataclass(frozen=True)
class DenseGeometry(Geometry):
    """Matrix product with a weight matrix.

    Operands: x (flattened to [rows, K]), w [N, K], bias [N] or None (counts as zeros). The result has
    rows * N elements, N along its last dimension; which rank, its type says.

    C1 w has rank 2. C2 K divides the size of x; the result has rows * N elements and N along its last
    dimension.
    """

    WEIGHT_AXIS = 0

    activation: str = "NONE"

    def verify_geometry(self, call: Call) -> int:
        """See there."""
        return verify_rows(call)

    def accumulate(self, x: Int, w: Int, call: Call) -> npt.NDArray[np.float64]:
        """One matrix product, [rows, N]."""
        acc: npt.NDArray[np.float64] = x.reshape(-1, w.shape[1]).astype(np.float64) @ w.astype(np.float64).T
        return acc


@dataclass(frozen=True)
class MatmulGeometry(QnnOperation):
    """Products of matrices in the last two dimensions; the leading ones broadcast.

    Operands: a [..., M, K] ([..., K, M] with ``adj_x``), b [..., K, N] ([..., N, K] with ``adj_y``). The
    result is [..., M, N].

    C2 the matrices fit and the leading dimensions broadcast to the result's.
    """

    RANKED = True

    adj_x: bool = False
    adj_y: bool = False

    def verify_geometry(self, call: Call) -> None:
        """Check C2."""
        a, b, out = call.input(0), call.input(1), call.output
        require(min(len(a.shape), len(b.shape)) >= 2, "C2", "ranks must be at least 2")
        require(self.result_shape(a.shape, b.shape) == out.shape, "C2", f"{a} and {b} do not give {out}")

    def result_shape(self, a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...] | None:
        """The shape of the product, None if the operands do not fit."""
        rows, depth = (a[-1], a[-2]) if self.adj_x else (a[-2], a[-1])
        other, columns = (b[-1], b[-2]) if self.adj_y else (b[-2], b[-1])
        batch = broadcast(a[:-2], b[:-2])
        return None if batch is None or depth != other else (*batch, rows, columns)

    def upright(self, a: npt.NDArray[Any], b: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Both operands as [..., M, K] and [..., K, N]."""
        return (a.swapaxes(-1, -2) if self.adj_x else a), (b.swapaxes(-1, -2) if self.adj_y else b)


def verify_rows(call: Call) -> int:
    """Check that x consists of rows as long as those of w, and the result of products; their number N."""
    x, w, out = call.input(0), call.input(1), call.output
    require(len(w.shape) == 2, "C1", "the weights must have rank 2")
    outputs, depth = w.shape
    require(depth > 0 and x.size % depth == 0, "C2", f"{x} does not consist of rows of {depth}")
    fits = bool(out.shape) and out.shape[-1] == outputs and out.size == x.size // depth * outputs
    require(fits, "C2", f"the result must hold {x.size // depth} rows of {outputs}")
    return outputs


def verify_window(
    call: Call, size: tuple[int, int], stride: tuple[int, int], dilation: tuple[int, int], padding: Padding
) -> None:
    """Check that the result's batch, height and width follow from a sliding window over NHWC."""
    x, out = call.input(0), call.output
    positive = min(*stride, *dilation) > 0 and min(*padding[0], *padding[1]) >= 0
    require(positive, "C2", "strides and dilations must be positive, padding not negative")
    require(out.shape[0] == x.shape[0], "C2", "the batch changes")
    for a in (0, 1):
        room = x.shape[1 + a] + sum(padding[a]) - (size[a] - 1) * dilation[a] - 1
        wanted = room // stride[a] + 1
        require(room >= 0 and out.shape[1 + a] == wanted, "C2", f"result extent {a + 1} must be {wanted}")
