"""Models for the tests of the schema reader."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.flatbuffer_builder import ModelBuilder


def small_model() -> ModelBuilder:
    """A convolution with per-channel weights: tensors 0 (image), 1 (weights), 2 (bias), 3 (out)."""
    builder = ModelBuilder()
    x = builder.tensor((1, 4, 4, 2), "int8", 0.5, -3, name="image", shape_signature=(-1, 4, 4, 2))
    weights = np.arange(6, dtype=np.int8).reshape(3, 1, 1, 2)
    w = builder.tensor((3, 1, 1, 2), "int8", [0.1, 0.2, 0.3], data=weights, name="weights")
    b = builder.tensor((3,), "int32", [0.05, 0.1, 0.15], data=[1, -2, 3], name="bias")
    y = builder.tensor((1, 2, 4, 3), "int8", 0.25, 7, name="out")
    builder.operator(
        "CONV_2D", [x, w, b], [y], version=3,
        padding="SAME", stride_w=1, stride_h=2, fused_activation_function="RELU6",
    )  # fmt: skip
    return builder


def one_tensor(*args: Any, **options: Any) -> bytes:
    """A file whose only tensor is made by ``ModelBuilder.tensor(*args, **options)``."""
    builder = ModelBuilder()
    index = builder.tensor(*args, **options)
    return builder.build([index], [index])
