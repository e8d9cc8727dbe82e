"""TILE, BROADCAST_TO, FILL and ZEROS_LIKE: repetition."""

from __future__ import annotations

import numpy as np

from qimport.frontend.ops import checks
from qimport.frontend.ops.context import OperatorContext, importer
from qimport.ir.graph import Value
from qimport.qnn.tile import BroadcastTo, Tile

INDEX_TYPES = ("int32", "int64")


@importer("TILE", versions=range(1, 4))
def tile(context: OperatorContext) -> None:
    """Constant counts per dimension."""
    context.operands(2)
    x, counts = context.input(0), context.integers(1, "list of multiples", INDEX_TYPES)
    checks.moves(context, x, context.out)
    shape = x.type.shape
    if len(counts) != len(shape):
        context.misfit(f"there are {len(counts)} multiples for shape {shape}", x)
    result = [size * count for size, count in zip(shape, counts, strict=True)]
    context.emit(Tile(multiples=counts), (x,), result)


@importer("BROADCAST_TO", versions=range(2, 5))
def broadcast_to(context: OperatorContext) -> None:
    """To a constant shape."""
    context.operands(2)
    x, shape = context.input(0), context.integers(1, "shape", INDEX_TYPES)
    checks.moves(context, x, context.out)
    if len(shape) == len(x.type.shape):
        shape = checks.follow_batch(context, x, shape)
    padded = (*[1] * (len(shape) - len(x.type.shape)), *x.type.shape)
    if len(padded) != len(shape) or any(a not in (1, b) for a, b in zip(padded, shape, strict=True)):
        context.misfit(f"tensor {x.name!r} of shape {x.type.shape} does not stretch to {shape}", x)
    context.emit(BroadcastTo(), (x,), shape)


@importer("FILL", versions=range(1, 6))
def fill(context: OperatorContext) -> None:
    """A constant shape full of one element."""
    context.operands(2)
    shape, value = context.integers(0, "shape", INDEX_TYPES), context.input(1)
    checks.moves(context, value, context.out)
    checks.equal_quantization(context, value)
    if value.type.shape:
        context.malformed(f"the value {value.name!r} has shape {value.type.shape}; expected a scalar")
    context.emit(BroadcastTo(), (value,), shape)


@importer("ZEROS_LIKE", versions=range(1, 2))
def zeros_like(context: OperatorContext) -> None:
    """Zeros in the operand's shape."""
    context.operands(1)
    x, out = context.input(0), context.out
    checks.moves(context, x, out)
    zero = Value(out.type.with_shape(()), "zero", np.zeros((), out.type.numpy))
    context.emit(BroadcastTo(), (zero,), x.type.shape)
