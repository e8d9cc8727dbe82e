"""QUANTIZE and DEQUANTIZE between all element types."""

from __future__ import annotations

import numpy as np

from qimport.ir.types import Quantization, TensorType
from qimport.qnn.quantize import DEQUANTIZATIONS, QUANTIZATIONS, REQUANTIZATIONS
from tests.cases import Draw, add_tensor
from tests.flatbuffer_builder import ModelBuilder
from tests.one_operator.binary import coded
from tests.one_operator.model import OneOperator, generator
from tests.one_operator.plain import dimensions
from tests.single_op import quantized


def one_conversion(builtin: str, x: TensorType, out: TensorType, array: np.ndarray) -> OneOperator:
    """A file with the operator."""
    model = ModelBuilder()
    tensors = add_tensor(model, x), add_tensor(model, out)
    model.operator(builtin, tensors[:1], tensors[1:])
    return OneOperator(model.build(tensors[:1], tensors[1:]), ([array],), f"{builtin} {x} -> {out}")


def per_channel(draw: Draw, dtype: str) -> TensorType:
    """A type with a scale per index of one dimension; int8 and int16 have zero points of 0."""
    shape = dimensions(draw, 1, 4)
    axis = int(draw.rng.integers(len(shape)))
    scales = tuple(draw.scale() for _ in range(shape[axis]))
    zeros = tuple(draw.zero_point(dtype) if dtype == "uint8" else 0 for _ in scales)
    return TensorType(dtype, shape, Quantization(scales, zeros, axis))


def real(draw: Draw, shape: tuple[int, ...], out: TensorType) -> np.ndarray:
    """Floats around the range of codes, with ties and numbers far beyond it."""
    reach = 40000 if out.dtype == "int16" else 200
    codes = draw.rng.uniform(-reach, reach, shape)
    halves = np.where(draw.rng.random(shape) < 0.4, np.rint(codes) + 0.5, codes)
    values = halves * out.quant.scale
    far = draw.rng.choice([0.0, -0.0, 1e10, -1e10, 3e38, -3e38, np.inf, -np.inf], shape)
    return np.where(draw.rng.random(shape) < 0.06, far, values).astype(np.float32)


def _quantize(dtype: str) -> None:
    @generator(f"QUANTIZE float32 {dtype}")
    def draw_quantize(draw: Draw) -> OneOperator:
        out = coded(draw, dtype, dimensions(draw), draw.scale(1e-4, 10))
        return one_conversion("QUANTIZE", TensorType("float32", out.shape), out, real(draw, out.shape, out))

    @generator(f"QUANTIZE float32 {dtype} per channel")
    def draw_channels(draw: Draw) -> OneOperator:
        out = per_channel(draw, dtype)
        return one_conversion("QUANTIZE", TensorType("float32", out.shape), out, real(draw, out.shape, out))


def _requantize(source: str, target: str) -> None:
    @generator(f"QUANTIZE {source} {target}")
    def draw_requantize(draw: Draw) -> OneOperator:
        shape = dimensions(draw)
        both = (source, target) == ("int16", "int16")
        bits = {"int8": 8, "uint8": 8, "int16": 16, "int32": 24}
        spread = 2.0 ** (bits[source] - bits[target]) * float(
            np.exp(draw.rng.uniform(*draw.pick((-2, 2), (-8, 8))))
        )
        s_in = draw.scale(1e-4, 1)
        zero = 0 if both else int(draw.rng.integers(-99, 99))
        x = coded(draw, source, shape, s_in) if "8" in source else quantized(source, shape, s_in, zero)
        out_zero = 0 if both or target == "int32" else draw.zero_point(target)
        out = quantized(target, shape, draw.near(s_in * spread), out_zero)
        codes = draw.codes(x)
        if source == "int32":
            codes = codes >> draw.rng.integers(0, 24, shape).astype(np.int32)
        return one_conversion("QUANTIZE", x, out, np.asarray(codes, x.numpy))


def _dequantize(dtype: str) -> None:
    @generator(f"DEQUANTIZE {dtype}")
    def draw_dequantize(draw: Draw) -> OneOperator:
        shape = dimensions(draw)
        if dtype == "float16":
            x = TensorType(dtype, shape)
            array = (draw.rng.normal(0, 1, shape) * 2.0 ** draw.rng.integers(-24, 15, shape)).astype(
                np.float16
            )
            return one_conversion("DEQUANTIZE", x, TensorType("float32", shape), np.asarray(array))
        x = coded(draw, dtype, shape, draw.scale(1e-4, 10))
        return one_conversion("DEQUANTIZE", x, TensorType("float32", shape), draw.codes(x))


for _dtype in QUANTIZATIONS:
    _quantize(_dtype)
for _source, _targets in REQUANTIZATIONS.items():
    for _target in _targets:
        _requantize(_source, _target)
for _dtype in DEQUANTIZATIONS:
    _dequantize(_dtype)


@generator("DEQUANTIZE per channel")
def draw_dequantize_channels(draw: Draw) -> OneOperator:
    x = per_channel(draw, draw.dtype())
    return one_conversion("DEQUANTIZE", x, TensorType("float32", x.shape), draw.codes(x))
