"""Generators of resized images."""

from __future__ import annotations

import numpy as np

from qimport.ir.types import TensorType
from tests.cases import Draw, add_tensor
from tests.flatbuffer_builder import ModelBuilder
from tests.one_operator.model import OneOperator, generator
from tests.one_operator.reductions import random_values
from tests.single_op import quantized


def resize(draw: Draw, builtin: str, dtype: str) -> OneOperator:
    """A new size, smaller or larger; twice the size now and then."""
    extent = (draw.pick(1, 2, 3, 5, 8), draw.pick(1, 2, 4, 7))
    size = (draw.pick(1, 2, 5, 9, 11), draw.pick(1, 3, 7, 8))
    if draw.pick(True, False, False):
        size = (2 * extent[0], 2 * extent[1])
    batch, channels = draw.pick(1, 1, 2), draw.pick(1, 3, 8, 19)
    x = TensorType(dtype, (batch, *extent, channels))
    if dtype in ("int8", "uint8", "int16"):
        zero = 0 if dtype == "int16" else draw.zero_point(dtype)
        x = quantized(dtype, x.shape, draw.scale(), zero)
    out = x.with_shape((batch, *size, channels))
    model = ModelBuilder()
    source, target = add_tensor(model, x), add_tensor(model, out)
    wanted = model.tensor((2,), "int32", data=np.array(size, np.int32))
    alignment = draw.pick({}, {"align_corners": True}, {"half_pixel_centers": True})
    model.operator(builtin, [source, wanted], [target], 3, **alignment)
    values = random_values(draw, x)
    return OneOperator(model.build([source], [target]), ([values],), f"{builtin} {x} -> {out} {alignment}")


def _register(builtin: str, dtype: str) -> None:
    @generator(f"{builtin} {dtype}")
    def make(draw: Draw) -> OneOperator:
        return resize(draw, builtin, dtype)


for _dtype in ("int8", "uint8", "int16", "float32"):
    _register("RESIZE_BILINEAR", _dtype)
for _dtype in ("int8", "uint8", "int16", "int32", "float32", "bool"):
    _register("RESIZE_NEAREST_NEIGHBOR", _dtype)
