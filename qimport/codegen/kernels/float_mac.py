"""``prim.float_mac``: every lane is one output channel, so that vectors change no order of summation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from qimport import prim
from qimport.codegen.elementwise import preferred_lanes
from qimport.codegen.function import F32, Index, KernelFunction
from qimport.codegen.fused import fused_multiply_add
from qimport.codegen.kernels import access
from qimport.codegen.kernels.finish import Finisher
from qimport.codegen.tables import TableLayout
from qimport.codegen.target import Target
from qimport.codegen.vector import constant, splat, vector_type
from qimport.errors import CompilerBug
from qimport.lower.kernel import Kernel
from qimport.summation import ORDERS

PIXELS = 4
"""Output pixels that share each load of weights."""


def emit(module: Any, name: str, kernel: Kernel, target: Target, layout: TableLayout) -> Any:
    """Rows of output pixels, a few pixels at a time, then blocks of output channels."""
    fn = access.start(module, name, kernel, target)
    sums = _Sums(fn, kernel, target, layout)
    images, rows, width = sums.extent

    def row(image: Index, number: Index) -> None:
        pixel = fn.mul(fn.add(fn.mul(image, rows), number), width)
        first = fn.add(fn.mul(image, sums.image_step), fn.mul(number, sums.row_step))

        def pixels(column: Index, count: int) -> None:
            sums.tile(fn.add(first, fn.mul(column, sums.pixel_step)), fn.add(pixel, column), count)

        whole = width - width % sums.pixels
        fn.loop(0, whole, sums.pixels, lambda column: pixels(column, sums.pixels))
        fn.loop(whole, width, 1, lambda column: pixels(column, 1))

    fn.loop(0, images, 1, lambda image: fn.loop(0, rows, 1, lambda number: row(image, number)) and None)
    return fn.finish()


class _Sums:
    """What the kernel knows while its code is written."""

    def __init__(self, fn: KernelFunction, kernel: Kernel, target: Target, layout: TableLayout) -> None:
        op, (x, w, bias) = kernel.root.op, kernel.root.inputs
        if not isinstance(op, prim.FloatMac) or x is None or w is None or bias is None:
            raise CompilerBug(f"{kernel.root.op.NAME} is no complete prim.float_mac")
        self.fn, self.op = fn, op
        self.input, self.weights, self.biases = (
            access.pointer_to(fn, kernel, layout, v) for v in (x, w, bias)
        )
        self.window, self.outputs = w.type.shape[:3], w.type.shape[3]
        batch, height, columns, channels = x.type.shape
        self.line, self.channels = columns * channels, channels
        _, rows, width, _ = kernel.root.outputs[0].type.shape
        pointwise = self.window[:2] == (1, 1) and op.stride == (1, 1)
        self.extent = (1, 1, batch * rows * width) if pointwise else (batch, rows, width)
        self.image_step, self.row_step = height * self.line, op.stride[0] * self.line
        self.pixel_step = op.stride[1] * channels
        self.depthwise = op.groups > 1 and self.outputs == op.groups == channels
        self.pixels = PIXELS if op.order == "sequential" else 1
        self.lanes = preferred_lanes(kernel.graph, target)
        self.overlap = not kernel.in_place
        self.finisher = Finisher(fn, kernel, target, layout)

    def tile(self, first: Index, pixel: Index, count: int) -> None:
        """``count`` neighbouring pixels; ``first`` is the input element under the first one's window."""
        if self.depthwise:
            self._blocks(first, pixel, count, 0, self.outputs)
            return
        size, depth = self.outputs // self.op.groups, self.window[2]

        def group(number: Index) -> None:
            start = self.fn.add(first, self.fn.mul(number, depth))
            self._blocks(start, pixel, count, self.fn.mul(number, size), size)

        self.fn.loop(0, self.op.groups, 1, group)

    def _blocks(self, first: Index, pixel: Index, count: int, channel: Index, outputs: int) -> None:
        def block(start: Index, lanes: int) -> None:
            place = self.fn.add(channel, start)
            for number, total in enumerate(self._sums(first, place, lanes, count)):
                self.finisher.store(total, self.fn.add(pixel, number), place, lanes)

        self.fn.blocks(outputs, self.lanes, self.overlap, block)

    def _sums(self, first: Index, channel: Index, lanes: int, count: int) -> list[Any]:
        """The finished sums of ``count`` pixels by ``lanes`` channels."""
        type_ = vector_type(F32, lanes)
        bias = self.fn.load(self.fn.element(self.biases, channel, "float32"), type_)
        zero = constant(type_, 0.0)

        def step(totals: Sequence[Any], x: Index, w: Index) -> list[Any]:
            return self._step(totals, self.fn.add(first, x), w, channel, lanes)

        if self.op.order == "sequential" and self.op.block == 0:
            totals = self._window([bias if self.op.bias_first else zero] * count, step)
        else:
            totals = self._matrix([zero] * count, step)
        return totals if self.op.bias_first else [self.fn.b.fadd(total, bias) for total in totals]

    def _step(self, totals: Sequence[Any], x: Index, w: Index, channel: Index, lanes: int) -> list[Any]:
        """One product more for every pixel; ``x`` is an element of the input, ``w`` a row of weights."""
        fn = self.fn
        place = fn.add(fn.mul(w, self.outputs), channel)
        weight = fn.load(fn.element(self.weights, place, "float32"), vector_type(F32, lanes))
        found = []
        for number, total in enumerate(totals):
            source = fn.add(x, number * self.pixel_step)
            if self.depthwise:
                place = fn.element(self.input, fn.add(source, channel), "float32")
                value = fn.load(place, vector_type(F32, lanes))
            else:
                value = splat(fn, fn.load(fn.element(self.input, source, "float32"), F32), lanes)
            if self.op.fused:
                found.append(fused_multiply_add(fn, value, weight, total))
            else:
                found.append(fn.b.fadd(total, fn.b.fmul(value, weight)))
        return found

    def _window(self, totals: list[Any], step: Callable[..., list[Any]]) -> list[Any]:
        """Sequential sums over rows, columns and channels of the window; what lies together is one loop."""
        fn, op = self.fn, self.op
        rows, columns, depth = self.window
        steps = [(rows, op.dilation[0] * self.line, columns * depth)]
        if op.groups == 1 and (op.dilation[1] == 1 or columns == 1) and not op.columns_first:
            steps.append((columns * depth, 1, 1))
        else:
            steps += [(columns, op.dilation[1] * self.channels, depth), (depth, 1, 1)]
        if op.columns_first:
            steps[:2] = reversed(steps[:2])

        def level(number: int, x: Index, w: Index, carried: Sequence[Any]) -> Sequence[Any]:
            if number == len(steps):
                return step(carried, x, w)
            count, x_step, w_step = steps[number]

            def inside(k: Index, *inner: Any) -> Sequence[Any]:
                return level(number + 1, fn.add(x, fn.mul(k, x_step)), fn.add(w, fn.mul(k, w_step)), inner)

            return fn.loop(0, count, 1, inside, carried)

        return list(level(0, 0, 0, totals))

    def _matrix(self, zeros: list[Any], step: Callable[..., list[Any]]) -> list[Any]:
        """Sums over the channels of one pixel, block by block."""
        depth = self.window[2]
        size = self.op.block or depth
        totals: list[Any] = []
        for begin in range(0, depth, size):
            part = self._ordered(zeros, begin, min(size, depth - begin), step)
            totals = [self.fn.b.fadd(a, b) for a, b in zip(totals, part, strict=True)] if totals else part
        return totals

    def _ordered(self, zeros: list[Any], begin: int, depth: int, step: Callable[..., list[Any]]) -> list[Any]:
        """:func:`qimport.summation.in_order` with loops; ``zeros`` has one element per pixel."""
        fn, pixels = self.fn, len(zeros)
        sums = list(zeros)
        for phase in ORDERS[self.op.order]:
            count = depth // phase.multiple * phase.multiple
            whole = count - count % phase.accumulators
            room = phase.accumulators * pixels
            sums = [*sums, *(zeros * phase.accumulators)][:room]

            def turn(k: Index, *carried: Any, taken: int = phase.accumulators) -> list[Any]:
                found = list(carried)
                for j in range(taken):
                    place, part = fn.add(k, j), slice(j * pixels, (j + 1) * pixels)
                    found[part] = step(found[part], place, place)
                return found

            sums = list(fn.loop(begin, begin + whole, phase.accumulators, turn, sums))
            sums = turn(begin + whole, *sums, taken=count - whole)
            for into, source in phase.merges:
                for p in range(pixels):
                    a, b = sums[into * pixels + p], sums[source * pixels + p]
                    sums[into * pixels + p] = fn.b.fadd(a, b)
            begin, depth = begin + count, depth - count
        return sums
