"""Random prim graphs that put every placement rule of the planner to work."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from qimport import prim
from qimport.ir.graph import Builder, Graph, Value, verify_graph
from qimport.ir.types import TensorType
from qimport.lower.fold import fold_constants

STEPS = (
    "concat",
    "concat",
    "layer",
    "mean",
    "move",
    "pad",
    "part",
    "pick_rows",
    "pool",
    "repeat",
    "reshape",
    "residual",
    "table",
    "update",
)

LARGEST = 600
"""Elements of a tensor; what would be larger is replaced by something smaller."""


class PrimGraph:
    """Grows a graph of int8 tensors step by step; operands are recent values, inputs and constants."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.b = Builder()
        shape = (1, 4, 3, 4) if seed % 2 else (2, 3, 2, 3)
        self.inputs = [Value(TensorType("int8", shape), f"x{i}") for i in range(2)]
        self.constants = [self.constant(shape)]
        self.values = [*self.inputs, *self.constants]

    def grow(self, steps: int) -> Graph:
        """The graph after ``steps`` operations; one to four results, any values, perhaps one twice.

        As in every graph that is planned, what is known is a constant.
        """
        for _ in range(steps):
            made: Value = getattr(self, STEPS[int(self.rng.integers(len(STEPS)))])(self.pick())
            self.values.append(made)
        outputs = [self.values[-1], *(self.pick() for _ in range(int(self.rng.integers(4))))]
        graph = Graph("random", tuple(self.inputs), tuple(outputs), tuple(self.b.nodes))
        verify_graph(graph)
        return fold_constants(graph, "reference")

    def constant(self, shape: Sequence[int]) -> Value:
        """Random codes."""
        return self.b.constant(self.rng.integers(-128, 128, shape).astype(np.int8))

    def pick(self) -> Value:
        """One of the last values, now and then an older one."""
        recent = self.values[-4:] if self.rng.random() < 0.7 else self.values
        return recent[int(self.rng.integers(len(recent)))]

    def like(self, x: Value) -> Value:
        """Some value of ``x``'s shape, if only ``x``."""
        found = [x, *(value for value in self.values if value.type.shape == x.type.shape)]
        return found[int(self.rng.integers(len(found)))]

    def emit(self, op: prim.Reshape | object, operands: Sequence[Value], shape: Sequence[int]) -> Value:
        """A node that gives int8."""
        return self.b.emit(op, operands, TensorType("int8", tuple(shape)))  # type: ignore[arg-type]

    def image(self, x: Value) -> Value:
        """``x`` with four dimensions."""
        if len(x.type.shape) == 4:
            return x
        return self.emit(prim.Reshape(), (x,), (1, 1, 1, x.type.size))

    def rescaled(self, sums: Value) -> Value:
        """int32 times about 1/60, or per channel."""
        count = sums.type.shape[-1] if self.rng.random() < 0.5 else 1
        multiplier = self.rng.integers(2**30, 2**31, count).astype(np.int32)
        factors = [self.b.constant(array) for array in (multiplier, np.full(count, -5, np.int32))]
        return self.b.emit(prim.Rescale("double_away"), (sums, *factors), sums.type)

    def mean(self, x: Value) -> Value:
        """A sum over one or two dimensions or over a window, rescaled; perhaps something is added."""
        x = self.image(x)
        batch, height, width, channels = x.type.shape
        op: prim.Reduce | prim.Window = prim.Window("sum", (height, 1), (1, 1), ((0, 0), (0, 0)))
        shape = (batch, 1, width, channels)
        if self.rng.random() < 0.7:
            axes = ((1, 2), (3,), (2,))[int(self.rng.integers(3))]
            op = prim.Reduce("sum", axes)
            shape = tuple(1 if i in axes else n for i, n in enumerate(x.type.shape))  # type: ignore[assignment]
        wide = TensorType("int32", shape)
        total = self.rescaled(self.b.emit(op, (x,), wide))
        found = [value for value in self.values if value.type.shape == shape]
        if found:
            other = self.b.emit(prim.Cast(), (found[-1],), wide)
            total = self.b.emit(prim.Binary("add"), (total, other), wide)
        return self.emit(prim.Clamp(1, -128, 127), (total,), shape)

    def sums(self, x: Value, outputs: int) -> Value:
        """int32 sums of a pointwise or depthwise layer, rescaled."""
        channels = x.type.shape[3]
        depthwise = outputs == channels and self.rng.random() < 0.4
        groups = channels if depthwise else 1
        w = self.constant((outputs, 1, 1, channels // groups))
        bias = self.b.constant(self.rng.integers(-999, 999, outputs).astype(np.int32))
        op = prim.Mac(groups=groups, input_zero=3)
        return self.rescaled(self.b.emit(op, (x, w, bias), op.result_type(x.type, w.type)))

    def layer(self, x: Value) -> Value:
        """A convolution; its sums may be cut by a second reader."""
        x = self.image(x)
        outputs = x.type.shape[3] if self.rng.random() < 0.6 else int(self.rng.integers(1, 7))
        sums = self.sums(x, outputs)
        if self.rng.random() < 0.2:
            self.values.append(self.emit(prim.Clamp(-9, -128, 127), (sums,), sums.type.shape))
        return self.emit(prim.Clamp(2, -128, 127), (sums,), sums.type.shape)

    def residual(self, x: Value) -> Value:
        """Two tensors, or a tensor and a layer, or two layers, added."""
        x = self.image(x)
        wide = TensorType("int32", x.type.shape)
        parts = []
        for source in (x, self.like(x)):
            if self.rng.random() < 0.4:
                parts.append(self.sums(source, wide.shape[3]))
            else:
                parts.append(self.b.emit(prim.Cast(), (source,), wide))
        total = self.b.emit(prim.Binary("add"), parts, wide)
        return self.emit(prim.Clamp(0, -120, 120), (total,), wide.shape)

    def table(self, x: Value) -> Value:
        """A lookup."""
        return self.emit(prim.Lut(), (x, self.constant((256,))), x.type.shape)

    def concat(self, x: Value) -> Value:
        """Two to four parts of equal shape along any axis: other values, the same again, a constant."""
        shape = x.type.shape
        count = int(self.rng.integers(2, 5))
        if x.type.size * count > LARGEST:
            return self.part(x)
        axis = len(shape) - 1 if self.rng.random() < 0.6 else int(self.rng.integers(len(shape)))
        parts = [x, *(self.like(x) for _ in range(count - 1))]
        if self.rng.random() < 0.2:
            parts[int(self.rng.integers(count))] = self.constant(shape)
        return self.emit(prim.Concat(axis), parts, (*shape[:axis], count * shape[axis], *shape[axis + 1 :]))

    def reshape(self, x: Value) -> Value:
        """Some other dimensions."""
        size, last = x.type.size, x.type.shape[-1]
        shapes = [(size,), (size // last, last), (1, size // last, 1, last), (1, 1, last, size // last)]
        return self.emit(prim.Reshape(), (x,), shapes[int(self.rng.integers(len(shapes)))])

    def part(self, x: Value) -> Value:
        """A slice along one dimension: from its middle on, every other element, or reversed."""
        shape = x.type.shape
        axis = int(self.rng.integers(len(shape)))
        extent, zeros, ones = shape[axis], [0] * len(shape), [1] * len(shape)
        begin, step = ((extent // 2, 1), (0, 2), (extent - 1, -1))[int(self.rng.integers(3))]
        count = {1: extent - begin, 2: (extent + 1) // 2, -1: extent}[step]
        zeros[axis], ones[axis] = begin, step
        result = (*shape[:axis], count, *shape[axis + 1 :])
        return self.emit(prim.Slice(tuple(zeros), tuple(ones)), (x,), result)

    def pad(self, x: Value) -> Value:
        """One element around the first or the last dimension."""
        if x.type.size > LARGEST // 2:
            return self.part(x)
        axis = 0 if self.rng.random() < 0.5 else len(x.type.shape) - 1
        widths = tuple(int(i == axis) for i in range(len(x.type.shape)))
        shape = [size + 2 * width for size, width in zip(x.type.shape, widths, strict=True)]
        return self.emit(prim.Pad(widths, widths, -7), (x,), shape)

    def move(self, x: Value) -> Value:
        """Dimensions in reverse order."""
        order = tuple(reversed(range(len(x.type.shape))))
        return self.emit(prim.Transpose(order), (x,), x.type.shape[::-1])

    def pool(self, x: Value) -> Value:
        """The largest of two neighbours, where there are two."""
        x = self.image(x)
        batch, height, width, channels = x.type.shape
        window = min(width, 2)
        op = prim.Window("max", (1, window), (1, 1), ((0, 0), (0, 0)))
        return self.emit(op, (x,), (batch, height, width - window + 1, channels))

    def pick_rows(self, x: Value) -> Value:
        """Some indices along one dimension, others twice."""
        axis = int(self.rng.integers(len(x.type.shape)))
        size = x.type.shape[axis]
        places = self.b.constant(self.rng.integers(0, size, size).astype(np.int32))
        return self.emit(prim.Gather(axis), (x, places), x.type.shape)

    def repeat(self, x: Value) -> Value:
        """Three times along a new first dimension."""
        if x.type.size > LARGEST // 3:
            return self.part(x)
        unit = self.emit(prim.Reshape(), (x,), (1, *x.type.shape))
        whole = self.emit(prim.Broadcast(), (unit,), (3, *x.type.shape))
        return self.emit(prim.Reshape(), (whole,), (3 * x.type.shape[0], *x.type.shape[1:]))

    def update(self, x: Value) -> Value:
        """A part of a tensor stored elsewhere in it."""
        box = tuple(max(size // 2, 1) for size in x.type.shape)
        begin = self.b.constant(self.rng.integers(0, 3, len(box)).astype(np.int32))
        content = self.emit(prim.DynamicSlice(), (self.like(x), begin), box)
        end = self.b.constant(np.full(len(box), 9, np.int32))
        return self.emit(prim.UpdateSlice(), (x, content, end), x.type.shape)
