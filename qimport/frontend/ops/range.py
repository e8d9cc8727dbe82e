"""RANGE."""

from __future__ import annotations

import math

import numpy as np

from qimport.frontend.ops import checks
from qimport.frontend.ops.context import OperatorContext, importer
from qimport.qnn.range import Range

TYPES = ("int32", "int64", "float32")


@importer("RANGE", versions=range(1, 3))
def range_(context: OperatorContext) -> None:
    """Constant bounds: how many elements there are must be known."""
    context.operands(3)
    for index in range(3):
        checks.same_type(context, context.out, context.input(index))
    if context.out.type.dtype not in TYPES:
        context.unsupported(f"the element type is {context.out.type.dtype}; expected {', '.join(TYPES)}")
    start, limit, step = (context.constant(i, name) for i, name in enumerate(("start", "limit", "step")))
    if any(bound.size != 1 for bound in (start, limit, step)):
        context.malformed("start, limit and step must be one number each")
    first, last, by = (bound.reshape(-1)[0] for bound in (start, limit, step))
    if not (first <= last and by > 0) and not (first >= last and by < 0):
        context.malformed(f"a step of {by} does not lead from {first} to {last}")
    if context.out.type.dtype == "float32":
        with np.errstate(all="ignore"):
            steps = abs(np.float32(np.float32(last - first) / by))
        if not np.isfinite(steps):
            context.malformed(f"{steps} steps of {by} lead from {first} to {last}")
        count = math.ceil(steps)
    else:
        count = -(-abs(int(last) - int(first)) // abs(int(by)))
    context.emit(Range(start=first.item(), step=by.item()), (), (count,))
