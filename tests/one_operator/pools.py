"""Generators of windows over images."""

from __future__ import annotations

import numpy as np

from qimport.ir.types import TensorType
from tests.cases import ACTIVATIONS, Draw, add_tensor, window_options
from tests.flatbuffer_builder import ModelBuilder
from tests.one_operator.model import OneOperator, generator
from tests.one_operator.reductions import random_values
from tests.single_op import quantized


def pool(draw: Draw, builtin: str, dtype: str) -> OneOperator:
    """A pooling operator; codes may be quantized unlike before and after where kernels allow it."""
    extent = (draw.pick(1, 2, 5, 9), draw.pick(1, 3, 6, 7))
    size = (draw.pick(1, 2, 3, 5, 9), draw.pick(1, 2, 3, 4, 7))
    if dtype == "float32":  # where a window is larger, the delegate's order of taps is not known
        size = (min(size[0], extent[0]), min(size[1], extent[1]))
    stride = (draw.pick(1, 1, 2, 3), draw.pick(1, 1, 2))
    padding, _, (height, width) = draw.window(extent, size, stride)
    channels = draw.pick(1, 3, 8, 17, 33)
    batch = draw.pick(1, 2)
    shape, result = (batch, *extent, channels), (batch, height, width, channels)
    x, out = TensorType(dtype, shape), TensorType(dtype, result)
    if dtype != "float32":
        zero = int(draw.rng.integers(-9, 9)) if dtype == "int16" else draw.zero_point(dtype)
        x = quantized(dtype, shape, draw.scale(0.001, 0.1), zero)
        alike = draw.pick(True, True, False)
        out = x.with_shape(result) if alike else quantized(dtype, result, draw.scale(0.001, 0.1), zero)
    model = ModelBuilder()
    source, target = add_tensor(model, x), add_tensor(model, out)
    activation = draw.pick("NONE", *ACTIVATIONS)
    options = window_options(
        padding, stride, activation=activation, filter_height=size[0], filter_width=size[1]
    )
    model.operator(builtin, [source], [target], 1, **options)
    values = random_values(draw, x)
    if dtype == "float32":
        values = values + np.float32(0)  # the sign of a zero among extrema depends on the vector unit
    return OneOperator(model.build([source], [target]), ([values],), f"{builtin} {x} -> {out} {options}")


def _register(builtin: str, dtype: str) -> None:
    @generator(f"{builtin} {dtype}")
    def make(draw: Draw) -> OneOperator:
        return pool(draw, builtin, dtype)


for _dtype in ("int8", "uint8", "int16", "float32"):
    _register("AVERAGE_POOL_2D", _dtype)
    _register("MAX_POOL_2D", _dtype)
_register("L2_POOL_2D", "float32")
