"""What the generators of data movement share: element types, shapes, contents, and the file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from qimport.ir.graph import Array
from qimport.ir.types import TensorType
from tests.cases import Draw, Operand, add_tensor
from tests.flatbuffer_builder import ModelBuilder
from tests.one_operator.model import OneOperator

COMMON = ("int8", "uint8", "int16", "int32", "int64", "bool", "float32")
"""Element types that most movements take."""

QUANTIZED = ("int8", "uint8", "int16")

ALL = (*COMMON, "float16", "float64", "uint32")
"""Element types of kernels that only look at sizes."""


def shape_of(draw: Draw, least: int = 1, most: int = 6, limit: int = 1500) -> tuple[int, ...]:
    """A shape with sizes of 1 among others."""
    rank = int(draw.rng.integers(least, most + 1))
    sizes: list[int] = []
    for _ in range(rank):
        size = int(draw.pick(1, 2, 3, 4, 5, 7, 8, 17, 33))
        sizes.append(size if size * int(np.prod(sizes)) <= limit else 1)
    return tuple(int(size) for size in draw.rng.permutation(sizes))


def tensor(draw: Draw, dtype: str, shape: Sequence[int]) -> TensorType:
    """A type, quantized more often than not where it can be."""
    if dtype not in QUANTIZED or draw.rng.random() < 0.2:
        return TensorType(dtype, tuple(shape))
    found = draw.tensor(dtype, shape)
    if dtype != "int16":
        return found
    return replace(found, quantization=replace(found.quant, zero_points=(0,)))


def content(draw: Draw, type_: TensorType, finite: bool = False) -> Array:
    """Random bits, or bounded numbers."""
    if type_.dtype == "bool":
        return draw.rng.integers(0, 2, type_.shape) == 1
    if finite and type_.dtype.startswith("float"):
        return np.asarray(draw.rng.normal(0, 100, type_.shape), type_.numpy)
    bits = draw.rng.integers(0, 256, (*type_.shape, type_.itemsize)).astype(np.uint8)
    return bits.view(type_.numpy).reshape(type_.shape)


def fed(draw: Draw, type_: TensorType, finite: bool = False) -> Operand:
    """An operand that the test feeds."""
    return Operand(type_, value=content(draw, type_, finite))


def constant(array: Any, dtype: str = "int32") -> Operand:
    """A constant operand without quantization."""
    data = np.asarray(array, dtype)
    return Operand(TensorType(data.dtype.name, data.shape), data)


def indices(draw: Draw, array: Any, dtype: str) -> Operand:
    """Indices, constant or fed."""
    made = constant(array, dtype)
    return made if draw.rng.random() < 0.4 else Operand(made.type, value=made.data)


def moved(
    builtin: str,
    version: int,
    operands: Sequence[Operand],
    results: Sequence[TensorType],
    **options: Any,
) -> OneOperator:
    """The file of one operator and its only invocation; at least one operand is fed."""
    model = ModelBuilder()
    tensors = [add_tensor(model, operand.type, operand.data) for operand in operands]
    outputs = [add_tensor(model, type_) for type_ in results]
    model.operator(builtin, tensors, outputs, version, **options)
    inputs = [index for index, o in zip(tensors, operands, strict=True) if o.value is not None]
    values = [o.value for o in operands if o.value is not None]
    given = ", ".join(str(o.type) if o.data is None else f"{o.type} {o.data.tolist()}"[:80] for o in operands)
    text = f"{builtin} {options} ({given}) -> {', '.join(map(str, results))}"
    return OneOperator(model.build(inputs, outputs), (values,), text)
