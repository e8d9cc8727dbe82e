"""RESHAPE, SQUEEZE and EXPAND_DIMS: the same elements under another shape."""

from __future__ import annotations

import math

from qimport.frontend.ops import checks
from qimport.frontend.ops.context import OperatorContext, importer
from qimport.qnn.reshape import Reshape


@importer("RESHAPE", versions=range(1, 2))
def reshape(context: OperatorContext) -> None:
    """Take the shape from the second operand, or without one from the options."""
    context.operands(1, 2)
    x = context.input(0)
    checks.moves(context, x, context.out)
    wanted = _wanted_shape(context)
    shape = _complete(context, wanted, x.type.size)
    if math.prod(shape) != x.type.size:
        shape = checks.follow_batch(context, x, shape)
    if math.prod(shape) != x.type.size:
        sentence = f"tensor {x.name!r} of shape {x.type.shape} does not fit the fixed shape {wanted}"
        context.misfit(sentence, x)
    context.emit(Reshape(), (x,), shape)


def _wanted_shape(context: OperatorContext) -> tuple[int, ...]:
    """Return the shape as written, with at most one -1. Old files write [0] for a scalar into the options."""
    operand = context.optional(1)
    if operand is not None:
        if len(operand.type.shape) != 1:
            context.unsupported(
                f"the shape is a tensor of shape {operand.type.shape}; expected a vector", operand
            )
        return context.integers(1, "shape")
    option: tuple[int, ...] = context.option("new_shape")
    return () if option == (0,) else option


def _complete(context: OperatorContext, wanted: tuple[int, ...], size: int) -> tuple[int, ...]:
    """Resolve a -1."""
    if min(wanted, default=0) < -1 or wanted.count(-1) > 1:
        context.malformed(f"the new shape is {wanted}; expected sizes of at least 0 and at most one -1")
    known = math.prod(length for length in wanted if length != -1)
    if -1 not in wanted or not known or size % known:
        return tuple(1 if length == -1 else length for length in wanted)
    return tuple(size // known if length == -1 else length for length in wanted)


@importer("SQUEEZE", versions=range(1, 3))
def squeeze(context: OperatorContext) -> None:
    """Drop the listed dimensions of size 1, or all of them."""
    context.operands(1)
    x = context.input(0)
    checks.moves(context, x, context.out)
    shape = x.type.shape
    listed = {context.axis(axis, len(shape)) for axis in context.option("squeeze_dims")}
    for axis in sorted(listed):
        if shape[axis] != 1:
            context.misfit(f"dimension {axis} of tensor {x.name!r} has size {shape[axis]}; expected 1", x)
    dropped = listed or {axis for axis, length in enumerate(shape) if length == 1}
    context.emit(Reshape(), (x,), [length for axis, length in enumerate(shape) if axis not in dropped])


@importer("EXPAND_DIMS", versions=range(1, 2))
def expand_dims(context: OperatorContext) -> None:
    """Insert a dimension of size 1."""
    context.operands(2)
    x = context.input(0)
    checks.moves(context, x, context.out)
    checks.equal_quantization(context, x)
    positions = context.integers(1, "dimension", ("int32", "int64"))
    if len(positions) != 1:
        context.malformed(f"the dimension {context.input(1).name!r} has {len(positions)} numbers; expected 1")
    shape = x.type.shape
    axis = context.axis(positions[0], len(shape) + 1)
    context.emit(Reshape(), (x,), (*shape[:axis], 1, *shape[axis:]))
