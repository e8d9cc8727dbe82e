"""Operators that copy elements to or from places that other tensors say."""

from __future__ import annotations

import numpy as np

from qimport.ir.types import Quantization, TensorType
from tests.cases import Draw, Operand
from tests.one_operator.model import OneOperator, generator
from tests.one_operator.movement import box
from tests.one_operator.moving import (
    ALL,
    COMMON,
    constant,
    content,
    fed,
    indices,
    moved,
    shape_of,
    tensor,
)

INDEX_TYPES = ("int32", "int64", "int16")


@generator("GATHER")
def gather(draw: Draw) -> OneOperator:
    x = tensor(draw, draw.pick(*COMMON, "float16"), shape_of(draw, most=5, limit=300))
    axis = int(draw.rng.integers(len(x.shape)))
    batch = int(draw.rng.integers(axis + 1)) if draw.rng.random() < 0.4 else 0
    free = shape_of(draw, least=0, most=3 - min(batch, 2), limit=8)
    picks = draw.rng.integers(0, x.shape[axis], (*x.shape[:batch], *free))
    shape = (*x.shape[:axis], *free, *x.shape[axis + 1 :])
    chosen = indices(draw, picks, draw.pick(*INDEX_TYPES))
    stated = axis - len(x.shape) * int(draw.rng.integers(2))
    operands = [fed(draw, x), chosen]
    result = tensor(draw, x.dtype, shape)
    return moved("GATHER", 4, operands, [result], axis=stated, batch_dims=batch)


@generator("GATHER_ND")
def gather_nd(draw: Draw) -> OneOperator:
    x = tensor(draw, draw.pick(*COMMON, "float16"), shape_of(draw, most=5, limit=300))
    depth = int(draw.rng.integers(1, len(x.shape) + 1))
    free = shape_of(draw, least=0, most=3, limit=10)
    picks = draw.rng.integers(0, x.shape[:depth], (*free, depth))
    result = tensor(draw, x.dtype, (*free, *x.shape[depth:]))
    return moved("GATHER_ND", 3, [fed(draw, x), indices(draw, picks, draw.pick(*INDEX_TYPES))], [result])


@generator("SCATTER_ND")
def scatter_nd(draw: Draw) -> OneOperator:
    dtype = draw.pick("int8", "uint8", "int32", "int64", "bool", "float32")
    shape = shape_of(draw, most=4, limit=400)
    depth = int(draw.rng.integers(1, len(shape) + 1))
    free = shape_of(draw, most=2, limit=12)
    picks = draw.rng.integers(0, shape[:depth], (*free, depth))
    updates = fed(draw, tensor(draw, dtype, (*free, *shape[depth:])), finite=True)
    result = tensor(draw, dtype, shape)
    return moved("SCATTER_ND", 1, [indices(draw, picks, "int32"), updates, constant(shape)], [result])


@generator("SPARSE_TO_DENSE")
def sparse_to_dense(draw: Draw) -> OneOperator:
    """Places ascend, as the interpreter may demand."""
    dtype, kind = draw.pick("int8", "uint8", "int32", "int64", "float32"), draw.pick("int32", "int64")
    shape = shape_of(draw, most=4, limit=400)
    count = int(draw.rng.integers(1, min(int(np.prod(shape)), 9) + 1))
    flat = np.sort(draw.rng.permutation(int(np.prod(shape)))[:count])
    places = np.stack(np.unravel_index(flat, shape), -1)
    if len(shape) == 1:
        places = places[:, 0] if count > 1 or draw.rng.random() < 0.5 else places[0, 0]
    values = tensor(draw, dtype, () if draw.rng.random() < 0.3 else (count,))
    operands = [
        indices(draw, places, kind),
        constant(shape, kind),
        fed(draw, values),
        fed(draw, values.with_shape(())),
    ]
    return moved("SPARSE_TO_DENSE", 3, operands, [values.with_shape(shape)])


@generator("SLICE at run time")
def dynamic_slice(draw: Draw) -> OneOperator:
    shape = shape_of(draw, most=5)
    x, (begin, sizes) = tensor(draw, draw.pick(*ALL), shape), box(draw, shape)
    dtype = draw.pick("int32", "int64")
    first = constant(begin, dtype)
    operands = [fed(draw, x), Operand(first.type, value=first.data), constant(sizes, dtype)]
    return moved("SLICE", 5, operands, [tensor(draw, x.dtype, sizes)])


