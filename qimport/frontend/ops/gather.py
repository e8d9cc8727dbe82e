"""GATHER, GATHER_ND and EMBEDDING_LOOKUP: elements picked by indices."""

from __future__ import annotations

import numpy as np

from qimport.frontend.model import Blocks
from qimport.frontend.ops import checks
from qimport.frontend.ops.blockwise import block_scales, blocks_of
from qimport.frontend.ops.context import OperatorContext, importer
from qimport.ir.graph import Value
from qimport.qnn.blockwise_embedding import BlockwiseEmbedding
from qimport.qnn.gather import INDEX_TYPES, EmbeddingLookup, Gather, GatherNd


@importer("GATHER", versions=range(1, 9))
def gather(context: OperatorContext) -> None:
    """Along one dimension, perhaps with leading dimensions that both operands share."""
    context.operands(2)
    x, indices = context.input(0), context.input(1)
    checks.moves(context, x, context.out)
    checks.one_of(context, indices, INDEX_TYPES)
    axis = context.axis(context.option("axis"), len(x.type.shape))
    batch: int = context.option("batch_dims")
    rank = len(indices.type.shape)
    batch = batch + rank if batch < 0 else batch
    if not 0 <= batch <= min(axis, rank) or x.type.shape[:batch] != indices.type.shape[:batch]:
        shapes = f"{x.type.shape} and {indices.type.shape}"
        context.misfit(f"shapes {shapes} do not share {batch} dimensions before dimension {axis}", indices)
    _check_range(context, indices, [x.type.shape[axis]])
    op = Gather(axis=axis, batch_dims=batch)
    shape = (*x.type.shape[:axis], *indices.type.shape[batch:], *x.type.shape[axis + 1 :])
    context.emit(op, (x, indices), shape)


@importer("GATHER_ND", versions=range(1, 7))
def gather_nd(context: OperatorContext) -> None:
    """By coordinates along the first dimensions."""
    context.operands(2)
    x, indices = context.input(0), context.input(1)
    checks.moves(context, x, context.out)
    checks.one_of(context, indices, INDEX_TYPES)
    depth = coordinates(context, indices, len(x.type.shape))
    _check_range(context, indices, x.type.shape[:depth])
    context.emit(GatherNd(), (x, indices), (*indices.type.shape[:-1], *x.type.shape[depth:]))


@importer("EMBEDDING_LOOKUP", versions=range(1, 6))
def embedding_lookup(context: OperatorContext) -> None:
    """Rows of a table; float results of an int8 table are its real values."""
    context.operands(2)
    indices, table = context.input(0), context.input(1)
    checks.one_of(context, indices, ("int32",))
    checks.rank(context, indices, 1)
    if not table.type.shape:
        context.misfit(f"the table {table.name!r} is a scalar; expected rows", table)
    blocks = blocks_of(context, 1)
    if blocks is not None:
        _blockwise_lookup(context, blocks)
        return
    if (table.type.dtype, context.out.type.dtype) == ("int8", "float32"):
        quant = checks.quantization(context, table)
        context.require(quant.axis in (None, 0), "its scales are not per row", table)
    else:
        checks.moves(context, table, context.out)
    _check_range(context, indices, table.type.shape[:1])
    context.emit(EmbeddingLookup(), (indices, table), (*indices.type.shape, *table.type.shape[1:]))


def _blockwise_lookup(context: OperatorContext, blocks: Blocks) -> None:
    """Rows of a constant table with a scale per block."""
    indices, table = context.input(0), context.input(1)
    checks.one_of(context, table, ("int4",))
    checks.one_of(context, context.out, ("float32",))
    checks.rank(context, table, 2)
    _check_range(context, indices, table.type.shape[:1])
    scales = block_scales(context, table, blocks)
    shape = (*indices.type.shape, table.type.shape[1])
    context.emit(BlockwiseEmbedding(blocks.size), (indices, table, scales), shape)


def coordinates(context: OperatorContext, indices: Value, rank: int) -> int:
    """The size of the last dimension of ``indices``: coordinates of a tensor of ``rank`` dimensions."""
    shape = indices.type.shape
    if not shape or shape[-1] > rank:
        context.misfit(f"indices of shape {shape} hold no coordinates of {rank} dimensions", indices)
    return shape[-1]


def _check_range(context: OperatorContext, indices: Value, sizes: tuple[int, ...] | list[int]) -> None:
    """Refuse constant indices for which the interpreter would fail at every run."""
    if indices.data is None:
        return
    numbers = indices.data.astype(np.int64)
    inside = (numbers >= 0) & (numbers < np.array(sizes or [1]))
    context.require(bool(inside.all()), f"indices leave the dimensions {tuple(sizes)}", indices)
