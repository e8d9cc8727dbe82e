"""Softmax over rows, one element at a time: float sums must run in index order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir

from qimport import prim
from qimport.codegen.function import (
    ELEMENTS,
    F32,
    I1,
    I8,
    I32,
    I64,
    Index,
    KernelFunction,
    index,
    itemsize,
)
from qimport.codegen.kernels import access
from qimport.codegen.kernels.accumulate import Accumulator
from qimport.codegen.rounding import to_int32
from qimport.codegen.tables import TableLayout
from qimport.codegen.target import Target
from qimport.codegen.vector import clamp_signed, constant
from qimport.errors import CompilerBug
from qimport.ir.types import INTEGER_RANGE
from qimport.lower.kernel import Kernel, dense_strides


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
        self.dtype = dtype
        self.length = length
        self.table = table
        self.target = target
        self.low, self.high = INTEGER_RANGE[target]
        self.element = I32 if op.kind == "fixed" else F32

    def emit(self, source: Any, result: Any) -> None:
        """From one row of codes to one row of codes."""
        top = self._code(self._maximum(source))

        def entry(k: Index) -> Any:
            code = self._code(self.fn.load(self.fn.at(source, k), I8))
            return self.fn.load(self.fn.element(self.table, self.b.sub(top, code), "int32"), self.element, 4)

        finish = self._fixed(entry) if self.op.kind == "fixed" else self._float(entry)

        def put(k: Index) -> None:
            code = clamp_signed(self.fn, finish(entry(k)), self.low, self.high)
            narrow = self.b.trunc(code, ELEMENTS[self.target])
            self.fn.store(narrow, self.fn.element(result, k, self.target))

        self.fn.loop(0, self.length, 1, put)

    def _maximum(self, source: Any) -> Any:
        accumulator = Accumulator(self.fn, "max", self.dtype, self.dtype)

        def step(k: Index, total: Any) -> list[Any]:
            return [accumulator.step(total, self.fn.load(self.fn.at(source, k), ELEMENTS[self.dtype]))]

        return self.fn.loop(0, self.length, 1, step, [accumulator.start(1)])[0]

    def _code(self, byte: Any) -> Any:
        return self.b.sext(byte, I64) if self.dtype == "int8" else self.b.zext(byte, I64)

    def _sum(self, term: Callable[[Index, Any], Any], start: Any) -> Any:
        return self.fn.loop(0, self.length, 1, lambda k, total: [term(k, total)], [start])[0]

    def _float(self, entry: Callable[[Index], Any]) -> Callable[[Any], Any]:
        total = self._sum(lambda k, sum_: self.b.fadd(sum_, entry(k)), constant(F32, 0.0))
        scale = float(np.float32(self.op.output_scale))
        inverse = self.b.fdiv(constant(F32, 1.0), self.b.fmul(total, constant(F32, scale)))

        def finish(e: Any) -> Any:
            scaled = self.b.fmul(e, inverse)
            if self.low:
                rounded = to_int32(self.fn, scaled, "away", saturate=False)
                return self.b.add(rounded, constant(I32, self.op.zero_point))
            return self.b.fptosi(self.b.fadd(scaled, constant(F32, 0.5)), I32)

        return finish

    def _fixed(self, entry: Callable[[Index], Any]) -> Callable[[Any], Any]:
        b = self.b

        def term(k: Index, total: Any) -> Any:
            e = entry(k)
            part = self._divide_by_pot(b.sext(e, I64), index(12))
            marked = b.icmp_signed("<", e, constant(I32, 0))
            return b.add(total, b.select(marked, constant(I32, 0), b.trunc(part, I32)))

        total = self._sum(term, constant(I32, 0))
        headroom = self.fn.intrinsic("llvm.ctlz.i32", I32, [total, ir.Constant(I1, 0)])
        headroom = b.zext(headroom, I64)
        shifted = b.trunc(b.shl(b.zext(total, I64), headroom), I32)  # headroom may be all 32 bits
        inverse = self._one_over_one_plus_x(b.sub(shifted, constant(I32, -(2**31))))
        shift = b.sub(index(12 + 31 - 8 * itemsize(self.target)), headroom)

        def finish(e: Any) -> Any:
            scaled = self._divide_by_pot(self._high_mul(inverse, b.sext(e, I64)), shift)
            code = b.add(b.trunc(scaled, I32), constant(I32, self.low))
            return b.select(b.icmp_signed("<", e, constant(I32, 0)), constant(I32, self.low), code)

        return finish

    # gemmlowp's functions of qimport.fixedpoint on i64 scalars that hold int32 values.

    def _high_mul(self, a: Any, b: Any) -> Any:
        """``saturating_rounding_doubling_high_mul`` of operands that are not both INT32_MIN."""
        return self.b.ashr(self.b.add(self.b.mul(a, b), index(1 << 30)), index(31))

    def _divide_by_pot(self, x: Any, exponent: Any) -> Any:
        """``rounding_divide_by_pot``, for exponents of 1 to 62."""
        half = self.b.shl(index(1), self.b.sub(exponent, index(1)))
        sign = self.b.ashr(x, index(63))
        return self.b.ashr(self.b.add(self.b.add(x, half), sign), exponent)

    def _saturated(self, x: Any) -> Any:
        return clamp_signed(self.fn, x, -(2**31), 2**31 - 1)

    def _wrapped(self, x: Any) -> Any:
        return self.b.sext(self.b.trunc(x, I32), I64)

    def _one_over_one_plus_x(self, x: Any) -> Any:
        """``one_over_one_plus_x`` of an i32, as i64."""
        b = self.b
        half = b.ashr(b.add(b.sext(x, I64), index(2**31)), index(1))
        value = self._wrapped(b.add(index(1515870810), self._high_mul(half, index(-1010580540))))
        for _ in range(3):
            error = self._wrapped(b.sub(index(1 << 29), self._high_mul(half, value)))
            step = self._saturated(b.shl(self._high_mul(value, error), index(2)))
            value = self._wrapped(b.add(value, step))
        return self._saturated(b.shl(value, index(1)))