@generator("STRIDED_SLICE at run time")
def index(draw: Draw) -> OneOperator:
    """Single indices, and whole dimensions between them; too negative ones are clamped."""
    x = tensor(draw, draw.pick(*ALL), shape_of(draw, most=4))
    count = int(draw.rng.integers(1, len(x.shape) + 1))
    dropped = [axis for axis in range(count) if axis == count - 1 or draw.rng.random() < 0.5]
    begin = constant([int(draw.rng.integers(-size - 2, size)) for size in x.shape[:count]])
    kept = sum(1 << axis for axis in range(count) if axis not in dropped)
    masks = {"begin_mask": kept, "end_mask": kept, "shrink_axis_mask": sum(1 << axis for axis in dropped)}
    end = constant(np.asarray(begin.data) + 1)
    operands = [
        fed(draw, x),
        Operand(begin.type, value=begin.data),
        Operand(end.type, value=end.data),
        constant([1] * count),
    ]
    shape = [size for axis, size in enumerate(x.shape) if axis not in dropped]
    return moved("STRIDED_SLICE", 4, operands, [tensor(draw, x.dtype, shape)], **masks)


@generator("DYNAMIC_UPDATE_SLICE")
def dynamic_update_slice(draw: Draw) -> OneOperator:
    """The box may stick out."""
    shape = shape_of(draw, most=5)
    x, (_, sizes) = tensor(draw, draw.pick(*ALL), shape), box(draw, shape)
    begin = [int(draw.rng.integers(-2, size + 2)) for size in shape]
    place = indices(draw, begin, draw.pick("int32", "int64"))
    return moved("DYNAMIC_UPDATE_SLICE", 3, [fed(draw, x), fed(draw, x.with_shape(tuple(sizes))), place], [x])


@generator("REVERSE_SEQUENCE")
def reverse_sequence(draw: Draw) -> OneOperator:
    dtype = draw.pick("uint8", "int16", "int32", "int64", "float32")
    x = tensor(draw, dtype, shape_of(draw, least=2, most=5))
    batch, sequence = (int(axis) for axis in draw.rng.permutation(len(x.shape))[:2])
    lengths = draw.rng.integers(0, x.shape[sequence] + 1, x.shape[batch])
    operands = [fed(draw, x), indices(draw, lengths, draw.pick("int32", "int64"))]
    return moved("REVERSE_SEQUENCE", 1, operands, [x], seq_dim=sequence, batch_dim=batch)


@generator("ONE_HOT")
def one_hot(draw: Draw) -> OneOperator:
    """Some indices lie outside."""
    dtype = draw.pick("int8", "uint8", "int32", "int64", "bool", "float32")
    shape, depth = shape_of(draw, least=0, most=4, limit=60), int(draw.rng.integers(1, 9))
    picks = indices(draw, draw.rng.integers(-1, depth + 1, shape), draw.pick("int32", "int64"))
    axis = int(draw.rng.integers(len(shape) + 1))
    scalar = tensor(draw, dtype, ())
    stated = -1 if axis == len(shape) and draw.rng.random() < 0.5 else axis
    operands = [picks, constant(depth), fed(draw, scalar), fed(draw, scalar)]
    result = scalar.with_shape((*shape[:axis], depth, *shape[axis:]))
    return moved("ONE_HOT", 1, operands, [result], axis=stated)


@generator("EMBEDDING_LOOKUP")
def embedding_lookup(draw: Draw) -> OneOperator:
    """Rows as they are, or real values of int8 rows with one scale, or one each."""
    shape = shape_of(draw, least=2, most=4, limit=400)
    picks = constant(draw.rng.integers(0, shape[0], int(draw.rng.integers(1, 7))))
    rows = Operand(picks.type, value=picks.data)
    whole = (rows.type.shape[0], *shape[1:])
    if draw.rng.random() < 0.3:
        table = tensor(draw, draw.pick("int8", "uint8", "float32", "int32"), shape)
        return moved("EMBEDDING_LOOKUP", 3, [rows, fed(draw, table)], [table.with_shape(whole)])
    count = shape[0] if draw.rng.random() < 0.5 else 1
    scales = tuple(draw.scale() for _ in range(count))
    table = TensorType("int8", shape, Quantization(scales, (0,) * count, 0 if count > 1 else None))
    operand = Operand(table, data=content(draw, table))
    return moved("EMBEDDING_LOOKUP", 3, [rows, operand], [TensorType("float32", whole)])
