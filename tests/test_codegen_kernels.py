"""Movement, window, reduction and softmax kernels give the prim interpreter's bytes between guard pages."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from kernel_harness import CompiledKernels, KernelModule, check, kernel_of

from qimport import fixedpoint, prim
from qimport.codegen.host import resolve_target, why_not_runnable
from qimport.ir.graph import Array, Builder, Operation, Value
from qimport.ir.types import TensorType
from qimport.lower.kernel import Kernel


@pytest.fixture(params=["x86-64", "x86-64-v3", "x86-64-v4", "host"])
def target(request: pytest.FixtureRequest) -> str:
    """Every x86 level, and everything this machine has."""
    if (reason := why_not_runnable(resolve_target(request.param))) is not None:
        pytest.skip(reason)
    return str(request.param)


@pytest.fixture(params=["x86-64", "host"])
def mover(request: pytest.FixtureRequest) -> str:
    """The least and the most: copies depend little on the target."""
    if (reason := why_not_runnable(resolve_target(request.param))) is not None:
        pytest.skip(reason)
    return str(request.param)


def codes(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> Array:
    """Random elements of any type, extremes included."""
    bits = rng.integers(0, 256, (*shape, np.dtype(dtype).itemsize)).astype(np.uint8)
    return bits.view(dtype).reshape(shape)


def single(
    op: Operation, operands: list[TensorType], result: TensorType, stride: int | None = None
) -> Kernel:
    """A kernel of one node."""
    b = Builder()
    y = b.emit(op, [Value(type_, f"x{i}") for i, type_ in enumerate(operands)], result)
    return kernel_of(b.nodes, y, stride)


DTYPES = ("int8", "int32")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("stride", [None, 77])
def test_copy(mover: str, dtype: str, stride: int | None) -> None:
    """A reshape that must exist, dense or into a slice of wider rows."""
    rng = np.random.default_rng(1)
    for shape in ((1,), (5, 1), (2, 3, 13), (64,), (3, 77)):
        x = TensorType(dtype, shape)
        check(single(prim.Reshape(), [x], x, stride), [codes(rng, dtype, shape)], mover)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("value", [0, -1, -128, 77])
@pytest.mark.parametrize("stride", [None, 40])
def test_pad(mover: str, dtype: str, value: int, stride: int | None) -> None:
    """Every border, one border, no border; fill values of equal and of different bytes."""
    rng = np.random.default_rng(2)
    for shape, before, after in (
        ((1, 4, 5, 3), (0, 1, 2, 0), (0, 2, 0, 0)),
        ((2, 3, 4, 5), (1, 0, 1, 2), (0, 3, 1, 4)),
        ((7,), (0,), (0,)),
        ((2, 6), (0, 0), (1, 30)),
    ):
        wide = TensorType(dtype, tuple(map(sum, zip(shape, before, after, strict=True))))
        kernel = single(prim.Pad(before, after, value), [TensorType(dtype, shape)], wide, stride)
        check(kernel, [codes(rng, dtype, shape)], mover)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("stride", [None, 20])
def test_slice(mover: str, dtype: str, stride: int | None) -> None:
    """Runs, strides and reversed dimensions."""
    rng = np.random.default_rng(3)
    for shape, begin, steps, result in (
        ((4, 5, 6), (1, 0, 2), (1, 1, 1), (2, 5, 3)),
        ((4, 5, 6), (3, 4, 0), (-1, -2, 1), (4, 3, 6)),
        ((40,), (39,), (-3,), (13,)),
        ((3, 17), (0, 1), (2, 4), (2, 4)),
        ((3, 4), (0, 0), (1, 1), (3, 0)),
    ):
        kernel = single(
            prim.Slice(begin, steps), [TensorType(dtype, shape)], TensorType(dtype, result), stride
        )
        check(kernel, [codes(rng, dtype, shape)], mover)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("stride", [None, 50])
def test_concat(mover: str, dtype: str, stride: int | None) -> None:
    """Along every axis, with an empty part."""
    rng = np.random.default_rng(4)
    for axis in range(3):
        shapes = [tuple(size if i == axis else n for i, n in enumerate((2, 3, 5))) for size in (1, 4, 0, 7)]
        total = tuple(12 if i == axis else n for i, n in enumerate((2, 3, 5)))
        types = [TensorType(dtype, shape) for shape in shapes]
        kernel = single(prim.Concat(axis), types, TensorType(dtype, total), stride)
        check(kernel, [codes(rng, dtype, shape) for shape in shapes], mover)


def test_concat_with_a_constant(mover: str) -> None:
    """A constant part comes from the tables."""
    rng = np.random.default_rng(5)
    b, x = Builder(), Value(TensorType("int8", (3, 5)), "x")
    y = b.emit(prim.Concat(1), (b.constant(codes(rng, "int8", (3, 2))), x), TensorType("int8", (3, 7)))
    check(kernel_of(b.nodes, y), [codes(rng, "int8", (3, 5))], mover)


@pytest.mark.parametrize("dtype", [*DTYPES, "int16", "int64"])
@pytest.mark.parametrize("stride", [None, 35])
def test_transpose(mover: str, dtype: str, stride: int | None) -> None:
    """Inner dimensions kept, moved, and of size one."""
    rng = np.random.default_rng(6)
    for shape, order in (
        ((2, 3, 4, 5), (0, 3, 1, 2)),
        ((2, 3, 4, 5), (1, 0, 2, 3)),
        ((1, 6, 1), (2, 1, 0)),
        ((3, 7), (1, 0)),
        ((2, 17, 33), (0, 2, 1)),
        ((30, 2), (1, 0)),
        ((3, 2, 29), (0, 2, 1)),
        ((16, 31), (1, 0)),
        ((5, 9, 3, 7), (3, 1, 2, 0)),
    ):
        result = TensorType(dtype, tuple(shape[axis] for axis in order))
        kernel = single(prim.Transpose(order), [TensorType(dtype, shape)], result, stride)
        check(kernel, [codes(rng, dtype, shape)], mover)


WINDOWS = (
    ((1, 7, 7), (7, 7), (1, 1), ((0, 0), (0, 0))),
    ((2, 9, 6), (3, 3), (2, 2), ((1, 1), (0, 1))),
    ((1, 5, 5), (3, 3), (1, 1), ((1, 1), (1, 1))),
    ((1, 8, 8), (2, 2), (2, 2), ((0, 0), (0, 0))),
    ((1, 6, 5), (1, 5), (1, 1), ((0, 0), (0, 0))),
    ((1, 4, 30), (4, 9), (1, 5), ((2, 1), (0, 3))),
)


def window_result(op: prim.Window, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Result shape of a window."""
    sizes = [(shape[1 + a] + sum(op.padding[a]) - op.size[a]) // op.stride[a] + 1 for a in (0, 1)]
    return (shape[0], *sizes, shape[3])


@pytest.mark.parametrize("stride", [None, 90])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("window", WINDOWS, ids=lambda w: f"{w[1]}")
def test_max_window(target: str, window: tuple[Any, ...], dtype: str, stride: int | None) -> None:
    """Clipped windows, channel counts around vector widths."""
    rng = np.random.default_rng(7)
    op = prim.Window("max", *window[1:])  # type: ignore[arg-type]
    for channels in (3, 67):
        shape = (*window[0], channels)
        kernel = single(op, [TensorType(dtype, shape)], TensorType(dtype, window_result(op, shape)), stride)
        check(kernel, [codes(rng, dtype, shape)], target)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("window", WINDOWS, ids=lambda w: f"{w[1]}")
def test_average_pool(target: str, window: tuple[Any, ...], dtype: str) -> None:
    """A window sum divided by the number of its taps, which differs at borders, then clamped."""
    rng = np.random.default_rng(8)
    op = prim.Window("sum", *window[1:])  # type: ignore[arg-type]
    low, high = (-128, 127) if dtype == "int8" else (0, 255)
    for channels in (5, 70):
        shape = (*window[0], channels)
        wide = TensorType("int32", window_result(op, shape))
        rows, columns = (op.spans(shape[1 + a], wide.shape[1 + a], a) for a in (0, 1))
        taps = np.array([[(b - t) * (r - left) for left, r in columns] for t, b in rows], np.int32)
        b, x = Builder(), Value(TensorType(dtype, shape), "x")
        total = b.emit(op, (x,), wide)
        mean = b.emit(prim.DivRound(), (total, b.constant(taps.reshape(1, *taps.shape, 1))), wide)
        y = b.emit(prim.Clamp(0, low + 9, high - 20), (mean,), TensorType(dtype, wide.shape))
        check(kernel_of(b.nodes, y), [codes(rng, dtype, shape)], target)
        check(kernel_of(b.nodes, y, channels + 3), [codes(rng, dtype, shape)], target)
        check(kernel_of(b.nodes[:2], mean), [np.full(shape, low, dtype)], target)
    mean = b.emit(prim.DivRound(), (total, b.constant(taps.reshape(1, *taps.shape, 1) + 2)), wide)
    check(kernel_of([b.nodes[0], b.nodes[-1]], mean), [codes(rng, dtype, shape)], target)


@pytest.mark.parametrize("in_place", [False, True])
def test_window_with_residual_operand(target: str, in_place: bool) -> None:
    """A pooled sum rescaled per channel and added to an operand that the result may overwrite."""
    rng = np.random.default_rng(9)
    op = prim.Window("sum", (2, 2), (1, 1), ((0, 1), (0, 1)))
    for channels in (3, 21, 38):
        shape = (1, 4, 5, channels)
        b, wide = Builder(), TensorType("int32", shape)
        x, other = (Value(TensorType("int8", shape), name) for name in ("x", "other"))
        total = b.emit(op, (x,), wide)
        pairs = [fixedpoint.quantize_multiplier(s) for s in rng.uniform(0.1, 0.4, channels)]
        constants = [b.constant(np.array(column, np.int32)) for column in zip(*pairs, strict=True)]
        mean = b.emit(prim.Rescale("double_up"), (total, *constants), wide)
        added = b.emit(prim.Binary("add"), (mean, b.emit(prim.Cast(), (other,), wide)), wide)
        y = b.emit(prim.Clamp(0, -128, 127), (added,), TensorType("int8", shape))
        arrays = [codes(rng, "int8", shape) for _ in range(2)]
        kernel = kernel_of(b.nodes, y, None, in_place)
        check(kernel, arrays[: len(kernel.graph.inputs)], target, overwritten=1)


@pytest.mark.parametrize("kind", ["sum", "max", "min"])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32"])
def test_reduce(target: str, kind: str, dtype: str) -> None:
    """Any axes, rows around vector widths, no axes at all."""
    rng = np.random.default_rng(10)
    for shape, axes in (
        ((1, 7, 7, 19), (1, 2)),
        ((2, 3, 4, 5), (0, 3)),
        ((2, 3, 4, 5), (1, 2, 3)),
        ((3, 70), (1,)),
        ((3, 70), (0,)),
        ((17,), (0,)),
        ((2, 3), ()),
        ((4, 1, 6), (1,)),
        ((3, 2, 40), (0, 2)),
    ):
        result = tuple(1 if i in axes else n for i, n in enumerate(shape))
        type_ = TensorType("int32" if kind == "sum" else dtype, result)
        kernel = single(prim.Reduce(kind, axes), [TensorType(dtype, shape)], type_)  # type: ignore[arg-type]
        check(kernel, [codes(rng, dtype, shape)], target)


def test_extrema_of_floats(target: str) -> None:
    """Which of several zeros it is, and what NaN does, depends on the order."""
    rng = np.random.default_rng(12)
    special = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1.5, -2.5], np.float32)
    kinds, starts = ("max", "min", "max_last", "min_last"), ("neutral", "finite", "first")
    layouts: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
        ((3, 70), (1,)),
        ((2, 5, 19), (1, 2)),
        ((7,), (0,)),
    ]
    module, shapes = KernelModule(resolve_target(target)), []
    for kind, start, (shape, axes) in itertools.product(kinds, starts, layouts):
        result = TensorType("float32", tuple(1 if i in axes else n for i, n in enumerate(shape)))
        op = prim.Reduce(kind, axes, start)  # type: ignore[arg-type]
        module.add(single(op, [TensorType("float32", shape)], result), name=f"kernel_{len(shapes)}")
        shapes.append(shape)
    compiled = CompiledKernels(module)
    for emitted, shape in zip(module.kernels, shapes, strict=True):
        for choice in (special, special[:2], special[:3], -np.abs(special), special[5:]):
            compiled.check(emitted, [rng.choice(choice, shape)], f"on {target}")


