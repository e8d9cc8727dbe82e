"""Weighted operators beyond 8-bit activations: 16x8, float32, hybrid."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from qimport.ir.graph import Array
from qimport.ir.types import Quantization, TensorType
from tests.cases import add_tensor
from tests.mixed_graphs.model import LARGEST_FED, MixedModel, old_step, step
from tests.random_models import MOST_ELEMENTS, DoesNotFit, RandomModel, Tensor
from tests.single_op import quantized

step("int16", "float32", weight=3)(old_step(RandomModel.convolution))
step("int16", "float32", weight=2)(old_step(RandomModel.dense))


def weighted16(
    g: MixedModel,
    name: str,
    x: Tensor,
    shape: tuple[int, ...],
    axis: int,
    taps: int,
    result: tuple[int, ...],
    **options: Any,
) -> None:
    """int16 activations, int8 weights, an int64 bias."""
    if math.prod(shape) > MOST_ELEMENTS:
        raise DoesNotFit
    w = g.draw.weights("int8", shape, axis, g.draw.pick(True, False))
    assert w.data is not None
    scales = [float(np.float32(x.type.quant.scale * s)) for s in w.type.quant.scales]
    data = g.draw.rng.integers(-(10**6), 10**6, shape[axis])
    bias = g.model.tensor((shape[axis],), "int64", scales, data=data)
    spread = float(np.std(w.data.astype(np.float64))) * 9000 * np.sqrt(taps) + 1
    scale = x.type.quant.scale * float(np.median(w.type.quant.scales)) * spread / 12000
    # The kernels shift right only.
    least = x.type.quant.scale * max(w.type.quant.scales) / 2**13
    out = quantized("int16", result, max(g.draw.near(scale), g.draw.near(least) * 2), 0)
    operands = [x, add_tensor(g.model, w.type, w.data), bias]
    g.emit(name, operands, out, fused_activation_function=g.activation(), **options)


def float_weighted(
    g: MixedModel,
    name: str,
    x: Tensor,
    shape: tuple[int, ...],
    axis: int,
    taps: int,
    result: tuple[int, ...],
    **options: Any,
) -> None:
    """float32 activations; float32 weights, or int8 ones."""
    if math.prod(shape) > MOST_ELEMENTS:
        raise DoesNotFit
    grouped = name == "CONV_2D" and x.type.shape[-1] != shape[-1]
    if g.draw.pick(True, False, False):
        per_channel = name == "DEPTHWISE_CONV_2D" or grouped or g.draw.pick(True, False)
        count = shape[axis] if per_channel else 1
        scales = tuple(g.draw.scale(0.001, 0.02) for _ in range(count))
        q = Quantization(scales, (0,) * count, axis if count > 1 else None)
        w = TensorType("int8", shape, q)
        weights = add_tensor(g.model, w, g.draw.rng.integers(-127, 128, shape).astype(np.int8))
        largest = 127 * max(scales)
        if name == "FULLY_CONNECTED":
            options["asymmetric_quantize_inputs"] = bool(g.draw.pick(True, False))
    else:
        data = np.clip(g.draw.rng.normal(0, 1, shape), -3, 3).astype(np.float32) / np.float32(np.sqrt(taps))
        weights, largest = widened(g, data), 3.0
    # A bias of -0.0 would tell kernels that skip what lies outside an image from those that add zeros.
    bias = widened(g, g.values(TensorType("float32", (shape[axis],))) + np.float32(0))
    limit = g.limit(x) * largest * taps + LARGEST_FED
    out = TensorType("float32", result)
    g.emit(name, [x, weights, bias], out, limit=limit, fused_activation_function=g.activation(), **options)


def widened(g: MixedModel, data: Array) -> int:
    """A float32 constant, or a narrow one behind DEQUANTIZE, as converters store those of float models."""
    how = g.draw.pick("plain", "plain", "float16", "int8")
    if how == "plain":
        return g.model.tensor(data.shape, "float32", data=data)
    if how == "float16":
        narrow = g.model.tensor(data.shape, "float16", data=data.astype(np.float16))
    else:
        scale = max(float(np.abs(data).max()), 0.1) / 100
        codes = np.rint(data / scale).astype(np.int8) + 3
        narrow = g.model.tensor(data.shape, "int8", scale, 3, data=codes)
    wide = g.model.tensor(data.shape, "float32")
    g.model.operator("DEQUANTIZE", [narrow], [wide], 3)
    return wide
