"""Sums along rows of float32 in the order of the interpreter's vector kernels."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from qimport import prim
from qimport.codegen.function import F32, I32, Index, KernelFunction
from qimport.codegen.kernels import access
from qimport.codegen.tables import TableLayout
from qimport.codegen.target import Target
from qimport.codegen.vector import constant, lanes_of, shuffle, vector_type
from qimport.errors import CompilerBug
from qimport.lower.kernel import Kernel
from qimport.summation import PACKET, SUM_LANES


def emit(module: Any, name: str, kernel: Kernel, target: Target, layout: TableLayout) -> Any:
    """Row by row; packets start at multiples of four elements, so rows repeat their pattern after four."""
    op, x = kernel.root.op, kernel.root.inputs[0]
    if not isinstance(op, prim.RowSum) or x is None or kernel.epilogue:
        raise CompilerBug("a row sum kernel is one prim.row_sum")
    fn = access.start(module, name, kernel, target)
    length, rows = x.type.shape[-1], kernel.result.type.size
    sums = _Rows(fn, access.pointer_to(fn, kernel, layout, x), length)
    shape, strides = kernel.result.type.shape, access.result_strides(kernel)
    period = PACKET if op.order == "packets" and length % PACKET else 1

    def row(number: Index, phase: int) -> None:
        first = fn.mul(number, length)
        if op.order == "packets":
            total = sums.packets(first, -phase * length % PACKET)
        else:
            total = sums.lanes(first, op.order == "fours")
        access.store(fn, kernel, total, access.flat_offset(fn, number, shape, strides))

    def group(number: Index) -> None:
        for phase in range(period):
            row(fn.add(fn.mul(number, period), phase), phase)

    fn.loop(0, rows // period, 1, group)
    for phase in range(rows % period):
        row(rows - rows % period + phase, phase)
    return fn.finish()


class _Rows:
    """Writes the code of one row of ``length`` elements."""

    def __init__(self, fn: KernelFunction, source: Any, length: int) -> None:
        self.fn = fn
        self.source = source
        self.length = length

    def _load(self, place: Index, lanes: int) -> Any:
        return self.fn.load(self.fn.element(self.source, place, "float32"), vector_type(F32, lanes))

    def _add(self, a: Any, b: Any) -> Any:
        return self.fn.b.fadd(a, b)

    def _lane(self, vector: Any, number: int) -> Any:
        return self.fn.b.extract_element(vector, ir.Constant(I32, number))

    def lanes(self, first: Index, fours: bool) -> Any:
        """``sum_row(..., "lanes")`` or ``"fours"`` of the row from element ``first`` on."""
        whole = self.length // SUM_LANES
        paired = whole - whole % (4 if fours else 2)

        def pair(k: Index, *sums: Any) -> list[Any]:
            places = [self.fn.add(first, self.fn.mul(self.fn.add(k, i), SUM_LANES)) for i in range(2)]
            return [self._add(a, self._load(p, SUM_LANES)) for a, p in zip(sums, places, strict=True)]

        zero = constant(vector_type(F32, SUM_LANES), 0.0)
        one, two = self.fn.loop(0, paired, 2, pair, [zero, zero])
        total = self._add(one, two) if fours else one
        for k in range(paired, whole):
            total = self._add(total, self._load(self.fn.add(first, k * SUM_LANES), SUM_LANES))
        total = total if fours else self._add(total, two)
        if self.length % SUM_LANES:
            total = self._add(total, self._rest(self.fn.add(first, whole * SUM_LANES), zero))
        while (half := lanes_of(total) // 2) > 1:
            parts = [shuffle(self.fn, total, total, range(k, k + half)) for k in (0, half)]
            total = self._add(*parts)
        return self._add(self._lane(total, 0), self._lane(total, 1))

    def _rest(self, first: Index, vector: Any) -> Any:
        """The elements behind the last whole vector, with zeros behind them."""
        for k in range(self.length % SUM_LANES):
            element = self._load(self.fn.add(first, k), 1)
            vector = self.fn.b.insert_element(vector, element, ir.Constant(I32, k))
        return vector

    def packets(self, first: Index, start: int) -> Any:
        """``sum_row(..., "packets")`` of the row from ``first`` on; packets begin at element ``start``."""
        count = (self.length - start) // PACKET
        if count <= 0:
            total = self._load(first, 1)
            return self._append(total, first, range(1, self.length))
        body = self.fn.add(first, start)

        def packet(k: Index) -> Any:
            return self._load(self.fn.add(body, self.fn.mul(k, PACKET)), PACKET)

        def pair(k: Index, one: Any, two: Any) -> list[Any]:
            return [self._add(one, packet(k)), self._add(two, packet(self.fn.add(k, 1)))]

        total = packet(0)
        if count > 1:
            paired = count - count % 2
            total = self._add(*self.fn.loop(2, paired, 2, pair, [total, packet(1)]))
            if count > paired:
                total = self._add(total, packet(paired))
        even, odd = (self._add(self._lane(total, k), self._lane(total, k + 2)) for k in (0, 1))
        total = self._append(self._add(even, odd), first, range(start))
        return self._append(total, first, range(start + count * PACKET, self.length))

    def _append(self, total: Any, first: Index, places: range) -> Any:
        def step(k: Index, total: Any) -> list[Any]:
            return [self._add(total, self._load(self.fn.add(first, k), 1))]

        return self.fn.loop(places.start, places.stop, 1, step, [total])[0]
