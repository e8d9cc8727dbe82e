"""Arithmetic, comparison, choice and conversion give the bytes of the prim interpreter on every target."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_harness import check, kernel_of

from qimport import prim
from qimport.codegen.function import ELEMENTS
from qimport.codegen.host import resolve_target, why_not_runnable
from qimport.ir.graph import Array, Builder, Value
from qimport.ir.types import INTEGER_RANGE, TensorType

NUMBERS = tuple(dtype for dtype in ELEMENTS if dtype != "complex64")
INTEGER_KINDS = ("add", "sub", "mul", "max", "min", "div", "rem", "and", "or", "xor")
FLOAT_KINDS = ("add", "sub", "mul", "max", "min", "div")
RELATIONS = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
SHAPES = (
    ((37,), (37,)),
    ((2, 3, 5), (5,)),
    ((2, 3, 17), (2, 1, 17)),
    ((4, 1), (1, 19)),
    ((2, 3, 4, 5), (2, 1, 1, 5)),
    ((), ()),
)


@pytest.fixture(params=["x86-64", "x86-64-v3", "x86-64-v4", "host"])
def target(request: pytest.FixtureRequest) -> str:
    """Every x86 level, and everything this machine has."""
    if (reason := why_not_runnable(resolve_target(request.param))) is not None:
        pytest.skip(reason)
    return str(request.param)


def numbers(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> Array:
    """Small numbers, both ends of the type, and everything between; no NaN."""
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(np.bool_)
    if dtype.startswith("float"):
        wide = np.exp2(rng.uniform(-20, 70, shape)) * rng.choice([-1, 1], shape)
        edges = rng.choice(
            [0.0, -0.0, 1.0, 2.5, np.inf, -np.inf, 2.0**31, -(2.0**31), 2.0**63, 65519, 65520], shape
        )
        with np.errstate(over="ignore"):
            return np.where(rng.random(shape) < 0.6, wide, edges).astype(dtype)
    low, high = INTEGER_RANGE[dtype]
    wide = rng.integers(low, high, shape, np.int64, endpoint=True)
    edges = rng.choice([low, low + 1, max(low, -1), 0, 1, 2, 3, 7, high - 1, high], shape)
    return np.where(rng.random(shape) < 0.4, wide, edges).astype(dtype)


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [dtype for dtype in NUMBERS if dtype != "float16"])
def test_binary_and_compare(target: str, dtype: str, shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    """Every kind on every element type, operands of different shapes."""
    rng = np.random.default_rng(6)
    result = TensorType(dtype, np.broadcast_shapes(*shapes))
    bits = ("and", "or", "xor") if dtype == "bool" else INTEGER_KINDS
    ops: list[prim.Binary | prim.Compare] = [prim.Compare(kind) for kind in RELATIONS]  # type: ignore[arg-type]
    ops += [prim.Binary(kind) for kind in (FLOAT_KINDS if dtype.startswith("f") else bits)]  # type: ignore[arg-type]
    for op in ops:
        b = Builder()
        x, y = (Value(TensorType(dtype, shape), "x") for shape in shapes)
        z = b.emit(op, (x, y), result if isinstance(op, prim.Binary) else TensorType("bool", result.shape))
        operands = [numbers(rng, dtype, shape) for shape in shapes]
        if dtype.startswith("f") and op.kind in ("sub", "add", "mul", "div"):
            operands = [np.where(np.isfinite(a) & (a != 0), a, 3).astype(dtype) for a in operands]
        check(kernel_of(b.nodes, z), operands, target)


@pytest.mark.parametrize("kind", ["max", "min"])
def test_float_maximum_keeps_nan(target: str, kind: str) -> None:
    """As NumPy: a NaN on either side is the result."""
    b, x, y = Builder(), *(Value(TensorType("float32", (9,)), n) for n in "xy")
    z = b.emit(prim.Binary(kind), (x, y), x.type)  # type: ignore[arg-type]
    nan, inf = np.float32("nan"), np.float32("inf")
    left = np.array([nan, 1, nan, inf, -inf, 1, 2, 3, nan], np.float32)
    right = np.array([1, nan, nan, 0, 0, 2, 1, 3, inf], np.float32)
    check(kernel_of(b.nodes, z), [left, right], target)


@pytest.mark.parametrize("relation", RELATIONS)
def test_nan_compares(target: str, relation: str) -> None:
    """Nothing holds of a NaN but that it differs."""
    b, x, y = Builder(), *(Value(TensorType("float32", (9,)), n) for n in "xy")
    z = b.emit(prim.Compare(relation), (x, y), TensorType("bool", (9,)))  # type: ignore[arg-type]
    nan = np.float32("nan")
    left = np.array([nan, 1, nan, 0, -0.0, 1, 2, 3, nan], np.float32)
    right = np.array([1, nan, nan, -0.0, 0, 2, 1, 3, 5], np.float32)
    check(kernel_of(b.nodes, z), [left, right], target)


def test_float_remainder(target: str) -> None:
    """All magnitudes from denormal to huge, equal operands, exact multiples, infinite divisors."""
    rng = np.random.default_rng(12)
    size = 4000
    sign = rng.choice([-1.0, 1.0], (2, size))
    left, right = (np.exp2(rng.uniform(-149, 127.9, (2, size))) * sign).astype(np.float32)
    near = np.exp2(rng.uniform(0, 30, size)).astype(np.float32)
    with np.errstate(over="ignore"):
        left[::3] = right[::3] * near[::3]
        left[1::3] = right[1::3] * np.rint(near[1::3] % 100)
    right[right == 0] = 1
    left[~np.isfinite(left)] = 5
    right[1::97], left[2::101], left[3::103] = (
        np.inf,
        0.0,
        np.where(np.isinf(right[3::103]), 1, right[3::103]),
    )
    b, x, y = Builder(), *(Value(TensorType("float32", (size,)), n) for n in "xy")
    z = b.emit(prim.Binary("rem"), (x, y), x.type)
    check(kernel_of(b.nodes, z), [left, right], target)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64"])
def test_shifts(target: str, dtype: str) -> None:
    """By a constant and by a tensor."""
    b, x, s = Builder(), *(Value(TensorType(dtype, (33,)), n) for n in "xs")
    up = b.emit(prim.Binary("shift_left"), (x, b.constant(np.array([5], dtype))), x.type)
    y = b.emit(prim.Binary("shift_right"), (up, s), x.type)
    rng = np.random.default_rng(7)
    bits = 8 * x.type.itemsize
    check(
        kernel_of(b.nodes, y), [numbers(rng, dtype, (33,)), rng.integers(0, bits, 33).astype(dtype)], target
    )


@pytest.mark.parametrize("dtype", NUMBERS)
def test_select(target: str, dtype: str) -> None:
    """A condition per element, per row, and one for all."""
    rng = np.random.default_rng(13)
    for condition, left, right in (((5, 7),) * 3, ((5, 1), (5, 7), (7,)), ((1,), (3, 1, 7), (5, 1))):
        shape = np.broadcast_shapes(condition, left, right)
        b = Builder()
        types = (TensorType("bool", condition), TensorType(dtype, left), TensorType(dtype, right))
        values = [Value(type_, "x") for type_ in types]
        z = b.emit(prim.Select(), values, TensorType(dtype, shape))
        check(kernel_of(b.nodes, z), [numbers(rng, t.dtype, t.shape) for t in types], target)


@pytest.mark.parametrize("source", NUMBERS)
def test_casts(target: str, source: str) -> None:
    """Every pair of element types, with the numbers that fit badly."""
    rng = np.random.default_rng(8)
    for result in NUMBERS:
        if "float16" in (source, result) and "float32" not in (source, result):
            continue
        b, x = Builder(), Value(TensorType(source, (83,)), "x")
        y = b.emit(prim.Cast(), (x,), TensorType(result, (83,)))
        values = numbers(rng, source, (83,))
        if source.startswith("float") and not result.startswith("float"):
            values[7] = np.nan
        check(kernel_of(b.nodes, y), [values], target)


def test_half_precision(target: str) -> None:
    """Every float16 there and back, and float32 numbers between two of them."""
    halves = np.arange(2**16).astype(np.uint16).view(np.float16)
    halves = halves[~np.isnan(halves)]
    b, x = Builder(), Value(TensorType("float16", halves.shape), "x")
    y = b.emit(prim.Cast(), (x,), TensorType("float32", halves.shape))
    check(kernel_of(b.nodes, y), [halves], target)
    near = np.sort(halves[np.isfinite(halves)].astype(np.float32))
    middle = (near[1:] + near[:-1]) / 2
    values = np.concatenate(
        [near, middle, np.nextafter(middle, np.float32(1)), np.nextafter(middle, np.float32(-1))]
    )
    b, x = Builder(), Value(TensorType("float32", values.shape), "x")
    y = b.emit(prim.Cast(), (x,), TensorType("float16", values.shape))
    check(kernel_of(b.nodes, y), [values], target)
