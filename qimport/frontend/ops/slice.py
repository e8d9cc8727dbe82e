"""SLICE."""

from __future__ import annotations

from qimport.frontend.ops import checks
from qimport.frontend.ops.context import OperatorContext, importer
from qimport.ir.graph import Value
from qimport.qnn.dynamic_slice import DynamicSlice
from qimport.qnn.strided_slice import StridedSlice

INDEX_TYPES = ("int32", "int64")


@importer("SLICE", versions=range(1, 9))
def slice_(context: OperatorContext) -> None:
    """A box; sizes are constant, and -1 (up to the end) only where the beginning is constant too."""
    context.operands(3)
    x, begin = context.input(0), context.input(1)
    checks.moves(context, x, context.out)
    rank, sizes = len(x.type.shape), context.integers(2, "size", INDEX_TYPES)
    for what, count in (("begin", begin.type.size), ("size", len(sizes))):
        if count != rank:
            context.misfit(f"{what} has {count} numbers for shape {x.type.shape}", x)
    if begin.is_constant:
        _constant(context, x, context.integers(1, "begin", INDEX_TYPES), sizes)
    else:
        _dynamic(context, x, begin, sizes)


def _constant(context: OperatorContext, x: Value, begin: tuple[int, ...], sizes: tuple[int, ...]) -> None:
    whole = zip(x.type.shape, begin, sizes, strict=True)
    shape = tuple(length - first if size == -1 else size for length, first, size in whole)
    for length, first, size in zip(x.type.shape, begin, shape, strict=True):
        if not 0 <= first <= first + size <= length:
            context.misfit(f"{size} elements from {first} on leave a dimension of {length}", x)
    op = StridedSlice(begin=begin, stride=(1,) * len(shape), size=shape)
    context.emit(op, (x,), shape)


def _dynamic(context: OperatorContext, x: Value, begin: Value, sizes: tuple[int, ...]) -> None:
    if -1 in sizes:
        context.unsupported("the size is -1 and begin is computed at run time; expected one constant", begin)
    for length, size in zip(x.type.shape, sizes, strict=True):
        if not 0 <= size <= length:
            context.misfit(f"{size} elements do not fit into a dimension of {length}", x)
    context.emit(DynamicSlice(), (x, begin), sizes)
