"""Generators of operators that depend on an order."""

from __future__ import annotations

from typing import Any

import numpy as np

from qimport.ir.graph import Array
from qimport.ir.types import TensorType
from tests.cases import Draw, add_tensor
from tests.flatbuffer_builder import ModelBuilder
from tests.one_operator.model import OneOperator, generator
from tests.one_operator.reductions import random_values
from tests.single_op import quantized

SHAPES = ((1, 4, 5, 21), (2, 3, 33), (7, 6), (40,), (1,), (3, 1, 4), (2, 2, 3, 2, 5))


def operand(draw: Draw, dtype: str) -> tuple[TensorType, Array]:
    """A tensor with many equal elements now and then."""
    shape = draw.pick(*SHAPES)
    type_ = TensorType(dtype, shape)
    if dtype in ("int8", "uint8", "int16"):
        type_ = quantized(dtype, shape, draw.scale(), 0)
    values = random_values(draw, type_)
    if dtype != "bool" and draw.pick(True, False):
        values = draw.rng.integers(0, 4, shape).astype(dtype)
    return type_, values


def build(
    builtin: str,
    x: TensorType,
    values: Array,
    number: Array,
    outputs: list[TensorType],
    **options: Any,
) -> OneOperator:
    """An operator whose second operand is a constant number."""
    model = ModelBuilder()
    source = add_tensor(model, x)
    second = model.tensor(number.shape, number.dtype.name, data=number)
    targets = [add_tensor(model, out) for out in outputs]
    model.operator(builtin, [source, second], targets, 1, **options)
    text = f"{builtin} {x} {number.tolist()} -> {', '.join(map(str, outputs))} {options}"
    return OneOperator(model.build([source], targets), ([values],), text)


def number_of(draw: Draw, value: int, *dtypes: str) -> Array:
    """A number as a scalar or in a vector of one."""
    return np.array(value, draw.pick(*dtypes)).reshape(draw.pick((), (1,)))


def _register_arg(builtin: str, dtype: str) -> None:
    @generator(f"{builtin} {dtype}")
    def make(draw: Draw) -> OneOperator:
        x, values = operand(draw, dtype)
        rank = len(x.shape)
        axis = int(draw.rng.integers(rank))
        out = TensorType(draw.pick("int32", "int64"), (*x.shape[:axis], *x.shape[axis + 1 :]))
        number = number_of(draw, axis - draw.pick(0, rank), "int32", "int64")
        return build(builtin, x, values, number, [out], output_type=out.dtype.upper())


def _register_top_k(dtype: str) -> None:
    @generator(f"TOPK_V2 {dtype}")
    def make(draw: Draw) -> OneOperator:
        x, values = operand(draw, dtype)
        values = values + 0  # the order of zeros of two signs is that of their places
        k = int(draw.rng.integers(1, x.shape[-1] + 1))
        shape = (*x.shape[:-1], k)
        outputs = [x.with_shape(shape), TensorType("int32", shape)]
        return build("TOPK_V2", x, values, number_of(draw, k, "int32"), outputs)


def _register_cumsum(dtype: str) -> None:
    @generator(f"CUMSUM {dtype}")
    def make(draw: Draw) -> OneOperator:
        x, values = operand(draw, dtype)
        rank = len(x.shape)
        axis = int(draw.rng.integers(-rank, rank))
        options = {"exclusive": bool(draw.pick(True, False)), "reverse": bool(draw.pick(True, False))}
        return build("CUMSUM", x, values, np.array(axis, np.int32), [x], **options)


for _dtype in ("bool", "int8", "uint8", "int32", "float32"):
    _register_arg("ARG_MAX", _dtype)
    _register_arg("ARG_MIN", _dtype)
for _dtype in ("int8", "uint8", "int16", "int32", "int64", "float32"):
    _register_top_k(_dtype)
for _dtype in ("int32", "int64", "float32"):
    _register_cumsum(_dtype)
