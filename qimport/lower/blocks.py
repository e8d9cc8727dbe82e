"""Blocks of an image: reshapes around a transposition, with padding before or cropping after it."""

from __future__ import annotations

from qimport.ir.graph import Value
from qimport.lower.rule import Emitter, Use, rule
from qimport.qnn.blocks import BatchToSpace, DepthToSpace, SpaceToBatch, SpaceToDepth, padding


def _rearrange(
    emit: Emitter, x: Value, split: tuple[int, ...], order: tuple[int, ...], shape: tuple[int, ...]
) -> Value:
    return emit.reshape(emit.transpose(emit.reshape(x, split), order), shape)


@rule(SpaceToDepth)
def lower_space_to_depth(emit: Emitter, op: SpaceToDepth, use: Use) -> Value:
    """Rows and columns of blocks move into the channels."""
    x = use.operand(0)
    return _rearrange(emit, x, op.split_shape(x.type.shape), op.ORDER, use.output.shape)


@rule(DepthToSpace)
def lower_depth_to_space(emit: Emitter, op: DepthToSpace, use: Use) -> Value:
    """Rows and columns of blocks move out of the channels."""
    x = use.operand(0)
    return _rearrange(emit, x, op.split_shape(x.type.shape), op.ORDER, use.output.shape)


@rule(SpaceToBatch)
def lower_space_to_batch(emit: Emitter, op: SpaceToBatch, use: Use) -> Value:
    """``prim.pad``, then rows and columns of blocks move into the batch."""
    x = use.operand(0)
    rank = len(x.type.shape)
    before, after = zip(*op.widths(rank), strict=True)
    padded = emit.pad(x, before, after, padding(use.output))
    return _rearrange(emit, padded, op.split_shape(padded.type.shape), op.order(rank), use.output.shape)


@rule(BatchToSpace)
def lower_batch_to_space(emit: Emitter, op: BatchToSpace, use: Use) -> Value:
    """Rows and columns of blocks move out of the batch, then ``prim.slice``."""
    x, out = use.operand(0), use.output.shape
    merged = op.merged_shape(x.type.shape)
    whole = _rearrange(emit, x, op.split_shape(x.type.shape), op.order(len(out)), merged)
    begin = (0, *op.before, *[0] * (len(out) - len(op.before) - 1))
    return emit.slice(whole, begin, out, [1] * len(out))
