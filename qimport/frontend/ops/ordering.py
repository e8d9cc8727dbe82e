"""ARG_MAX, ARG_MIN, TOPK_V2 and CUMSUM."""

from __future__ import annotations

from qimport.frontend.ops import checks
from qimport.frontend.ops.context import OperatorContext, importer
from qimport.qnn.ordering import COMPARED, RANKED, SUMMED, ArgMax, ArgMin, Cumsum, TopK


@importer("ARG_MAX", versions=range(1, 4))
def arg_max(context: OperatorContext) -> None:
    """Place of the largest element."""
    _arg(context, ArgMax)


@importer("ARG_MIN", versions=range(1, 4))
def arg_min(context: OperatorContext) -> None:
    """Place of the smallest element."""
    _arg(context, ArgMin)


def _arg(context: OperatorContext, operation: type[ArgMax] | type[ArgMin]) -> None:
    context.operands(2)
    x = context.input(0)
    checks.one_of(context, x, COMPARED)
    checks.one_of(context, context.out, ("int32", "int64"))
    axis = _number(context, "dimension", len(x.type.shape), ("int32", "int64"))
    shape = (*x.type.shape[:axis], *x.type.shape[axis + 1 :])
    context.emit(operation(axis=axis), (x,), shape)


def _number(context: OperatorContext, what: str, rank: int, dtypes: tuple[str, ...]) -> int:
    numbers = context.integers(1, what, dtypes)
    if len(numbers) != 1:
        context.malformed(f"the {what} has {len(numbers)} numbers; expected 1")
    return context.axis(numbers[0], rank)


@importer("TOPK_V2", versions=range(1, 4))
def topk_v2(context: OperatorContext) -> None:
    """The k largest elements along the last dimension, k known."""
    context.operands(2, results=2)
    x, (values, places) = context.input(0), [result.value for result in context.results]
    checks.one_of(context, x, RANKED)
    checks.same_type(context, x, values)
    checks.one_of(context, places, ("int32", "int16"))
    numbers = context.integers(1, "count", ("int32", "int16"))
    if len(numbers) != 1 or not x.type.shape:
        context.malformed(f"{len(numbers)} counts for shape {x.type.shape}; expected 1 and a last dimension")
    k = numbers[0]
    if not 0 < k <= x.type.shape[-1]:
        context.misfit(f"the count is {k}; expected 1 to {x.type.shape[-1]}", x)
    shape = (*x.type.shape[:-1], k)
    context.emit_results(TopK(k=k), (x,), (shape, shape))


@importer("CUMSUM", versions=range(1, 2))
def cumsum(context: OperatorContext) -> None:
    """Running sums along a known dimension."""
    context.operands(2)
    x = context.input(0)
    checks.one_of(context, x, SUMMED)
    checks.same_type(context, x, context.out)
    axis = _number(context, "dimension", len(x.type.shape), ("int32",))
    op = Cumsum(
        axis=axis, exclusive=bool(context.option("exclusive")), reverse=bool(context.option("reverse"))
    )
    context.emit(op, (x,), x.type.shape)
