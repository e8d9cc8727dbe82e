"""Softmax over rows: vectors of codes, table entries and results; float sums run in index order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir

from qimport import prim
from qimport.codegen.function import ELEMENTS, F32, I1, I8, I32, I64, Index, KernelFunction, index, itemsize
from qimport.codegen.gemmlowp import high_mul, one_over_one_plus_x
from qimport.codegen.kernels import access
from qimport.codegen.lookup import look_up
from qimport.codegen.rounding import to_int32
from qimport.codegen.tables import TableLayout
from qimport.codegen.target import Target
from qimport.codegen.vector import (
    clamp_signed,
    constant,
    horizontal,
    lanes_of,
    leading_zeros,
    like,
    pairwise,
    retyped,
    splat,
    vector_type,
)
from qimport.errors import CompilerBug
from qimport.ir.types import INTEGER_RANGE
from qimport.lower.kernel import Kernel, dense_strides

Entries = Callable[[Index, int], Any]
"""The table's entries for so many codes of a row from an index on."""


def emit(module: Any, name: str, kernel: Kernel, target: Target, layout: TableLayout) -> Any:
    """Three passes per row: maximum, sum of table entries, results."""
    op, (x, table) = kernel.root.op, kernel.root.inputs
    if not isinstance(op, prim.Softmax) or x is None or table is None or kernel.epilogue:
        raise CompilerBug("a softmax kernel is one prim.softmax")
    fn = access.start(module, name, kernel, target)
    shape, strides = x.type.shape or (1,), access.result_strides(kernel) or (1,)
    source, entries = (access.pointer_to(fn, kernel, layout, value) for value in (x, table))
    rows = _Rows(fn, op, x.type.dtype, kernel.result.type.dtype, shape[-1], entries)
    sizes, (own, target_rows) = access.collapse(shape[:-1], [dense_strides(shape)[:-1], strides[:-1]])

    def row(position: list[Index]) -> None:
        rows.emit(
            fn.at(source, access.offset(fn, position, own)),
            fn.element(fn.result, access.offset(fn, position, target_rows), kernel.result.type.dtype),
        )

    if x.type.size:
        access.nest(fn, sizes, row)
    return fn.finish()


class _Rows:
    """Writes the code of one row."""

    def __init__(
        self, fn: KernelFunction, op: prim.Softmax, dtype: str, target: str, length: int, table: Any
    ) -> None:
        self.fn = fn
        self.b = fn.b
        self.op = op
        self.sign = "s" if dtype == "int8" else "u"
        self.length = length
        self.table = table
        self.target = target
        self.low, self.high = INTEGER_RANGE[target]
        self.entry = "int32" if op.kind == "fixed" else "float32"
        self.lanes = max(fn.target.vector_bytes // itemsize(self.entry), 1)

    def emit(self, source: Any, result: Any) -> None:
        """From one row of codes to one row of codes."""
        top = self._maximum(source)

        def entries(k: Index, lanes: int) -> Any:
            codes = self.fn.load(self.fn.at(source, k), vector_type(I8, lanes))
            distance = self.b.sub(splat(self.fn, top, lanes), codes)
            return look_up(self.fn, self.table, distance, lanes, self.entry)

        finish = self._fixed(entries) if self.op.kind == "fixed" else self._float(entries)

        def put(k: Index, lanes: int) -> None:
            code = clamp_signed(self.fn, finish(entries(k, lanes)), self.low, self.high)
            narrow = self.b.trunc(code, retyped(code, ELEMENTS[self.target]))
            self.fn.store(narrow, self.fn.element(result, k, self.target))

        self.fn.blocks(self.length, self.lanes, not self.fn.in_place, put)

    def _maximum(self, source: Any) -> Any:
        width = min(max(self.fn.target.vector_bytes, 1), 1 << (self.length.bit_length() - 1))

        def block(k: Index) -> Any:
            return self.fn.load(self.fn.at(source, k), vector_type(I8, width))

        def larger(a: Any, b: Any) -> Any:
            return pairwise(self.fn, f"{self.sign}max", a, b)

        whole = self.length - self.length % width
        (top,) = self.fn.loop(width, whole, width, lambda k, top: [larger(top, block(k))], [block(0)])
        if whole < self.length:
            top = larger(top, block(self.length - width))
        return horizontal(self.fn, f"{self.sign}max", top)

    def _float(self, entries: Entries) -> Callable[[Any], Any]:
        def add(k: Index, total: Any) -> list[Any]:
            return [self.b.fadd(total, entries(k, 1))]

        (total,) = self.fn.loop(0, self.length, 1, add, [constant(F32, 0.0)])
        scale = float(np.float32(self.op.output_scale))
        inverse = self.b.fdiv(constant(F32, 1.0), self.b.fmul(total, constant(F32, scale)))

        def finish(e: Any) -> Any:
            scaled = self.b.fmul(e, splat(self.fn, inverse, lanes_of(e)))
            if self.low:
                rounded = to_int32(self.fn, scaled, "away", saturate=False)
                return self.b.add(rounded, like(rounded, self.op.zero_point))
            return self.b.fptosi(self.b.fadd(scaled, like(scaled, 0.5)), retyped(scaled, I32))

        return finish

    def _fixed(self, entries: Entries) -> Callable[[Any], Any]:
        b = self.b
        total = self._sum_of_parts(entries)
        headroom = self.b.zext(leading_zeros(self.fn, total), I64)
        shifted = b.trunc(b.shl(b.zext(total, I64), headroom), I32)  # headroom may be all 32 bits
        inverse = b.trunc(one_over_one_plus_x(self.fn, b.sub(shifted, constant(I32, -(2**31)))), I32)
        shift = b.sub(index(12 + 31 - 8 * itemsize(self.target)), headroom)
        half = b.shl(index(1), b.sub(shift, index(1)))

        def finish(e: Any) -> Any:
            factor, up, down = (splat(self.fn, value, lanes_of(e)) for value in (inverse, half, shift))
            high = high_mul(self.fn, *(b.sext(value, retyped(e, I64)) for value in (e, factor)))
            sign = b.ashr(high, like(high, 63))  # of a sum that has wrapped to nothing
            scaled = b.trunc(b.ashr(b.add(b.add(high, up), sign), down), e.type)
            return b.add(scaled, like(scaled, self.low))

        return finish

    def _sum_of_parts(self, entries: Entries) -> Any:
        """Of all entries divided by 2^12, modulo 2^32."""

        def part(k: Index, lanes: int) -> Any:
            e = entries(k, lanes)
            return self.b.lshr(self.b.add(e, like(e, 1 << 11)), like(e, 12))

        lanes = min(self.lanes, 1 << (self.length.bit_length() - 1))
        rest = self.length % lanes
        start = constant(vector_type(I32, lanes), 0)

        def add(k: Index, total: Any) -> list[Any]:
            return [self.b.add(total, part(k, lanes))]

        (total,) = self.fn.loop(0, self.length - rest, lanes, add, [start])
        if rest:  # a block that overlaps its predecessor, without the lanes that it has counted
            new = ir.Constant(ir.VectorType(I1, lanes), [I1(lane >= lanes - rest) for lane in range(lanes)])
            total = self.b.add(total, self.b.select(new, part(self.length - lanes, lanes), start))
        return horizontal(self.fn, "add", total)
