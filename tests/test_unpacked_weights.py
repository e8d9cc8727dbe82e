"""Float operators whose weights and biases a DEQUANTIZE unpacks: the delegate takes some of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import qimport
from qimport.numerics import X86_NUMERICS
from qimport.oracle import Oracle, random_inputs
from qimport.verify import verify_model
from tests.flatbuffer_builder import ModelBuilder
from tests.importer_models import T

WINDOW = {"padding": "SAME", "stride_w": 1, "stride_h": 1}
OPERATORS: dict[str, tuple[tuple[int, ...], int, dict[str, Any]]] = {
    "CONV_2D": ((4, 3, 3, 3), 0, WINDOW),
    "DEPTHWISE_CONV_2D": ((1, 3, 3, 6), 3, {**WINDOW, "depth_multiplier": 2}),
    "FULLY_CONNECTED": ((4, 3), 0, {"keep_num_dims": True}),
}
"""Operator -> shape of the weights, dimension of its channels, options."""

STORED = ("float32", "float16", "int8", "int8 per channel", "uint8")


def unpacked(model: ModelBuilder, shape: tuple[int, ...], stored: str, axis: int, name: str) -> int:
    """A float32 tensor that is stored as it is, or as something else that DEQUANTIZE unpacks."""
    rng = np.random.default_rng(len(shape))
    if stored == "float32":
        return T(shape, "float32", None, data=rng.normal(size=shape), name=name).add(model)
    dtype, _, channels = stored.partition(" ")
    count = shape[axis] if channels else 1
    data = rng.normal(size=shape) if dtype == "float16" else rng.integers(0, 127, shape)
    scale = None if dtype == "float16" else [0.01 * (1 + i) for i in range(count)]
    packed = T(shape, dtype, scale, [0] * count if channels else 0, axis, data, f"{name} stored").add(model)
    out = T(shape, "float32", None, name=name).add(model)
    model.operator("DEQUANTIZE", [packed], [out], 5 if channels else 3)
    return out


def unpacked_file(builtin: str, weights: str, bias: str) -> bytes:
    """One operator on an image of 3 channels."""
    shape, axis, options = OPERATORS[builtin]
    model = ModelBuilder()
    x = T((1, 6, 6, 3), "float32", None, name="x").add(model)
    w = unpacked(model, shape, weights, axis, "w")
    b = unpacked(model, (shape[axis],), bias, 0, "b")
    y = T((1, 6, 6, shape[axis]), "float32", None, name="y").add(model)
    model.operator(builtin, [x, w, b], [y], **options)
    return model.build([x], [y])


@pytest.mark.parametrize("builtin", OPERATORS)
@pytest.mark.parametrize("weights", STORED)
def test_unpacked_weights_give_the_bytes_of_every_mode(builtin: str, weights: str, oracle: Oracle) -> None:
    for bias in ("float32", "float16", "int8"):
        file = unpacked_file(builtin, weights, bias)
        for numerics in X86_NUMERICS:
            model = qimport.compile(file, numerics=numerics)
            inputs = random_inputs(model.inputs, 0)
            (expected,) = oracle.run(file, inputs, numerics).outputs
            (found,) = model.run(inputs)
            assert found.tobytes() == expected.tobytes(), (bias, numerics)


def test_weights_that_the_delegate_unpacks_are_not_compared(oracle: Oracle) -> None:
    """It never stores them where the interpreter could show them."""
    file = unpacked_file("CONV_2D", "int8", "float32")
    assert verify_model(file, oracle, numerics="xnnpack", per_layer=True).equal