@pytest.mark.parametrize("axes", [(1, 2), (3,), (1, 2, 3)], ids=str)
def test_mean(target: str, axes: tuple[int, ...]) -> None:
    """A reduction with offset, rescale and clamp, into rows that lie apart."""
    rng = np.random.default_rng(11)
    shape = (2, 5, 6, 37)
    wide = TensorType("int32", tuple(1 if i in axes else n for i, n in enumerate(shape)))
    b, x = Builder(), Value(TensorType("int8", shape), "x")
    total = b.emit(prim.Reduce("sum", axes), (x,), wide)
    moved = b.emit(prim.Binary("add"), (total, b.constant(np.array([1234], np.int32))), wide)
    multiplier, exponent = fixedpoint.quantize_multiplier(0.031)
    constants = [b.constant(np.array([c], np.int32)) for c in (multiplier, exponent)]
    scaled = b.emit(prim.Rescale("double_away"), (moved, *constants), wide)
    y = b.emit(prim.Clamp(-3, -128, 127), (scaled,), TensorType("int8", wide.shape))
    for stride in (None, 41):
        check(kernel_of(b.nodes, y, stride), [codes(rng, "int8", shape)], target)


def softmax_table(kind: str) -> Array:
    """Exponentials of differences; 0 for the far ones in fixed point."""
    if kind == "float":
        return np.exp(-np.arange(256) * 0.07).astype(np.float32)
    table = fixedpoint.exp_on_negative_values(-np.arange(256) * (1 << 21))
    return np.where(np.arange(256) < 200, table, 0).astype(np.int32)


