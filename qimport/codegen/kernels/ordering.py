"""The place of the best element, the best few of a row, running sums."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from qimport import prim
from qimport.codegen.elementwise import preferred_lanes
from qimport.codegen.function import ELEMENTS, Index, KernelFunction, index
from qimport.codegen.kernels import access
from qimport.codegen.tables import TableLayout
from qimport.codegen.target import Target
from qimport.codegen.vector import constant, splat, vector_type
from qimport.errors import CompilerBug
from qimport.lower.kernel import Kernel, dense_strides


class _Elements:
    """The operand of a kernel of one node, and how its elements compare."""

    def __init__(self, module: Any, name: str, kernel: Kernel, target: Target, layout: TableLayout) -> None:
        x = kernel.root.inputs[0]
        if kernel.epilogue or x is None:
            raise CompilerBug(f"a kernel of {kernel.root.op.NAME} is one node")
        self.fn: KernelFunction = access.start(module, name, kernel, target)
        self.pointer = access.pointer_to(self.fn, kernel, layout, x)
        self.dtype = x.type.dtype
        self.strides = dense_strides(x.type.shape)

    def load(self, position: Sequence[Index], lanes: int = 1) -> Any:
        """``lanes`` elements from ``position`` on."""
        place = access.offset(self.fn, position, self.strides)
        return self.fn.load(
            self.fn.element(self.pointer, place, self.dtype), vector_type(ELEMENTS[self.dtype], lanes)
        )

    def compare(self, operator: str, a: Any, b: Any) -> Any:
        """A mask; false for a NaN."""
        if self.dtype == "float32":
            return self.fn.b.fcmp_ordered(operator, a, b)
        if self.dtype.startswith("u") or self.dtype == "bool":
            return self.fn.b.icmp_unsigned(operator, a, b)
        return self.fn.b.icmp_signed(operator, a, b)


def emit_arg_reduce(module: Any, name: str, kernel: Kernel, target: Target, layout: TableLayout) -> Any:
    """Vectors along the inner dimension."""
    op, x = kernel.root.op, kernel.root.inputs[0]
    if not isinstance(op, prim.ArgReduce) or x is None:
        raise CompilerBug(f"{kernel.root.op.NAME} is no arg_reduce")
    elements = _Elements(module, name, kernel, target, layout)
    fn, (outer, count, inner) = elements.fn, x.type.shape
    integer, operator = ELEMENTS[kernel.result.type.dtype], ">" if op.kind == "max" else "<"
    strides = access.result_strides(kernel)

    def block(i: Index, j: Index, lanes: int) -> None:
        type_ = vector_type(integer, lanes)

        def step(k: Index, best: Any, place: Any) -> list[Any]:
            value = elements.load((i, k, j), lanes)
            found = elements.compare(operator, value, best)
            return [fn.b.select(found, value, best), fn.b.select(found, _everywhere(fn, k, type_), place)]

        start = [elements.load((i, 0, j), lanes), constant(type_, 0)]
        _, place = fn.loop(1, count, 1, step, start)
        access.store(fn, kernel, place, access.offset(fn, (i, j), strides))

    def row(i: Index) -> None:
        lanes = preferred_lanes(kernel.graph, target)
        fn.blocks(inner, lanes, True, lambda j, width: block(i, j, width))

    fn.loop(0, outer, 1, row)
    return fn.finish()


def _everywhere(fn: KernelFunction, number: Index, type_: Any) -> Any:
    """An index in every lane."""
    element = type_.element if isinstance(type_, ir.VectorType) else type_
    if isinstance(number, int):
        return constant(type_, number)
    scalar = fn.b.trunc(number, element) if element.width < 64 else number
    return splat(fn, scalar, type_.count) if isinstance(type_, ir.VectorType) else scalar


def emit_top_k(module: Any, name: str, kernel: Kernel, target: Target, layout: TableLayout) -> Any:
    """Every result is the best of what comes after the one before it: no memory, k passes over the row."""
    op, x = kernel.root.op, kernel.root.inputs[0]
    if not isinstance(op, prim.TopK) or x is None:
        raise CompilerBug(f"{kernel.root.op.NAME} is no top_k")
    elements = _Elements(module, name, kernel, target, layout)
    fn, b, (rows, count), wanted = elements.fn, elements.fn.b, x.type.shape, kernel.result.type.shape[1]
    strides, element = access.result_strides(kernel), ELEMENTS[kernel.result.type.dtype]
    nowhere = index(-1)

    def row(i: Index) -> None:
        def following(k: Index, last: Any, last_place: Any) -> list[Any]:
            first = b.icmp_signed("==", index(k), index(0))

            def step(j: Index, best: Any, place: Any) -> list[Any]:
                value = elements.load((i, j))
                later = b.and_(elements.compare("==", value, last), b.icmp_signed(">", index(j), last_place))
                left = b.or_(first, b.or_(elements.compare("<", value, last), later))
                none = b.icmp_signed("==", place, nowhere)
                found = b.and_(left, b.or_(none, elements.compare(">", value, best)))
                return [b.select(found, value, best), b.select(found, index(j), place)]

            best, place = fn.loop(0, count, 1, step, [last, nowhere])
            result = best
            if op.places:
                result = b.trunc(place, element)
            access.store(fn, kernel, result, access.offset(fn, (i, k), strides))
            return [best, place]

        fn.loop(0, wanted, 1, following, [elements.load((i, 0)), nowhere])

    fn.loop(0, rows, 1, row)
    return fn.finish()


def emit_cumulate(module: Any, name: str, kernel: Kernel, target: Target, layout: TableLayout) -> Any:
    """Vectors along the inner dimension; sums go by index."""
    op, x = kernel.root.op, kernel.root.inputs[0]
    if not isinstance(op, prim.Cumulate) or x is None:
        raise CompilerBug(f"{kernel.root.op.NAME} is no cumulate")
    elements = _Elements(module, name, kernel, target, layout)
    fn, (outer, count, inner) = elements.fn, x.type.shape
    strides, lanes = access.result_strides(kernel), preferred_lanes(kernel.graph, target)
    add = fn.b.fadd if elements.dtype == "float32" else fn.b.add

    def block(i: Index, j: Index, width: int) -> None:
        def step(k: Index, total: Any) -> list[Any]:
            place = fn.add(count - 1, _negative(fn, k)) if op.reverse else k
            following = add(total, elements.load((i, place, j), width))
            stored = total if op.exclusive else following
            access.store(fn, kernel, stored, access.offset(fn, (i, place, j), strides))
            return [following]

        fn.loop(0, count, 1, step, [constant(vector_type(ELEMENTS[elements.dtype], width), 0)])

    def row(i: Index) -> None:
        fn.blocks(inner, lanes, True, lambda j, width: block(i, j, width))

    fn.loop(0, outer, 1, row)
    return fn.finish()


def _negative(fn: KernelFunction, number: Index) -> Index:
    return -number if isinstance(number, int) else fn.b.neg(number)
