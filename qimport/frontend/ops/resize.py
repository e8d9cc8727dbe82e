"""RESIZE_BILINEAR and RESIZE_NEAREST_NEIGHBOR."""

from __future__ import annotations

from qimport.frontend.ops import checks
from qimport.frontend.ops.context import OperatorContext, importer
from qimport.qnn.resize import ResizeBilinear, ResizeNearestNeighbor


@importer("RESIZE_BILINEAR", versions=range(1, 5))
def resize_bilinear(context: OperatorContext) -> None:
    """Blend neighbours."""
    _resize(context, ResizeBilinear)


@importer("RESIZE_NEAREST_NEIGHBOR", versions=range(1, 5))
def resize_nearest_neighbor(context: OperatorContext) -> None:
    """Take the nearest pixel."""
    _resize(context, ResizeNearestNeighbor)


def _resize(context: OperatorContext, operation: type[ResizeBilinear] | type[ResizeNearestNeighbor]) -> None:
    """The new height and width must be known; scales are not compared."""
    context.operands(2)
    x = context.input(0)
    checks.one_of(context, x, operation.DTYPES)
    checks.same_type(context, x, context.out)
    checks.rank(context, x, 4)
    size = context.integers(1, "new size")
    if len(size) != 2 or min(size) < 1:
        context.misfit(f"the new size is {size}; expected two numbers of at least 1", context.input(1))
    aligned, half = bool(context.option("align_corners")), bool(context.option("half_pixel_centers"))
    sentence = "align_corners and half_pixel_centers are both set; expected one of them at most"
    context.require(not (aligned and half), sentence)
    op = operation(align_corners=aligned, half_pixel_centers=half)
    context.emit(op, (x,), (x.type.shape[0], *size, x.type.shape[3]))
