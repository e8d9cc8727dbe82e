"""Generators of reductions over dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np

from qimport.ir.graph import Array
from qimport.ir.types import INTEGER_RANGE, TensorType
from qimport.numerics import X86_NUMERICS
from tests.cases import Draw, add_tensor
from tests.flatbuffer_builder import ModelBuilder
from tests.one_operator.model import OneOperator, generator
from tests.single_op import quantized

SHAPES = (
    (1, 3, 4, 17),
    (2, 2, 5, 3),
    (1, 5, 1, 33),
    (2, 7, 5),
    (4, 37),
    (3, 1),
    (66,),
    (5,),
    (),
    (1, 2, 3, 2, 2),
    (2, 1, 3, 2, 1, 4),
    (1, 2, 1, 2, 1, 2, 3),
)


def random_values(draw: Draw, type_: TensorType) -> Array:
    """Elements of any type; floats of many magnitudes with some zeros of both signs."""
    if type_.dtype == "bool":
        return draw.rng.integers(0, 2, type_.shape).astype(bool)
    if type_.dtype != "float32":
        lowest, highest = INTEGER_RANGE[type_.dtype]
        return draw.rng.integers(lowest, highest, type_.shape, endpoint=True).astype(type_.dtype)
    values = draw.rng.normal(0, 1, type_.shape) * np.exp(draw.rng.normal(0, 2, type_.shape))
    zeros = draw.rng.random(type_.shape) < 0.1
    return np.where(zeros, draw.rng.choice([0.0, -0.0], type_.shape), values).astype(np.float32)


def axes_of(draw: Draw, rank: int) -> tuple[list[int], Array]:
    """Reduced dimensions, and how the file states them: any order, negative, repeated, a scalar."""
    least = min(rank, 0 if draw.rng.random() < 0.1 else 1)
    chosen = draw.rng.permutation(rank)[: int(draw.rng.integers(least, rank + 1))]
    if rank == 4 and draw.pick(True, False, False):
        chosen = np.array([1, 2])
    stated = [int(a) - draw.pick(0, rank) for a in chosen]
    if stated and draw.pick(False, False, True):
        stated.append(stated[0])
    array = np.array(stated, np.int32)
    return [int(a) for a in chosen], array.reshape(()) if len(stated) == 1 and draw.pick(
        True, False
    ) else array


def reduction(draw: Draw, builtin: str, x: TensorType, out_scale: float | None = None) -> OneOperator:
    """One reduction of ``x``; the result is quantized like it unless it has a scale of its own."""
    axes, stated = axes_of(draw, len(x.shape))
    keep = bool(draw.pick(True, False))
    shape = tuple(1 if i in axes else size for i, size in enumerate(x.shape) if keep or i not in axes)
    out = x.with_shape(shape)
    if out_scale is not None:
        zero = 0 if x.dtype == "int16" else draw.zero_point(x.dtype)
        out = quantized(x.dtype, shape, out_scale, zero)
    model = ModelBuilder()
    index, result = add_tensor(model, x), add_tensor(model, out)
    axis = model.tensor(stated.shape, "int32", data=stated)
    model.operator(builtin, [index, axis], [result], 1, keep_dims=keep)
    values = random_values(draw, x)
    text = f"{builtin} of {x} over {stated.tolist()} -> {out}"
    modes = ("builtin", "xnnpack") if (builtin, x.dtype) == ("SUM", "int16") else X86_NUMERICS
    return OneOperator(model.build([index], [result]), ([values],), text, modes=modes)


def code_type(draw: Draw, dtype: str) -> TensorType:
    """A quantized type."""
    shape = draw.pick(*SHAPES)
    return quantized(dtype, shape, draw.scale(), 0) if dtype == "int16" else draw.tensor(dtype, shape)


def _register(builtin: str, dtype: str, rescaled: bool) -> None:
    @generator(f"{builtin} {dtype}")
    def make(draw: Draw) -> OneOperator:
        if dtype not in ("int8", "uint8", "int16"):
            return reduction(draw, builtin, TensorType(dtype, draw.pick(*SHAPES)))
        x = code_type(draw, dtype)
        ratio: Any = draw.pick(None, 1, 1, 0.7, 0.1, 3, 40, 300, 0.001) if rescaled else None
        return reduction(draw, builtin, x, None if ratio is None else draw.near(x.quant.scale * ratio))


for _dtype in ("int8", "uint8", "int16", "int32", "int64", "float32"):
    for _builtin in ("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN"):
        _register(_builtin, _dtype, _builtin in ("MEAN", "SUM"))
for _dtype in ("int8", "int16", "int32", "int64", "float32"):
    _register("REDUCE_PROD", _dtype, True)
for _builtin in ("REDUCE_ANY", "REDUCE_ALL", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD", "SUM"):
    _register(_builtin, "bool", False)
