"""SEGMENT_SUM and UNSORTED_SEGMENT_SUM, _PROD, _MAX, _MIN."""

from __future__ import annotations

from functools import partial

import numpy as np

from qimport.frontend.ops import checks
from qimport.frontend.ops.context import OperatorContext, importer
from qimport.ir.graph import Value
from qimport.qnn.segment import Segment, SegmentKind

TYPES = ("int32", "float32")


def _unsorted(context: OperatorContext, kind: SegmentKind) -> None:
    """Rows, their segment numbers, and a constant number of segments."""
    context.operands(3)
    x, numbers = _rows(context)
    segments = context.integers(2, "number of segments")
    if len(segments) != 1 or segments[0] < 1:
        context.unsupported(f"the number of segments is {list(segments)}; expected one positive number")
    _check_range(context, numbers, segments[0])
    context.emit(Segment(kind), (x, numbers), (segments[0], *x.type.shape[len(numbers.type.shape) :]))


@importer("SEGMENT_SUM", versions=range(1, 2))
def segment_sum(context: OperatorContext) -> None:
    """Segment numbers ascend without gaps; the last one says how many there are."""
    context.operands(2)
    x, numbers = _rows(context)
    checks.rank(context, numbers, 1)
    known = np.asarray(
        context.constant(1, "segment numbers of SEGMENT_SUM, which say the shape of the result,")
    )
    if known[0] != 0 or not np.isin(np.diff(known), (0, 1)).all():
        context.unsupported("the segment numbers do not ascend from 0 by 0 or 1", numbers)
    context.emit(Segment(), (x, numbers), (int(known[-1]) + 1, *x.type.shape[1:]))


def _rows(context: OperatorContext) -> tuple[Value, Value]:
    x, numbers = context.input(0), context.input(1)
    checks.one_of(context, x, TYPES)
    checks.same_type(context, x, context.out)
    checks.one_of(context, numbers, ("int32",))
    shape = numbers.type.shape
    if not shape or x.type.shape[: len(shape)] != shape:
        context.misfit(f"segment numbers of shape {shape} do not fit rows of shape {x.type.shape}", numbers)
    return x, numbers


def _check_range(context: OperatorContext, numbers: Value, segments: int) -> None:
    """Refuse constants for which the interpreter would fail at every run."""
    if numbers.data is not None and numbers.data.astype(np.int64).max() >= segments:
        context.unsupported(f"a segment number is not below {segments}", numbers)


for _kind in ("sum", "prod", "max", "min"):
    _name = f"UNSORTED_SEGMENT_{_kind.upper()}"
    importer(_name, versions=range(1, 2))(partial(_unsorted, kind=_kind))
