"""Operators that copy elements of any type, and operators with several results."""

from __future__ import annotations

import numpy as np

from qimport.ir.types import TensorType
from tests.mixed_graphs.model import ALL, CODES, INTEGERS, MixedModel, old_step, step
from tests.random_models import DoesNotFit, RandomModel, Tensor

NUMBERS = (*CODES, *INTEGERS, "float32")
WIDE = ("int16", *INTEGERS, "float32", "bool")

step(*WIDE, weight=2)(old_step(RandomModel.reshape))
step(*WIDE)(old_step(RandomModel.part))
step("float32", weight=2)(old_step(RandomModel.pad))


@step("int16", *INTEGERS, "bool")
def pad(g: MixedModel, x: Tensor) -> None:
    """PAD."""
    if not 1 <= len(x.type.shape) <= 4:
        raise DoesNotFit
    counts = g.draw.rng.integers(0, 3, (len(x.type.shape), 2))
    out = x.type.with_shape(tuple(int(n) for n in np.array(x.type.shape) + counts.sum(1)))
    g.emit("PAD", [x, g.integers(counts)], out)


@step(*ALL, weight=2)
def transpose(g: MixedModel, x: Tensor) -> None:
    """TRANSPOSE."""
    order = [int(i) for i in g.draw.rng.permutation(len(x.type.shape))]
    if not order:
        raise DoesNotFit
    g.emit("TRANSPOSE", [x, g.integers(order)], x.type.with_shape(tuple(x.type.shape[i] for i in order)))


@step(*ALL)
def slice_(g: MixedModel, x: Tensor) -> None:
    """SLICE."""
    if not x.type.shape:
        raise DoesNotFit
    begin = [int(g.draw.rng.integers(n)) if g.draw.pick(True, False) else 0 for n in x.type.shape]
    size = [int(g.draw.rng.integers(1, n - b + 1)) for b, n in zip(begin, x.type.shape, strict=True)]
    g.emit("SLICE", [x, g.integers(begin), g.integers(size)], x.type.with_shape(tuple(size)))


def along(x: Tensor, axis: int, size: int) -> TensorType:
    """The type with another size of one dimension."""
    return x.type.with_shape((*x.type.shape[:axis], size, *x.type.shape[axis + 1 :]))


