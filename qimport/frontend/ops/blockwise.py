"""Constant int4 weights with a scale per block of a row."""

from __future__ import annotations

import numpy as np

from qimport.frontend.model import Blocks
from qimport.frontend.ops.context import OperatorContext
from qimport.ir.graph import Value
from qimport.ir.types import TensorType


def blocks_of(context: OperatorContext, index: int) -> Blocks | None:
    """Return how an operand is quantized in blocks, None if it is not."""
    quantization = context.tensors[context.operator.inputs[index]].quantization
    return None if quantization is None else quantization.blocks


def block_scales(context: OperatorContext, weights: Value, blocks: Blocks) -> Value:
    """Return the scales as float16 [N, K / block] for weights [N, K]."""
    outputs, depth = weights.type.shape
    if blocks.size < 1 or depth % blocks.size:
        context.unsupported(f"blocks of {blocks.size} do not divide rows of {depth}", weights)
    if not 0 <= blocks.scales < len(context.tensors):
        context.malformed(f"the scales of {weights.name!r} are tensor {blocks.scales}, which does not exist")
    tensor = context.tensors[blocks.scales]
    shape = (outputs, depth // blocks.size)
    if tensor.data is None or tensor.dtype != "float16" or tensor.data.size != shape[0] * shape[1]:
        found = f"the scales of blocks are {tensor.dtype}{list(tensor.shape)}"
        context.unsupported(f"{found}; expected {shape[0] * shape[1]} constants of float16", weights)
    scales = tensor.data.reshape(shape)
    if not (np.isfinite(scales) & (scales > 0)).all():
        context.unsupported("a block has a scale that is not positive and finite", weights)
    return Value(TensorType("float16", shape), tensor.name, scales)
