"""MEAN."""

from __future__ import annotations

from qimport.frontend.ops.context import OperatorContext, importer
from qimport.frontend.ops.reduction import read_reduction, require_scales
from qimport.qnn.checks import QUANTIZED
from qimport.qnn.mean import PLAIN, Mean


@importer("MEAN", versions=range(1, 4))
def mean(context: OperatorContext) -> None:
    """Mean over a constant set of dimensions, which may be negative and repeat."""
    reduction = read_reduction(context, *QUANTIZED, *PLAIN)
    require_scales(context, reduction.x)
    reduction.emit(context, Mean)
