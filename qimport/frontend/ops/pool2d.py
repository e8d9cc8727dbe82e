"""AVERAGE_POOL_2D, MAX_POOL_2D and L2_POOL_2D."""

from __future__ import annotations

from qimport.frontend.ops import checks
from qimport.frontend.ops.context import OperatorContext, importer
from qimport.frontend.ops.window import read_window
from qimport.qnn.pool2d import AveragePool2d, L2Pool2d, MaxPool2d


@importer("AVERAGE_POOL_2D", versions=range(1, 4))
def average_pool_2d(context: OperatorContext) -> None:
    """Mean over the part of a window inside the image."""
    _pool2d(context, AveragePool2d)


@importer("MAX_POOL_2D", versions=range(1, 4))
def max_pool_2d(context: OperatorContext) -> None:
    """Maximum over the part of a window inside the image."""
    _pool2d(context, MaxPool2d)


@importer("L2_POOL_2D", versions=range(1, 2))
def l2_pool_2d(context: OperatorContext) -> None:
    """Root of the mean square over the part of a window inside the image."""
    _pool2d(context, L2Pool2d)


def _pool2d(
    context: OperatorContext, operation: type[AveragePool2d] | type[MaxPool2d] | type[L2Pool2d]
) -> None:
    """Pool codes: the interpreter compares no scales, so operand and result may be quantized unlike."""
    context.operands(1)
    x = context.input(0)
    checks.one_of(context, x, operation.DTYPES)
    checks.same_type(context, x, context.out)
    for value in (x, context.out) if x.type.dtype != "float32" else ():
        checks.per_tensor(context, value)
    checks.rank(context, x, 4)
    size = (context.option("filter_height"), context.option("filter_width"))
    window = read_window(context, x, size)
    op = operation(
        size=size, stride=window.stride, padding=window.padding, activation=checks.activation(context)
    )
    batch, _, _, channels = x.type.shape
    context.emit(op, (x,), (batch, *window.extent, channels))
