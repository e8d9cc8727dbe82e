"""SPACE_TO_DEPTH, DEPTH_TO_SPACE, SPACE_TO_BATCH_ND and BATCH_TO_SPACE_ND."""

from __future__ import annotations

import math
from dataclasses import dataclass

from qimport.frontend.ops import checks
from qimport.frontend.ops.context import OperatorContext, importer
from qimport.ir.graph import Value
from qimport.qnn.blocks import BatchToSpace, DepthToSpace, SpaceToBatch, SpaceToDepth


@importer("SPACE_TO_DEPTH", versions=range(1, 3))
def space_to_depth(context: OperatorContext) -> None:
    """Blocks of pixels become channels."""
    x, block = _image(context)
    batch, height, width, channels = x.type.shape
    if height % block or width % block:
        context.misfit(f"tensor {x.name!r} of shape {x.type.shape} is not made of blocks of {block}", x)
    shape = (batch, height // block, width // block, channels * block * block)
    context.emit(SpaceToDepth(block=block), (x,), shape)


@importer("DEPTH_TO_SPACE", versions=range(1, 3))
def depth_to_space(context: OperatorContext) -> None:
    """Channels become blocks of pixels."""
    x, block = _image(context)
    batch, height, width, channels = x.type.shape
    if channels % (block * block):
        context.misfit(f"the channels of shape {x.type.shape} are no blocks of {block}", x)
    shape = (batch, height * block, width * block, channels // (block * block))
    context.emit(DepthToSpace(block=block), (x,), shape)


def _image(context: OperatorContext) -> tuple[Value, int]:
    context.operands(1)
    x = context.input(0)
    checks.moves(context, x, context.out)
    checks.rank(context, x, 4)
    block: int = context.option("block_size")
    if block < 1:
        context.malformed(f"the block size is {block}; expected at least 1")
    return x, block


@importer("SPACE_TO_BATCH_ND", versions=range(1, 5))
def space_to_batch(context: OperatorContext) -> None:
    """Interleaved samples of the padded operand become images."""
    x, blocks = _blocks(context, "padding")
    shape = x.type.shape
    op = SpaceToBatch(block=blocks.sizes, before=blocks.before, after=blocks.after)
    padded = op.padded_shape(shape)[1 : len(blocks.sizes) + 1]
    if any(size % block for size, block in zip(padded, blocks.sizes, strict=True)):
        context.misfit(f"padded sizes {padded} are not made of blocks of {blocks.sizes}", x)
    inner = [size // block for size, block in zip(padded, blocks.sizes, strict=True)]
    count = shape[0] * math.prod(blocks.sizes)
    context.emit(op, (x,), (count, *inner, *shape[len(blocks.sizes) + 1 :]))


@importer("BATCH_TO_SPACE_ND", versions=range(1, 5))
def batch_to_space(context: OperatorContext) -> None:
    """Images are interleaved, then cropped."""
    x, blocks = _blocks(context, "cropping")
    shape = x.type.shape
    if shape[0] % math.prod(blocks.sizes):
        context.misfit(f"{shape[0]} images are no multiple of {math.prod(blocks.sizes)}", x)
    op = BatchToSpace(block=blocks.sizes, before=blocks.before, after=blocks.after)
    merged = op.merged_shape(shape)
    crops = zip(merged[1:], blocks.before, blocks.after, strict=False)
    inner = [size - first - last for size, first, last in crops]
    context.emit(op, (x,), (merged[0], *inner, *shape[len(blocks.sizes) + 1 :]))


@dataclass(frozen=True)
class _Blocks:
    sizes: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]


def _blocks(context: OperatorContext, what: str) -> tuple[Value, _Blocks]:
    """The operand of 3 or 4 dimensions, and a block and two margins for each inner one."""
    context.operands(3)
    x, out = context.input(0), context.out
    checks.moves(context, x, out)
    checks.equal_quantization(context, x)
    rank = len(x.type.shape)
    if rank not in (3, 4):
        context.misfit(f"tensor {x.name!r} has shape {x.type.shape}; expected 3 or 4 dimensions", x)
    sizes, margins = context.integers(1, "block shape"), context.integers(2, what)
    if len(sizes) != rank - 2 or len(margins) != 2 * len(sizes):
        context.misfit(f"there are {len(sizes)} blocks, {len(margins)} margins for shape {x.type.shape}", x)
    if min(sizes) < 1 or min(margins) < 0:
        context.malformed(f"the block shape is {sizes}, the {what} {margins}")
    return x, _Blocks(sizes, margins[::2], margins[1::2])