@step(*NUMBERS, weight=2)
def split(g: MixedModel, x: Tensor) -> None:
    """SPLIT and SPLIT_V, sometimes followed by a concatenation of the parts."""
    axis = g.axis(x)
    size = x.type.shape[axis]
    if g.draw.pick(True, False):
        counts = [n for n in (1, 2, 3, 4) if size % n == 0]
        count = counts[-1] if g.draw.pick(True, False) else g.draw.pick(*counts)
        parts = g.emit_results(
            "SPLIT", [g.integers([axis]), x], [along(x, axis, size // count)] * count, num_splits=count
        )
    else:
        cuts = sorted({int(n) for n in g.draw.rng.integers(1, size, 2)}) if size > 1 else []
        sizes = [b - a for a, b in zip([0, *cuts], [*cuts, size], strict=True)]
        operands = [x, g.integers(sizes), g.integers([axis])]
        types = [along(x, axis, n) for n in sizes]
        parts = g.emit_results("SPLIT_V", operands, types, num_splits=len(sizes))
    if g.draw.pick(True, False):
        used = [parts[int(i)] for i in g.draw.rng.integers(len(parts), size=len(parts) + 1)]
        total = sum(part.type.shape[axis] for part in used)
        g.emit("CONCATENATION", used, along(x, axis, total), axis=axis)


@step("int8", "uint8", "int16", "int32", "float32", "bool")
def unpack(g: MixedModel, x: Tensor) -> None:
    """UNPACK, and PACK of some of the parts."""
    axis = g.axis(x)
    count = x.type.shape[axis]
    if count > 6:
        raise DoesNotFit
    rest = x.type.with_shape((*x.type.shape[:axis], *x.type.shape[axis + 1 :]))
    parts = g.emit_results("UNPACK", [x], [rest] * count, axis=axis, num=count)
    if x.type.dtype != "bool" and g.draw.pick(True, False):
        pack(g, g.draw.pick(*parts))


@step(*NUMBERS)
def pack(g: MixedModel, x: Tensor) -> None:
    """PACK."""
    parts = [x, *(g.alike(x) for _ in range(g.draw.pick(0, 1, 2)))]
    axis = int(g.draw.rng.integers(len(x.type.shape) + 1))
    out = x.type.with_shape((*x.type.shape[:axis], len(parts), *x.type.shape[axis:]))
    order = g.draw.rng.permutation(len(parts))
    g.emit("PACK", [parts[i] for i in order], out, axis=axis, values_count=len(parts))


@step(*WIDE, weight=2)
def concat(g: MixedModel, x: Tensor) -> None:
    """CONCATENATION."""
    axis = g.axis(x)
    sizes = [g.draw.pick(x.type.shape[axis], 1, 3) for _ in range(g.draw.pick(0, 1, 1, 2, 5))]
    parts = [x, *(g.partner(x, along(x, axis, n).shape, x.type) for n in sizes)]
    out = along(x, axis, sum(part.type.shape[axis] for part in parts))
    g.emit("CONCATENATION", [parts[i] for i in g.draw.rng.permutation(len(parts))], out, axis=axis)


@step(*ALL)
def tile(g: MixedModel, x: Tensor) -> None:
    """TILE."""
    if not x.type.shape:
        raise DoesNotFit
    counts = [int(g.draw.pick(1, 1, 2, 3)) for _ in x.type.shape]
    out = x.type.with_shape(tuple(a * b for a, b in zip(x.type.shape, counts, strict=True)))
    g.emit("TILE", [x, g.integers(counts)], out)


@step(*ALL)
def mirror_pad(g: MixedModel, x: Tensor) -> None:
    """MIRROR_PAD."""
    mode = g.draw.pick("REFLECT", "SYMMETRIC")
    if not x.type.shape:
        raise DoesNotFit
    most = [min(n - (mode == "REFLECT"), 2) for n in x.type.shape]
    counts = np.array([g.draw.rng.integers(0, n + 1, 2) for n in most])
    out = x.type.with_shape(tuple(int(n) for n in np.array(x.type.shape) + counts.sum(1)))
    g.emit("MIRROR_PAD", [x, g.integers(counts)], out, mode=mode)


@step(*ALL, weight=2)
def gather(g: MixedModel, x: Tensor) -> None:
    """GATHER by constant indices, or by those that ARG_MAX found in another tensor."""
    axis = g.axis(x)
    size = x.type.shape[axis]
    found = [t for t in (*g.computed, *g.inputs) if t.type.dtype in ("int8", "float32", "int32")]
    found = [t for t in found if t.type.shape and t.type.shape[-1] <= size and len(t.type.shape) < 3]
    if found and g.draw.pick(True, False):
        place = arg(g, g.draw.pick(*found), -1)
        picks: Tensor | int = place
        shape = place.type.shape
    else:
        shape = (int(g.draw.pick(1, 2, 5)),)
        picks = g.integers(g.draw.rng.integers(0, size, shape))
    out = x.type.with_shape((*x.type.shape[:axis], *shape, *x.type.shape[axis + 1 :]))
    g.emit("GATHER", [x, picks], out, axis=axis, batch_dims=0)


def arg(g: MixedModel, x: Tensor, axis: int) -> Tensor:
    """ARG_MAX or ARG_MIN along a dimension."""
    shape = list(x.type.shape)
    del shape[axis]
    dtype = g.draw.pick(*INTEGERS)
    out = TensorType(dtype, tuple(shape))
    return g.emit(g.draw.pick("ARG_MAX", "ARG_MIN"), [x, g.integers([axis])], out, output_type=dtype.upper())


@step("int8", "uint8", "int32", "float32")
def arg_step(g: MixedModel, x: Tensor) -> None:
    """ARG_MAX, ARG_MIN."""
    arg(g, x, g.axis(x))


@step(*NUMBERS)
def top_k(g: MixedModel, x: Tensor) -> None:
    """TOPK_V2, of which often only one result is read."""
    g.axis(x)
    k = int(g.draw.rng.integers(1, x.type.shape[-1] + 1))
    shape = (*x.type.shape[:-1], k)
    g.emit_results("TOPK_V2", [x, g.integers(k)], [x.type.with_shape(shape), TensorType("int32", shape)])


@step(*INTEGERS, "float32")
def cumulate(g: MixedModel, x: Tensor) -> None:
    """CUMSUM."""
    axis = g.axis(x)
    options = {"exclusive": bool(g.draw.pick(True, False)), "reverse": bool(g.draw.pick(True, False))}
    limit = g.limit(x) * x.type.shape[axis] if x.type.dtype == "float32" else None
    g.emit("CUMSUM", [x, g.integers(axis)], x.type, limit=limit, **options)


@step(*ALL)
def reverse(g: MixedModel, x: Tensor) -> None:
    """REVERSE_V2 along one dimension."""
    g.emit("REVERSE_V2", [x, g.integers([g.axis(x)])], x.type)


@step(*ALL)
def broadcast(g: MixedModel, x: Tensor) -> None:
    """BROADCAST_TO one more dimension."""
    shape = (int(g.draw.pick(1, 2, 3)), *x.type.shape)
    g.emit("BROADCAST_TO", [x, g.integers(shape)], x.type.with_shape(shape))


@step(*CODES, "float32", "int32")
def resize(g: MixedModel, x: Tensor) -> None:
    """RESIZE_BILINEAR, RESIZE_NEAREST_NEIGHBOR."""
    batch, height, width, channels = g.image(x)
    name = (
        "RESIZE_NEAREST_NEIGHBOR"
        if x.type.dtype == "int32"
        else g.draw.pick("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR")
    )
    size = g.draw.pick((2 * height, 2 * width), (3, 5), (height, width), (1, 2))
    alignment = g.draw.pick({}, {"align_corners": True}, {"half_pixel_centers": True})
    g.emit(name, [x, g.integers(size)], x.type.with_shape((batch, *size, channels)), **alignment)


@step("int8", "uint8", *INTEGERS, "float32")
def blocks(g: MixedModel, x: Tensor) -> None:
    """SPACE_TO_DEPTH, DEPTH_TO_SPACE."""
    batch, height, width, channels = g.image(x)
    if height % 2 == 0 and width % 2 == 0:
        out = x.type.with_shape((batch, height // 2, width // 2, channels * 4))
        g.emit("SPACE_TO_DEPTH", [x], out, block_size=2)
    elif channels % 4 == 0:
        out = x.type.with_shape((batch, height * 2, width * 2, channels // 4))
        g.emit("DEPTH_TO_SPACE", [x], out, block_size=2)
    else:
        raise DoesNotFit


@step(*ALL)
def update(g: MixedModel, x: Tensor) -> None:
    """DYNAMIC_UPDATE_SLICE at a constant or computed place."""
    if not x.type.shape:
        raise DoesNotFit
    part = tuple(int(g.draw.rng.integers(1, n + 1)) for n in x.type.shape)
    places = [t for t in g.computed if t.type == TensorType("int32", (len(part),))]
    place = g.draw.pick(*places) if places else g.integers(g.draw.rng.integers(-1, 4, len(part)))
    g.emit("DYNAMIC_UPDATE_SLICE", [x, g.partner(x, part, x.type), place], x.type)
