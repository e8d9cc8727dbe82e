"""SUM, REDUCE_MAX, REDUCE_MIN, REDUCE_PROD, REDUCE_ANY and REDUCE_ALL."""

from __future__ import annotations

from qimport.frontend.ops.context import OperatorContext, importer
from qimport.frontend.ops.reduction import ReductionClass, read_reduction, require_scales
from qimport.qnn.reduce import TYPES, ReduceAll, ReduceAny, ReduceMax, ReduceMin, ReduceProd, Sum


@importer("SUM", versions=range(1, 3))
def sum_(context: OperatorContext) -> None:
    """Sum over a constant set of dimensions."""
    reduction = read_reduction(context, *TYPES)
    require_scales(context, reduction.x)
    reduction.emit(context, Sum)


@importer("REDUCE_MAX", versions=range(1, 4))
def reduce_max(context: OperatorContext) -> None:
    """Largest element."""
    _extremum(context, ReduceMax)


@importer("REDUCE_MIN", versions=range(1, 4))
def reduce_min(context: OperatorContext) -> None:
    """Smallest element."""
    _extremum(context, ReduceMin)


def _extremum(context: OperatorContext, operation: ReductionClass) -> None:
    """Codes of int16 need equal quantizations; whether eight bits do depends on the numerics mode."""
    reduction = read_reduction(context, *TYPES)
    x, out = reduction.x.type, context.out.type
    if x.dtype == "int16":
        alike = x.quantization == out.quantization and (x.quantization is None or x.quant.zero_point == 0)
        sentence = f"operand and result are {x} and {out}; expected one quantization with zero point 0"
        context.require(alike, sentence, reduction.x)
    reduction.emit(context, operation)


@importer("REDUCE_PROD", versions=range(1, 3))
def reduce_prod(context: OperatorContext) -> None:
    """Product of all elements; codes are rescaled after every factor."""
    reduction = read_reduction(context, *TYPES)
    x = reduction.x
    if x.type.quantization is not None:
        expected = "the uint8 tensor has a scale; expected none, or int8 or int16"
        context.require(x.type.dtype != "uint8", expected, x)
        require_scales(context, x)
    reduction.emit(context, ReduceProd)


@importer("REDUCE_ANY", versions=range(1, 2))
def reduce_any(context: OperatorContext) -> None:
    """Logical or of all elements."""
    read_reduction(context, "bool").emit(context, ReduceAny)


@importer("REDUCE_ALL", versions=range(1, 2))
def reduce_all(context: OperatorContext) -> None:
    """Logical and of all elements."""
    read_reduction(context, "bool").emit(context, ReduceAll)
