"""``prim.float_mac`` and ``prim.fma``: sums of float32 products in a stated order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from qimport import summation
from qimport.elements import broadcast
from qimport.ir.check import require
from qimport.ir.graph import Array, Call, Operation, operation
from qimport.ir.types import TensorType
from qimport.prim.checks import require_steps
from qimport.summation import Float32, Order


@operation
@dataclass(frozen=True)
class FloatMac(Operation):
    """result[n,y,x,o] = bias[o] + sum input * weight over a window, in float32 and a stated order.

    Operands: input NHWC; weight HWIO with I = C / groups; bias [O]. Output channel o reads input channels
    [g*I, (g+1)*I) with g = o // (O / groups). The window never leaves the input: padding is explicit.

    Products are taken by rows of the window, then columns (``columns_first``: the other way round), then
    input channels, and summed in ``order`` (:data:`qimport.summation.ORDERS`), separately for every ``block``
    of them (0: all), blocks being added one after the other. With ``fused`` every product and addition is one
    fused multiply-add, otherwise both are rounded. The bias is what the sum starts from (``bias_first``), or
    is added to it.

    C1 float32, ranks 4, 4, 1. C2 groups divides C and O, and I = C / groups. C3 the bias has O elements.
    C4 stride and dilation are positive and the result shape follows from them and the window. C5 orders other
    than sequential, and blocks, are for windows of one pixel in one group, which add the bias last.
    C6 columns come first only where I = 1.
    """

    NAME = "prim.float_mac"

    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1
    order: Order = "sequential"
    block: int = 0
    fused: bool = False
    bias_first: bool = False
    columns_first: bool = False

    def result_type(self, x: TensorType, w: TensorType) -> TensorType:
        """The result for these operands."""
        size = [
            (x.shape[1 + a] - (w.shape[a] - 1) * self.dilation[a] - 1) // self.stride[a] + 1 for a in (0, 1)
        ]
        return TensorType("float32", (x.shape[0], size[0], size[1], w.shape[3]))

    def verify(self, call: Call) -> None:
        """Check C1-C6."""
        x, w, bias = call.input(0), call.input(1), call.input(2)
        require((len(x.shape), len(w.shape), len(bias.shape)) == (4, 4, 1), "C1", "ranks must be 4, 4, 1")
        require(x.dtype == w.dtype == bias.dtype == "float32", "C1", "operands must be float32")
        kh, kw, depth, outputs = w.shape
        divides = self.groups > 0 and outputs % self.groups == 0 and depth * self.groups == x.shape[3]
        require(divides, "C2", f"{self.groups} groups do not fit")
        require(bias.shape == (outputs,), "C3", f"the bias must have {outputs} elements")
        require_steps("C4", "stride", self.stride)
        require_steps("C4", "dilation", self.dilation)
        wanted = self.result_type(x, w)
        require(call.output == wanted and min(wanted.shape) > 0, "C4", f"result must be {wanted}")
        require(self.order in summation.ORDERS and self.block >= 0, "C5", f"no order {self.order}")
        plain = self.order == "sequential" and self.block == 0
        matrix = (kh, kw, self.groups) == (1, 1, 1) and not self.bias_first
        require(plain or matrix, "C5", "this order is for matrix products that add the bias last")
        require(not self.columns_first or depth == 1, "C6", "columns first needs one channel per group")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """Every product of every output at once, one after the other."""
        x, w, bias = call.array(0), call.array(1), call.array(2)
        kh, kw, depth, outputs = w.shape
        taps = [(row, column) for row in range(kh) for column in range(kw)]
        if self.columns_first:
            taps.sort(key=lambda tap: tap[1])
        first = np.arange(outputs) // (outputs // self.groups) * depth
        _, height, width, _ = call.output.shape

        def step(total: Float32, k: int) -> Float32:
            (row, column), channel = taps[k // depth], k % depth
            top, left = row * self.dilation[0], column * self.dilation[1]
            rows = slice(top, top + (height - 1) * self.stride[0] + 1, self.stride[0])
            columns = slice(left, left + (width - 1) * self.stride[1] + 1, self.stride[1])
            seen: Float32 = x[:, rows, columns][..., first + channel]
            weight: Float32 = w[row, column, channel]
            if self.fused:
                return summation.fused_multiply_add(seen, weight, total)
            return np.asarray(total + seen * weight, np.float32)

        with np.errstate(all="ignore"):
            return (self._sums(len(taps) * depth, step, call.output.shape, bias),)

    def _sums(
        self, depth: int, step: Callable[[Float32, int], Float32], shape: tuple[int, ...], bias: Array
    ) -> Array:
        zeros = np.zeros(shape, np.float32)
        start: Float32 = np.asarray(np.add(zeros, bias)) if self.bias_first else zeros
        size = self.block or depth
        total: Float32 | None = None
        for begin in range(0, depth, size):

            def from_here(part: Float32, k: int, begin: int = begin) -> Float32:
                return step(part, begin + k)

            count = min(size, depth - begin)
            found = summation.in_order(self.order, count, start, lambda: zeros, from_here, np.add)
            total = found if total is None else total + found
        assert total is not None
        return total if self.bias_first else np.asarray(total + bias)


@operation
@dataclass(frozen=True)
class Fma(Operation):
    """a * b + c, rounded once.

    C1 float32 throughout. C2 the shapes broadcast to the result's.
    """

    NAME = "prim.fma"

    def verify(self, call: Call) -> None:
        """Check C1, C2."""
        types = [call.input(index) for index in range(3)]
        floats = all(type_.dtype == "float32" for type_ in (*types, call.output))
        require(floats, "C1", "operands and result must be float32")
        shape = broadcast(*(type_.shape for type_ in types))
        require(shape == call.output.shape, "C2", f"the operands do not give {call.output.shape}")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """:func:`qimport.summation.fused_multiply_add`."""
        return (summation.fused_multiply_add(call.array(0), call.array(1), call.array(2)),)
