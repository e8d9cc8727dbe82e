"""SPLIT, SPLIT_V and UNPACK: several results cut from one operand."""

from __future__ import annotations

from collections.abc import Sequence

from qimport.frontend.ops import checks
from qimport.frontend.ops.context import OperatorContext, importer
from qimport.ir.graph import Value
from qimport.qnn.split import Split, Unpack


@importer("SPLIT", versions=range(1, 6))
def split(context: OperatorContext) -> None:
    """Parts of equal size."""
    count = _count(context, 2, "num_splits")
    x, axis = context.input(1), _axis(context, 0, context.input(1))
    length = x.type.shape[axis]
    if length % count:
        context.misfit(f"a dimension of {length} does not split into {count} equal parts", x)
    _emit_parts(context, x, axis, [length // count] * count)


@importer("SPLIT_V", versions=range(1, 4))
def split_v(context: OperatorContext) -> None:
    """Parts of listed sizes, one of which may be -1: what is left."""
    count = _count(context, 3, "num_splits")
    x, axis = context.input(0), _axis(context, 2, context.input(0))
    sizes, length = list(context.integers(1, "list of sizes", ("int32", "int64"))), x.type.shape[axis]
    if len(sizes) != count or sizes.count(-1) > 1:
        context.malformed(f"the sizes are {tuple(sizes)}; expected {count}, at most one of them -1")
    if -1 in sizes:
        sizes[sizes.index(-1)] = length - sum(sizes) - 1
    if sum(sizes) != length or min(sizes) < 0:
        context.misfit(f"sizes {tuple(sizes)} do not fill a dimension of {length}", x)
    _emit_parts(context, x, axis, sizes)


@importer("UNPACK", versions=range(1, 7))
def unpack(context: OperatorContext) -> None:
    """One result for each index along a dimension."""
    count = _count(context, 1, "num")
    x = context.input(0)
    _check(context, x)
    for result in context.results:
        checks.equal_quantization(context, x, result.value)
    shape = x.type.shape
    axis = context.axis(context.option("axis"), len(shape))
    if shape[axis] != count:
        context.misfit(f"tensor {x.name!r} has {shape[axis]} parts along {axis}; expected {count}", x)
    context.emit_results(Unpack(axis=axis), (x,), [(*shape[:axis], *shape[axis + 1 :])] * count)


def _count(context: OperatorContext, operands: int, option: str) -> int:
    """The number of results, which an option must state as well."""
    count = len(context.results)
    context.operands(operands, results=count)
    if not count or context.option(option) != count:
        stated = context.option(option)
        context.malformed(f"it has {count} results, but the option {option} says {stated}")
    return count


def _check(context: OperatorContext, x: Value) -> None:
    checks.moves(context, x, *(result.value for result in context.results))


def _axis(context: OperatorContext, index: int, x: Value) -> int:
    _check(context, x)
    numbers = context.integers(index, "dimension")
    if len(numbers) != 1:
        context.malformed(
            f"the dimension {context.input(index).name!r} has {len(numbers)} numbers; expected 1"
        )
    return context.axis(numbers[0], len(x.type.shape))


def _emit_parts(context: OperatorContext, x: Value, axis: int, sizes: Sequence[int]) -> None:
    shape = x.type.shape
    context.emit_results(
        Split(axis=axis), (x,), [(*shape[:axis], size, *shape[axis + 1 :]) for size in sizes]
    )
