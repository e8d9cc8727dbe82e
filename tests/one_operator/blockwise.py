"""FULLY_CONNECTED and EMBEDDING_LOOKUP of int4 weights with a scale per block."""

from __future__ import annotations

import numpy as np

from tests.cases import ACTIVATIONS, Draw, add_tensor
from tests.flatbuffer_builder import ModelBuilder
from tests.one_operator.float_weighted import known
from tests.one_operator.hybrid import activations
from tests.one_operator.model import OneOperator, generator


def block_scales(draw: Draw, outputs: int, blocks: int) -> np.ndarray:
    """float16 scales of near or of far apart magnitude, seldom subnormal."""
    low = draw.pick(0.01, 1e-4, 1e-7)
    drawn = np.exp(draw.rng.uniform(np.log(low), np.log(1.0), (outputs, blocks)))
    return np.maximum(drawn.astype(np.float16), np.float16(6e-8))


@generator("FULLY_CONNECTED blockwise")
def dense(draw: Draw) -> OneOperator:
    """Blocks that the delegate takes and others, odd ones too; shapes that classic kernels do not know."""
    block = int(draw.pick(32, 32, 64, 96, 16, 8, 4, 5, 1))
    depth = block * int(draw.rng.integers(1, 9))
    outputs, lead = int(draw.rng.integers(1, 20)), draw.pick((1,), (3,), (2, 3))
    model = ModelBuilder()
    x = activations(draw, (*lead, depth))
    limit = draw.pick(1, 8)
    codes = draw.rng.integers(-limit, min(limit, 7), (outputs, depth), endpoint=True)
    scales = block_scales(draw, outputs, depth // block)
    scales_at = model.tensor(scales.shape, "float16", data=scales)
    weights = model.tensor(codes.shape, "int4", data=codes, blockwise=(scales_at, -1, block))
    bias = known(draw, (outputs,)) if draw.pick(True, True, False) else None
    bias_at = -1 if bias is None else add_tensor(model, bias.type, bias.data)
    keep, activation = bool(draw.pick(True, False)), draw.pick(*ACTIVATIONS)
    rows = lead if keep else (int(np.prod(lead)),)
    x_at, out = add_tensor(model, x.type), model.tensor((*rows, outputs), "float32")
    model.operator(
        "FULLY_CONNECTED",
        [x_at, weights, bias_at],
        [out],
        9,
        fused_activation_function=activation,
        keep_num_dims=keep,
        asymmetric_quantize_inputs=bool(draw.pick(True, False)),
    )
    assert x.value is not None
    inputs = [x.value] if bias is None or bias.value is None else [x.value, bias.value]
    fed = [x_at] if len(inputs) == 1 else [x_at, bias_at]
    text = f"{lead} x {codes.shape} in blocks of {block}, {activation}"
    return OneOperator(model.build(fed, [out]), (inputs,), text)


@generator("EMBEDDING_LOOKUP blockwise")
def lookup(draw: Draw) -> OneOperator:
    """Rows of a table; the indices are fed."""
    block, count, rows = (
        int(draw.pick(32, 8, 4, 2)),
        int(draw.rng.integers(1, 5)),
        int(draw.rng.integers(1, 9)),
    )
    codes = draw.rng.integers(-8, 7, (rows, block * count), endpoint=True)
    scales, model = block_scales(draw, rows, count), ModelBuilder()
    scales_at = model.tensor(scales.shape, "float16", data=scales)
    table = model.tensor(codes.shape, "int4", data=codes, blockwise=(scales_at, -1, block))
    indices = draw.rng.integers(0, rows, int(draw.rng.integers(1, 6))).astype(np.int32)
    x, out = model.tensor(indices.shape, "int32"), model.tensor((len(indices), codes.shape[1]), "float32")
    model.operator("EMBEDDING_LOOKUP", [x, table], [out], 4)
    return OneOperator(model.build([x], [out]), ([indices],), f"{codes.shape} in blocks of {block}")
