"""Sums, maxima and minima over axes, with elementwise nodes on the result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from qimport import prim
from qimport.codegen.elementwise import emit_nodes, preferred_lanes
from qimport.codegen.function import ELEMENTS, Index, KernelFunction
from qimport.codegen.fused import fused_multiply_add
from qimport.codegen.kernels import access
from qimport.codegen.kernels.accumulate import Accumulator
from qimport.codegen.tables import TableLayout
from qimport.codegen.target import Target
from qimport.codegen.vector import constant, vector_type
from qimport.errors import CompilerBug
from qimport.ir.graph import Value
from qimport.lower.kernel import Kernel, dense_strides

PARTS = 8
"""Parts of a row whose extrema are found side by side: each comparison waits for the one before."""


def emit(module: Any, name: str, kernel: Kernel, target: Target, layout: TableLayout) -> Any:
    """Vectors run along the last dimension: through the results if it stays, through the operand if not."""
    return emit_with(Reduction, preferred_lanes(kernel.graph, target), module, name, kernel, target, layout)


def emit_with(
    reduction_class: type[Reduction],
    lanes: int,
    module: Any,
    name: str,
    kernel: Kernel,
    target: Target,
    layout: TableLayout,
) -> Any:
    """Every block of up to ``lanes`` results by a :class:`Reduction` of some class."""
    op, x = kernel.root.op, kernel.root.inputs[0]
    if not isinstance(op, prim.Reduce) or x is None:
        raise CompilerBug(f"{kernel.root.op.NAME} is not a reduction")
    fn = access.start(module, name, kernel, target)
    reduction = reduction_class(fn, kernel, layout, op, x, lanes)
    shape = kernel.result.type.shape
    overlap = not kernel.in_place and not layout.per_channel

    def row(outer: list[Index]) -> None:
        fn.blocks(shape[-1], reduction.lanes, overlap, lambda c, count: reduction.block([*outer, c], count))

    if not shape:
        reduction.block([], 1)
    elif kernel.result.type.size:
        access.nest(fn, shape[:-1], row)
    return fn.finish()


class Reduction:
    """What a reduction kernel knows while its code is written."""

    def __init__(
        self, fn: KernelFunction, kernel: Kernel, layout: TableLayout, op: prim.Reduce, x: Value, lanes: int
    ) -> None:
        self.fn = fn
        self.kernel = kernel
        self.layout = layout
        self.lanes = lanes
        self.dtype = x.type.dtype
        self.pointer = access.pointer_to(fn, kernel, layout, x)
        self.factor = op.factor
        self.from_first = op.start == "first"
        start = op.first_value() if self.dtype == "float32" else None
        self.accumulator = Accumulator(fn, op.kind, self.dtype, kernel.root.outputs[0].type.dtype, start)
        self.sources = access.sources(fn, kernel, layout, kernel.epilogue)
        self.strides = access.result_strides(kernel)
        self.operand_strides = dense_strides(x.type.shape)
        reduced = [axis for axis in op.axes if x.type.shape[axis] != 1]
        self.along_rows = len(x.type.shape) - 1 in reduced
        sizes, (steps,) = access.collapse(
            [x.type.shape[axis] for axis in sorted(reduced)],
            [tuple(self.operand_strides[axis] for axis in sorted(reduced))],
        )
        self.sizes, self.steps = sizes, steps

    def block(self, position: list[Index], lanes: int) -> None:
        """``lanes`` neighbouring results."""
        values: dict[Value, Any] = {s.value: s.load(self.fn, position, lanes) for s in self.sources}
        first = access.offset(self.fn, position, self.operand_strides)
        reduced = self._row_sum(first) if self.along_rows else self.columns(first, lanes)
        values[self.kernel.root.outputs[0]] = reduced
        channel = position[-1] if position else 0
        emit_nodes(self.fn, self.kernel.epilogue, values, channel, lanes, self.layout)
        place = access.offset(self.fn, position, self.strides)
        access.store(self.fn, self.kernel, values[self.kernel.result], place)

    def _start(self, first: Index, lanes: int) -> Any:
        """What the results at operand elements ``first`` on begin with; extrema may meet it again."""
        if not self.from_first:
            return self.accumulator.start(lanes)
        source = self.fn.element(self.pointer, first, self.dtype)
        return self.fn.load(source, vector_type(ELEMENTS[self.dtype], lanes))

    def _step(self, total: Any, place: Index, lanes: int) -> Any:
        source = self.fn.element(self.pointer, place, self.dtype)
        x = self.fn.load(source, vector_type(ELEMENTS[self.dtype], lanes))
        if self.factor is not None:
            return fused_multiply_add(self.fn, x, constant(x.type, self.factor), total)
        return self.accumulator.step(total, x)

    def over(self, sizes: Sequence[int], first: Index, totals: list[Any], body: Any) -> list[Any]:
        """Loops over the outer ``sizes`` reduced dimensions around ``body(place, totals) -> totals``."""

        def level(axis: int, place: Index, totals: Sequence[Any]) -> Sequence[Any]:
            if axis == len(sizes):
                return list(body(place, totals))
            step = self.steps[axis]

            def inside(k: Index, *inner: Any) -> Sequence[Any]:
                return level(axis + 1, self.fn.add(place, self.fn.mul(k, step)), inner)

            return self.fn.loop(0, sizes[axis], 1, inside, totals)

        return list(level(0, first, totals))

    def columns(self, first: Index, lanes: int) -> Any:
        """Reduced dimensions are walked with one vector of neighbouring columns."""
        start = [self._start(first, lanes)]
        return self.over(self.sizes, first, start, lambda p, t: [self._step(t[0], p, lanes)])[0]

    def _row_sum(self, first: Index) -> Any:
        """Vectors along the last dimension, what is left of each row one by one, then across the lanes.

        Floats go one by one, or in parts that follow each other: their order is part of the result.
        """
        length, lanes = self.sizes[-1], self.lanes
        whole = 0 if self.accumulator.floating else length - length % lanes
        start = [self.accumulator.start(lanes), self._start(first, 1)]
        part = length // PARTS if self.accumulator.associative else 0

        def row(place: Index, totals: Sequence[Any]) -> list[Any]:
            def wide(k: Index, total: Any) -> list[Any]:
                return [self._step(total, self.fn.add(place, k), lanes)]

            def single(k: Index, total: Any) -> list[Any]:
                return [self._step(total, self.fn.add(place, k), 1)]

            vector = self.fn.loop(0, whole, lanes, wide, totals[:1])
            totals = [*vector, *self._parts(place, part, totals[1:])]
            scalar = self.fn.loop(max(whole, part * PARTS), length, 1, single, totals[1:])
            return [*vector, *scalar]

        vector, scalar = self.over(self.sizes[:-1], first, start, row)
        return self.accumulator.step(scalar, self.accumulator.across(vector)) if whole else scalar

    def _parts(self, place: Index, part: int, totals: Sequence[Any]) -> list[Any]:
        """Take in ``PARTS`` neighbouring parts of a row, each reduced by itself while the others wait."""
        if part == 0:
            return list(totals)

        def step(k: Index, *parts: Any) -> list[Any]:
            places = (self.fn.add(place, self.fn.add(k, number * part)) for number in range(PARTS))
            return [self._step(total, p, 1) for total, p in zip(parts, places, strict=True)]

        (total,) = totals
        for found in self.fn.loop(0, part, 1, step, [self.accumulator.start(1)] * PARTS):
            total = self.accumulator.step(total, found)
        return [total]
