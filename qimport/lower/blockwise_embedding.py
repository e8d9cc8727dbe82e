"""EMBEDDING_LOOKUP in a table of int4 codes with a scale per block."""

from __future__ import annotations

import numpy as np

from qimport.ir.graph import Value
from qimport.lower.hybrid import as_int8
from qimport.lower.rule import Emitter, Use, rule
from qimport.qnn.blockwise_embedding import BlockwiseEmbedding


@rule(BlockwiseEmbedding)
def lower_blockwise_embedding(emit: Emitter, op: BlockwiseEmbedding, use: Use) -> Value:
    """Rows of codes and of scales are gathered, and multiplied."""
    indices, table, scales = use.operand(0), as_int8(emit, use.operand(1)), use.operand(2)
    assert scales.data is not None
    numbers = emit.constant(scales.data.astype(np.float32))
    codes = emit.cast(emit.gather(table, indices, 0), "float32")
    factors = emit.gather(numbers, indices, 0)
    count, blocks = factors.type.shape
    blocked = emit.reshape(codes, (count, blocks, op.block))
    result = emit.binary("mul", blocked, emit.reshape(factors, (count, blocks, 1)))
    return emit.reshape(result, use.output.shape)