@pytest.mark.parametrize("kind", ["fixed", "float"])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_softmax(target: str, kind: str, dtype: str) -> None:
    """Flat rows, rows with one peak, random rows; one element to a thousand, rows that lie apart."""
    rng = np.random.default_rng(12)
    for shape in ((1, 1), (4, 2), (3, 10), (2, 3, 17), (2, 1001), (9,)):
        b, x = Builder(), Value(TensorType(dtype, shape), "x")
        y = b.emit(prim.Softmax(kind), (x, b.constant(softmax_table(kind))), x.type)  # type: ignore[arg-type]
        values = codes(rng, dtype, shape)
        for array in (values, np.full_like(values, 3), np.minimum(values, values.min() + 4)):
            check(kernel_of(b.nodes, y), [array], target)
        check(kernel_of(b.nodes, y, shape[-1] + 2), [values], target)


@pytest.mark.parametrize("length", [512, 8191, 8192, 8193, 8703])
def test_softmax_of_sums_that_wrap(mover: str, length: int) -> None:
    """Equal elements whose sum in 32 bits is negative, nothing at all, or small again."""
    b, x = Builder(), Value(TensorType("int8", (1, length)), "x")
    y = b.emit(prim.Softmax("fixed"), (x, b.constant(softmax_table("fixed"))), x.type)
    check(kernel_of(b.nodes, y), [np.full((1, length), 5, np.int8)], mover)
