"""Operators that copy elements to places known when the file is written."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.cases import Draw
from tests.one_operator.model import OneOperator, generator
from tests.one_operator.moving import ALL, COMMON, constant, fed, moved, shape_of, tensor


@generator("TRANSPOSE")
def transpose(draw: Draw) -> OneOperator:
    x = tensor(draw, draw.pick(*ALL), shape_of(draw))
    order = draw.rng.permutation(len(x.shape))
    result = x.with_shape(tuple(x.shape[axis] for axis in order))
    return moved("TRANSPOSE", 4, [fed(draw, x), constant(order)], [result])


def box(draw: Draw, shape: tuple[int, ...]) -> tuple[list[int], list[int]]:
    """First indices and sizes of a part."""
    firsts = [int(draw.rng.integers(size)) if draw.rng.random() < 0.6 else 0 for size in shape]
    sizes = [int(draw.rng.integers(1, size - first + 1)) for first, size in zip(firsts, shape, strict=True)]
    return firsts, sizes


@generator("SLICE")
def slice_(draw: Draw) -> OneOperator:
    shape = shape_of(draw, most=5)
    x, (begin, sizes) = tensor(draw, draw.pick(*ALL), shape), box(draw, shape)
    to_end = [begin[k] + sizes[k] == size and draw.rng.random() < 0.5 for k, size in enumerate(shape)]
    stated = [-1 if flag else size for flag, size in zip(to_end, sizes, strict=True)]
    dtype = draw.pick("int32", "int64")
    operands = [fed(draw, x), constant(begin, dtype), constant(stated, dtype)]
    return moved("SLICE", 5, operands, [tensor(draw, x.dtype, sizes)])


@generator("STRIDED_SLICE")
def strided_slice(draw: Draw) -> OneOperator:
    """All masks; what the file says of the result is what NumPy gives."""
    shape = shape_of(draw, most=4)
    x = tensor(draw, draw.pick(*ALL), shape)
    while True:
        begin, end, strides, masks, key = _entries(draw, shape)
        result = np.empty(shape, np.int8)[key]
        if result.size:
            break
    operands = [fed(draw, x), constant(begin), constant(end), constant(strides)]
    return moved("STRIDED_SLICE", 4, operands, [tensor(draw, x.dtype, result.shape)], **masks)


def _entries(draw: Draw, shape: tuple[int, ...]) -> tuple[Any, ...]:
    begin, end, strides, key = [], [], [], []
    masks = dict.fromkeys(("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"), 0)
    taken = int(draw.rng.integers(1, len(shape) + 1))
    skipped = int(draw.rng.integers(taken + 1)) if draw.rng.random() < 0.4 else None
    axis, added = 0, 0
    while axis < len(shape) and (skipped is not None or axis < taken):
        size, entry = shape[axis], len(key)
        first, last = (int(n) for n in draw.rng.integers(-size - 1, size + 2, 2))
        stride = int(draw.pick(1, 1, 1, 2, 3, -1, -1, -2))
        if axis == skipped and not masks["ellipsis_mask"]:
            masks["ellipsis_mask"] |= 1 << entry
            idle = taken == len(shape)  # it then takes a dimension from the last entry
            key.append(slice(None) if idle else Ellipsis)
            axis += 1 if idle else len(shape) - taken
        elif added < 1 and len(shape) < 4 and draw.rng.random() < 0.1:
            masks["new_axis_mask"] |= 1 << entry
            key.append(None)
            added += 1
        elif draw.rng.random() < 0.25:
            first = int(draw.rng.integers(-size, size))
            stride, last = 1, first + 1
            masks["shrink_axis_mask"] |= 1 << entry
            key.append(first)
            axis += 1
        else:
            open_begin, open_end = (draw.rng.random() < 0.3 for _ in range(2))
            masks["begin_mask"] |= open_begin << entry
            masks["end_mask"] |= open_end << entry
            key.append(slice(None if open_begin else first, None if open_end else last, stride))
            axis += 1
        begin.append(first)
        end.append(last)
        strides.append(stride)
    if masks["ellipsis_mask"] and taken == len(shape):
        begin, end, strides = [*begin, 1], [*end, 1], [*strides, 1]
    return begin, end, strides, masks, tuple(key)


@generator("SPLIT")
def split(draw: Draw) -> OneOperator:
    shape = list(shape_of(draw))
    axis = int(draw.rng.integers(len(shape)))
    count = int(draw.rng.integers(1, 5))
    dtype = draw.pick("int8", "uint8", "int16", "int32", "int64", "float32")
    whole = tensor(draw, dtype, (*shape[:axis], shape[axis] * count, *shape[axis + 1 :]))
    stated = constant(axis - len(shape) * int(draw.rng.integers(2)))
    results = [tensor(draw, dtype, shape) for _ in range(count)]
    return moved("SPLIT", 4, [stated, fed(draw, whole)], results, num_splits=count)


@generator("SPLIT_V")
def split_v(draw: Draw) -> OneOperator:
    shape = list(shape_of(draw))
    axis = int(draw.rng.integers(len(shape)))
    sizes = [int(n) for n in draw.rng.integers(1, 6, int(draw.rng.integers(1, 5)))]
    dtype = draw.pick("int8", "uint8", "int16", "int32", "int64", "float32")
    whole = tensor(draw, dtype, (*shape[:axis], sum(sizes), *shape[axis + 1 :]))
    stated = list(sizes)
    if draw.rng.random() < 0.5:
        stated[int(draw.rng.integers(len(sizes)))] = -1
    results = [tensor(draw, dtype, (*shape[:axis], size, *shape[axis + 1 :])) for size in sizes]
    operands = [
        fed(draw, whole),
        constant(stated, draw.pick("int32", "int64")),
        constant(axis - len(shape) * int(draw.rng.integers(2))),
    ]
    return moved("SPLIT_V", 2, operands, results, num_splits=len(sizes))


@generator("UNPACK")
def unpack(draw: Draw) -> OneOperator:
    dtype = draw.pick("int8", "uint8", "int16", "int32", "bool", "float32", "float16")
    part = tensor(draw, dtype, shape_of(draw, least=0, most=5))
    axis, count = int(draw.rng.integers(len(part.shape) + 1)), int(draw.rng.integers(1, 5))
    whole = part.with_shape((*part.shape[:axis], count, *part.shape[axis:]))
    stated = axis - len(whole.shape) * int(draw.rng.integers(2))
    return moved("UNPACK", 4, [fed(draw, whole)], [part] * count, axis=stated, num=count)


@generator("PACK")
def pack(draw: Draw) -> OneOperator:
    dtype = draw.pick("int8", "uint8", "int16", "int32", "int64", "float32", "uint32")
    part = tensor(draw, dtype, shape_of(draw, least=0, most=5))
    axis, count = int(draw.rng.integers(len(part.shape) + 1)), int(draw.rng.integers(1, 6))
    whole = part.with_shape((*part.shape[:axis], count, *part.shape[axis:]))
    stated = axis - len(whole.shape) * int(draw.rng.integers(2))
    operands = [fed(draw, part) for _ in range(count)]
    return moved("PACK", 4, operands, [whole], axis=stated, values_count=count)


@generator("CONCATENATION moving")
def concatenation(draw: Draw) -> OneOperator:
    """Types and operands that are only copied."""
    dtype = draw.pick("int8", "uint8", *COMMON, "float16", "uint32")
    shape, count = shape_of(draw, limit=500), int(draw.rng.integers(1, 7))
    axis = int(draw.rng.integers(len(shape)))
    sizes = [int(n) for n in draw.rng.integers(1, 4, count)]
    whole = tensor(draw, dtype, (*shape[:axis], sum(sizes), *shape[axis + 1 :]))
    parts = [whole.with_shape((*shape[:axis], size, *shape[axis + 1 :])) for size in sizes]
    stated = axis - len(shape) * int(draw.rng.integers(2))
    return moved("CONCATENATION", 4, [fed(draw, part) for part in parts], [whole], axis=stated)


@generator("RESHAPE")
def reshape(draw: Draw) -> OneOperator:
    x = tensor(draw, draw.pick(*ALL), shape_of(draw, least=0))
    factors = [int(n) for n in draw.rng.permutation([*x.shape, 1])]
    wanted = list(factors)
    if draw.rng.random() < 0.5:
        wanted[int(draw.rng.integers(len(wanted)))] = -1
    return moved("RESHAPE", 1, [fed(draw, x), constant(wanted)], [x.with_shape(tuple(factors))])


@generator("SQUEEZE")
def squeeze(draw: Draw) -> OneOperator:
    x = tensor(draw, draw.pick(*ALL), (*shape_of(draw, most=4), 1))
    ones = [axis for axis, size in enumerate(x.shape) if size == 1]
    dropped = ones if draw.rng.random() < 0.4 else ones[: int(draw.rng.integers(1, len(ones) + 1))]
    stated = [axis - len(x.shape) * int(draw.rng.integers(2)) for axis in dropped]
    stated = [] if dropped == ones and draw.rng.random() < 0.5 else stated
    result = tuple(size for axis, size in enumerate(x.shape) if axis not in dropped)
    return moved("SQUEEZE", 1, [fed(draw, x)], [x.with_shape(result)], squeeze_dims=stated)


@generator("EXPAND_DIMS")
def expand_dims(draw: Draw) -> OneOperator:
    x = tensor(draw, draw.pick(*ALL), shape_of(draw, least=0, most=5))
    axis = int(draw.rng.integers(len(x.shape) + 1))
    result = x.with_shape((*x.shape[:axis], 1, *x.shape[axis:]))
    stated = axis - len(result.shape) * int(draw.rng.integers(2))
    return moved("EXPAND_DIMS", 1, [fed(draw, x), constant(stated, draw.pick("int32", "int64"))], [result])


@generator("REVERSE_V2")
def reverse(draw: Draw) -> OneOperator:
    x = tensor(draw, draw.pick(*COMMON, "float16"), shape_of(draw))
    rank = len(x.shape)
    first = int(draw.rng.integers(rank))
    axes = np.arange(first, int(draw.rng.integers(first, rank)) + 1)
    result = tensor(draw, x.dtype, x.shape)
    return moved("REVERSE_V2", 3, [fed(draw, x), constant(axes)], [result])


@generator("TILE")
def tile(draw: Draw) -> OneOperator:
    x = tensor(draw, draw.pick(*ALL), shape_of(draw, limit=100))
    counts = [int(draw.pick(1, 1, 2, 3)) for _ in x.shape]
    result = tensor(draw, x.dtype, tuple(a * b for a, b in zip(x.shape, counts, strict=True)))
    return moved("TILE", 2, [fed(draw, x), constant(counts, draw.pick("int32", "int64"))], [result])


@generator("BROADCAST_TO")
def broadcast_to(draw: Draw) -> OneOperator:
    shape = shape_of(draw)
    own = [1 if draw.rng.random() < 0.4 else size for size in shape][int(draw.rng.integers(len(shape))) :]
    x = tensor(draw, draw.pick(*ALL), own)
    operands = [fed(draw, x), constant(shape, draw.pick("int32", "int64"))]
    return moved("BROADCAST_TO", 3, operands, [x.with_shape(shape)])


@generator("FILL")
def fill(draw: Draw) -> OneOperator:
    shape = shape_of(draw)
    x = tensor(draw, draw.pick(*ALL), ())
    operands = [constant(shape, draw.pick("int32", "int64")), fed(draw, x)]
    return moved("FILL", 3, operands, [x.with_shape(shape)])


@generator("ZEROS_LIKE")
def zeros_like(draw: Draw) -> OneOperator:
    x = tensor(draw, draw.pick("int32", "int64", "float32"), shape_of(draw, least=0))
    return moved("ZEROS_LIKE", 1, [fed(draw, x)], [x])


def margins(draw: Draw, shape: tuple[int, ...], limit: Any) -> np.ndarray[Any, Any]:
    """Two counts per dimension."""
    return np.array([[min(int(draw.pick(0, 0, 1, 2, 5)), limit(size)) for _ in range(2)] for size in shape])


@generator("PAD moving")
def pad(draw: Draw) -> OneOperator:
    shape = shape_of(draw, most=5, limit=150)
    x = tensor(draw, draw.pick(*COMMON, "float16"), shape)
    pads = margins(draw, shape, lambda size: 3)
    result = tensor(draw, x.dtype, tuple(int(n) for n in np.array(shape) + pads.sum(1)))
    operands = [fed(draw, x), constant(pads, draw.pick("int32", "int64"))]
    return moved("PAD", 4, operands, [result])


@generator("PADV2 moving")
def padv2(draw: Draw) -> OneOperator:
    shape = shape_of(draw, most=5, limit=150)
    x = tensor(draw, draw.pick(*COMMON, "float16"), shape)
    pads = margins(draw, shape, lambda size: 3)
    result = x.with_shape(tuple(int(n) for n in np.array(shape) + pads.sum(1)))
    value = fed(draw, x.with_shape(()), finite=True)
    if x.dtype.startswith("float") and draw.rng.random() < 0.4 and value.value is not None:
        value.value[...] = -0.0
    if draw.rng.random() < 0.7:
        value = type(value)(value.type, data=value.value)
    operands = [fed(draw, x), constant(pads, draw.pick("int32", "int64")), value]
    return moved("PADV2", 4, operands, [result])


@generator("MIRROR_PAD")
def mirror_pad(draw: Draw) -> OneOperator:
    shape = shape_of(draw, most=5, limit=150)
    x, mode = tensor(draw, draw.pick(*ALL), shape), draw.pick("REFLECT", "SYMMETRIC")
    pads = margins(draw, shape, lambda size: size - (mode == "REFLECT"))
    result = x.with_shape(tuple(int(n) for n in np.array(shape) + pads.sum(1)))
    operands = [fed(draw, x), constant(pads, draw.pick("int32", "int64"))]
    return moved("MIRROR_PAD", 3, operands, [result], mode=mode)


@generator("SPACE_TO_DEPTH")
def space_to_depth(draw: Draw) -> OneOperator:
    batch, height, width, channels = (int(n) for n in draw.rng.integers(1, 5, 4))
    block, dtype = int(draw.pick(1, 2, 3, 4)), draw.pick("int8", "uint8", "int32", "int64", "float32")
    x = tensor(draw, dtype, (batch, height * block, width * block, channels))
    result = tensor(draw, dtype, (batch, height, width, channels * block * block))
    return moved("SPACE_TO_DEPTH", 2, [fed(draw, x)], [result], block_size=block)


@generator("DEPTH_TO_SPACE")
def depth_to_space(draw: Draw) -> OneOperator:
    batch, height, width, channels = (int(n) for n in draw.rng.integers(1, 5, 4))
    block, dtype = int(draw.pick(1, 2, 3, 4)), draw.pick("int8", "uint8", "int32", "int64", "float32")
    x = tensor(draw, dtype, (batch, height, width, channels * block * block))
    result = x.with_shape((batch, height * block, width * block, channels))
    return moved("DEPTH_TO_SPACE", 1, [fed(draw, x)], [result], block_size=block)


def blocks(draw: Draw) -> tuple[list[int], list[int], list[list[int]], list[int]]:
    """Inner sizes in blocks, block sizes, margins, outer sizes."""
    count = int(draw.pick(1, 2, 2))
    sizes, block = ([int(n) for n in draw.rng.integers(low, 5, count)] for low in (2, 1))
    margin = [[int(n) for n in draw.rng.integers(0, b + 1, 2)] for b in block]
    return sizes, block, margin, [int(n) for n in draw.rng.integers(1, 4, 2)]


@generator("SPACE_TO_BATCH_ND")
def space_to_batch(draw: Draw) -> OneOperator:
    sizes, block, margin, (batch, channels) = blocks(draw)
    inner = [max(n * b - sum(m), 1) for n, b, m in zip(sizes, block, margin, strict=True)]
    margin = [[n * b - i - m[1], m[1]] for n, b, m, i in zip(sizes, block, margin, inner, strict=True)]
    margin = [[max(a, 0), b + min(a, 0)] for a, b in margin]
    x = tensor(draw, draw.pick(*ALL), (batch, *inner, channels))
    result = x.with_shape((batch * int(np.prod(block)), *sizes, channels))
    return moved("SPACE_TO_BATCH_ND", 3, [fed(draw, x), constant(block), constant(margin)], [result])


@generator("BATCH_TO_SPACE_ND")
def batch_to_space(draw: Draw) -> OneOperator:
    sizes, block, margin, (batch, channels) = blocks(draw)
    merged = [n * b for n, b in zip(sizes, block, strict=True)]
    margin = [m if sum(m) < n else [0, 0] for m, n in zip(margin, merged, strict=True)]
    x = tensor(draw, draw.pick(*ALL), (batch * int(np.prod(block)), *sizes, channels))
    inner = [n - sum(m) for n, m in zip(merged, margin, strict=True)]
    operands = [fed(draw, x), constant(block), constant(margin)]
    return moved("BATCH_TO_SPACE_ND", 3, operands, [x.with_shape((batch, *inner, channels))])


DIAGONAL = ("int8", "uint8", "int16", "int32", "int64", "uint32", "float32")
"""Element types for which the interpreter computes anything."""


@generator("MATRIX_DIAG")
def matrix_diag(draw: Draw) -> OneOperator:
    x = tensor(draw, draw.pick(*DIAGONAL), shape_of(draw, most=4, limit=80))
    return moved("MATRIX_DIAG", 1, [fed(draw, x)], [x.with_shape((*x.shape, x.shape[-1]))])


@generator("MATRIX_SET_DIAG")
def matrix_set_diag(draw: Draw) -> OneOperator:
    x = tensor(draw, draw.pick(*DIAGONAL), shape_of(draw, least=2, most=5, limit=400))
    diagonal = x.with_shape((*x.shape[:-2], min(x.shape[-2:])))
    return moved("MATRIX_SET_DIAG", 1, [fed(draw, x), fed(draw, diagonal)], [x])
