"""Operators on floats, plain integers and booleans: arithmetic, relations, choice, conversion."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from qimport.ir.graph import Array
from qimport.ir.types import INTEGER_RANGE
from qimport.qnn.arithmetic import FLOATS, KINDS
from qimport.qnn.cast import ELEMENT_TYPES
from qimport.qnn.compare import dtypes
from tests.cases import ACTIVATIONS, Draw
from tests.flatbuffer_builder import ModelBuilder
from tests.one_operator.model import OneOperator, generator

RELATIONS = ("equal", "not_equal", "greater", "greater_equal", "less", "less_equal")


def dimensions(draw: Draw, least: int = 0, most: int = 5) -> tuple[int, ...]:
    """A shape of up to about 300 elements."""
    rank = int(draw.rng.integers(least, most + 1))
    return tuple(int(n) for n in draw.rng.integers(1, 1 + (4 if rank > 2 else 17), rank))


def broadcast_shapes(draw: Draw, count: int = 2, most: int = 5) -> list[tuple[int, ...]]:
    """Shapes that broadcast to one: the same, with ones, with fewer dimensions."""
    shape = dimensions(draw, most=most)
    if math.prod(shape) == 1:  # the delegate may drop such dimensions from a result
        return [shape] * count
    shapes = []
    for _ in range(count):
        how = draw.pick("same", "same", "ones", "tail", "single")
        own = tuple(1 if how == "ones" and draw.rng.random() < 0.5 else n for n in shape)
        own = own[int(draw.rng.integers(len(own) + 1)) :] if how == "tail" else own
        shapes.append(draw.pick((), (1,)) if how == "single" else own)
    return shapes


def numbers(draw: Draw, dtype: str, shape: Sequence[int]) -> Array:
    """Small numbers, whole and broken, and now and then the ends of the type; no NaN, no denormals."""
    rng = draw.rng
    if dtype == "bool":
        return np.asarray(rng.integers(0, 2, shape).astype(np.bool_))
    if dtype.startswith("float"):
        values = rng.normal(0, draw.pick(0.3, 3, 300), shape)
        whole = np.where(rng.random(shape) < 0.3, np.rint(values), values)
        edges = rng.choice([0.0, 1.0, -1.0, 6.0, 0.5, 1e4, -1e4, np.inf, -np.inf], shape)
        return np.asarray(np.where(rng.random(shape) < 0.1, edges, whole)).astype(dtype)
    low, high = INTEGER_RANGE[dtype]
    wide = rng.integers(low, high, shape, np.int64, endpoint=True)
    few = rng.integers(max(low, -20), 21, shape)
    edges = rng.choice([low, high, 0, 1, 2, high - 1], shape)
    return np.asarray(np.choose(rng.integers(0, 3, shape), [wide, few, edges])).astype(dtype)


def one_operator(draw: Draw, builtin: str, arrays: Sequence[Array], out: str, **options: Any) -> OneOperator:
    """A file with the operator; operands are fed, at most one is a constant."""
    model = ModelBuilder()
    constant = int(draw.rng.integers(len(arrays))) if len(arrays) > 1 and draw.rng.random() < 0.3 else -1
    tensors = [
        model.tensor(array.shape, array.dtype.name, data=array if index == constant else None)
        for index, array in enumerate(arrays)
    ]
    shape = np.broadcast_shapes(*(array.shape for array in arrays))
    result = model.tensor(shape, out)
    model.operator(builtin, tensors, [result], 1, **options)
    fed = [index for index in range(len(arrays)) if index != constant]
    text = f"{builtin} {' '.join(f'{a.dtype}{list(a.shape)}' for a in arrays)} -> {out} {options}"
    file = model.build([tensors[index] for index in fed], [result])
    return OneOperator(file, ([arrays[index] for index in fed],), text)


def _arithmetic(kind: str) -> None:
    form = KINDS[kind]

    @generator(form.tflite if not form.activated else f"{form.tflite} plain")
    def draw_arithmetic(draw: Draw) -> OneOperator:
        dtype = draw.pick(*form.dtypes)
        shapes = broadcast_shapes(draw, most=4)
        a, b = (numbers(draw, dtype, shape) for shape in shapes)
        if kind in ("div", "floor_div", "floor_mod"):
            b = np.asarray(np.where(b == 0, np.asarray(3, dtype), b))
            lowest = INTEGER_RANGE.get(dtype, (0, 0))[0]
            a = np.asarray(np.where(a == lowest, np.asarray(1, dtype), a)) if lowest else a
            if dtype in FLOATS:
                a = np.asarray(np.where(np.isfinite(a), a, 1)).astype(dtype)
        if dtype in FLOATS and kind != "maximum":
            large = 1e38 if dtype == "float32" else 6e4
            a = np.asarray(np.where(np.isfinite(a), a, large)).astype(dtype)
        if kind == "mul" and dtype in FLOATS:
            b = np.asarray(np.where(np.isfinite(b), b, 1e4)).astype(dtype)
        plain = not form.activated or dtype == "uint32"
        options = {} if plain else {"fused_activation_function": draw.pick("NONE", *ACTIVATIONS)}
        return one_operator(draw, form.tflite, (a, b), dtype, **options)


for _kind in KINDS:
    _arithmetic(_kind)


@generator("ADD_N")
def draw_add_n(draw: Draw) -> OneOperator:
    dtype, shape = draw.pick("int32", "float32"), dimensions(draw, 1)
    arrays = [numbers(draw, dtype, shape) for _ in range(int(draw.rng.integers(2, 6)))]
    finite = [np.asarray(np.where(np.isfinite(a), a, 2)).astype(dtype) for a in arrays]
    return one_operator(draw, "ADD_N", finite, dtype)


@generator("POW int32")
def draw_integer_pow(draw: Draw) -> OneOperator:
    shapes = broadcast_shapes(draw, most=4)
    x = numbers(draw, "int32", shapes[0])
    y = np.asarray(draw.rng.integers(0, draw.pick(4, 12, 70), shapes[1]), np.int32)
    return _pow(x, y)


@generator("POW float32")
def draw_float_pow(draw: Draw) -> OneOperator:
    shapes = broadcast_shapes(draw, most=4)
    size = np.exp(draw.rng.normal(0, 2, shapes[0]))
    x = np.where(draw.rng.random(shapes[0]) < 0.1, 0.0, size).astype(np.float32)
    y = draw.rng.normal(0, 4, shapes[1]).astype(np.float32)
    if draw.rng.random() < 0.5:
        y = np.rint(y)
        x = np.where(draw.rng.random(x.shape) < 0.5, -x, x)
    return _pow(np.asarray(x, np.float32), np.asarray(y, np.float32))


def _pow(x: Array, y: Array) -> OneOperator:
    """The exponent is a constant where it is one element."""
    model = ModelBuilder()
    constant = y.size == 1 and x.shape != y.shape
    tensors = [
        model.tensor(x.shape, x.dtype.name),
        model.tensor(y.shape, y.dtype.name, data=y if constant else None),
    ]
    result = model.tensor(np.broadcast_shapes(x.shape, y.shape), x.dtype.name)
    model.operator("POW", tensors, [result])
    fed = 1 if constant else 2
    text = f"POW {x.dtype}{x.shape} by {y if constant else y.shape}"
    return OneOperator(model.build(tensors[:fed], [result]), ([x, y][:fed],), text)


@generator("LOGICAL_NOT")
def draw_logical_not(draw: Draw) -> OneOperator:
    return one_operator(draw, "LOGICAL_NOT", [numbers(draw, "bool", dimensions(draw))], "bool")


@generator("CAST")
def draw_cast(draw: Draw) -> OneOperator:
    source, target = draw.pick(*ELEMENT_TYPES), draw.pick(*ELEMENT_TYPES)
    return one_operator(draw, "CAST", [numbers(draw, source, dimensions(draw))], target)


@generator("SELECT")
def draw_select(draw: Draw) -> OneOperator:
    dtype, shape = draw.pick(*ELEMENT_TYPES), dimensions(draw, 1)
    a, b = numbers(draw, dtype, shape), numbers(draw, dtype, shape)
    given = draw.pick((), shape[:1], shape)
    condition = numbers(draw, "bool", given)
    model = ModelBuilder()
    tensors = [model.tensor(x.shape, x.dtype.name) for x in (condition, a, b)]
    result = model.tensor(shape, dtype)
    model.operator("SELECT", tensors, [result])
    return OneOperator(
        model.build(tensors, [result]), ([condition, a, b],), f"SELECT {given} of {dtype}{shape}"
    )


@generator("SELECT_V2")
def draw_select_v2(draw: Draw) -> OneOperator:
    dtype = draw.pick(*ELEMENT_TYPES)
    shapes = broadcast_shapes(draw, 3, 4)
    arrays = [numbers(draw, t, shape) for t, shape in zip(("bool", dtype, dtype), shapes, strict=True)]
    return one_operator(draw, "SELECT_V2", arrays, dtype)


def _relation(kind: str) -> None:
    @generator(f"{kind.upper()} plain")
    def draw_relation(draw: Draw) -> OneOperator:
        plain = [dtype for dtype in dtypes(kind) if "8" not in dtype]
        dtype = draw.pick(*(t for t in plain if t != "int16"))
        a, b = (numbers(draw, dtype, shape) for shape in broadcast_shapes(draw, most=4))
        if dtype.startswith("float") and a.shape == b.shape and draw.rng.random() < 0.5:
            b = np.asarray(np.where(draw.rng.random(b.shape) < 0.5, a, b))
        return one_operator(draw, kind.upper(), (a, b), "bool")


for _relation_name in RELATIONS:
    _relation(_relation_name)
