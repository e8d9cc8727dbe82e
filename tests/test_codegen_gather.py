"""Kernels that read places from a tensor give the interpreter's bytes between guard pages, for any index."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from emulated_kernels import check_emulated
from emulator import PLATFORMS
from kernel_harness import KernelModule, check, kernel_of

from qimport import prim
from qimport.codegen.host import resolve_target, why_not_runnable
from qimport.ir.graph import Array, Builder, Operation, Value
from qimport.ir.types import TensorType
from qimport.lower.kernel import Kernel

DTYPES = ("int8", "bool", "int16", "int32", "int64", "float32")

PAIRS = (
    ("int8", "int32"),
    ("bool", "int64"),
    ("int16", "int16"),
    ("int32", "int64"),
    ("int64", "int32"),
    ("float32", "int16"),
)
"""Element types and types of indices."""


@pytest.fixture(params=["x86-64", "host"])
def mover(request: pytest.FixtureRequest) -> str:
    """The least and the most: copies depend little on the target."""
    if (reason := why_not_runnable(resolve_target(request.param))) is not None:
        pytest.skip(reason)
    return str(request.param)


def content(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> Array:
    """Small numbers of any type; sums of floats are exact."""
    return rng.integers(0, 2 if dtype == "bool" else 100, shape).astype(dtype)


def wild(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> Array:
    """Indices, most of them far outside."""
    limits = np.iinfo(dtype)
    choices = np.array([limits.min, -1, 0, 1, 2, 3, limits.max], dtype)
    return choices[rng.integers(0, len(choices), shape)]


def single(
    op: Operation, operands: list[Array | None], result: TensorType, stride: int | None, constant: int = -1
) -> Kernel:
    """A kernel of one node; operand number ``constant`` is known."""
    b = Builder()
    values = [
        None if a is None else Value(TensorType(a.dtype.name, a.shape), f"x{i}", a if i == constant else None)
        for i, a in enumerate(operands)
    ]
    y = b.emit(op, values, result)
    return kernel_of(b.nodes, y, stride)


GATHERS = (
    ((5, 4, 3), (2, 2), 0, 0),
    ((5, 4, 3), (6,), 1, 0),
    ((5, 4, 3), (), 2, 0),
    ((2, 4, 3), (2, 5), 1, 1),
    ((2, 3, 4, 2), (2, 3), 2, 2),
    ((2, 3, 4, 2), (2, 7), 3, 1),
    ((9,), (3, 2), 0, 0),
)


@pytest.mark.parametrize(("dtype", "index_type"), PAIRS)
def test_gather(mover: str, dtype: str, index_type: str) -> None:
    rng = np.random.default_rng(1)
    for shape, places, axis, batch in GATHERS:
        x, indices = content(rng, dtype, shape), wild(rng, index_type, places)
        op = prim.Gather(axis, batch)
        result = TensorType(dtype, op.result_shape(shape, places))
        stride = result.shape[-1] + 3 if result.shape else None
        check(single(op, [x, indices], result, None), [x, indices], mover)
        check(single(op, [x, indices], result, stride), [x, indices], mover)
        check(single(op, [x, indices], result, None, constant=1), [x], mover)
        check(single(op, [x, indices], result, None, constant=0), [indices], mover)


@pytest.mark.parametrize(("dtype", "index_type"), PAIRS)
def test_gather_nd(mover: str, dtype: str, index_type: str) -> None:
    rng = np.random.default_rng(2)
    for shape, places in (((5, 4, 3), (6, 1)), ((5, 4, 3), (2, 2, 2)), ((5, 4, 3), (3,)), ((7,), (1, 1))):
        x, indices = content(rng, dtype, shape), wild(rng, index_type, places)
        result = TensorType(dtype, (*places[:-1], *shape[places[-1] :]))
        check(single(prim.GatherNd(), [x, indices], result, None), [x, indices], mover)


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [*product(("set", "add"), DTYPES), *product(("mul", "max", "min"), ("int32", "float32"))],
)
def test_scatter_nd(mover: str, dtype: str, kind: str) -> None:
    rng = np.random.default_rng(3)
    for shape, places in (((5, 4, 3), (6, 1)), ((5, 4, 3), (2, 2, 2)), ((4, 3), (3, 2)), ((7,), (9, 1))):
        base, indices = content(rng, dtype, shape), wild(rng, "int32", places)
        updates = content(rng, dtype, (*places[:-1], *shape[places[-1] :]))
        op, result = prim.ScatterNd(kind), TensorType(dtype, shape)  # type: ignore[arg-type]
        for stride in (None, shape[-1] + 2):
            check(single(op, [base, indices, updates], result, stride), [base, indices, updates], mover)
        check(single(op, [None, indices, updates], result, None), [indices, updates], mover)


@pytest.mark.parametrize(("dtype", "index_type"), PAIRS)
def test_boxes(mover: str, dtype: str, index_type: str) -> None:
    """Slices and updates whose beginning is known at run time only."""
    rng = np.random.default_rng(4)
    for shape, box in (((5, 4, 3), (2, 4, 1)), ((9,), (4,)), ((2, 30), (1, 17)), ((3, 2), (3, 2))):
        x, part = content(rng, dtype, shape), content(rng, dtype, box)
        begin = wild(rng, index_type, (len(shape),))
        whole, piece = TensorType(dtype, shape), TensorType(dtype, box)
        for gap in (None, 5):
            wider = [None if gap is None else size + gap for size in (box[-1], shape[-1])]
            check(single(prim.DynamicSlice(), [x, begin], piece, wider[0]), [x, begin], mover)
            check(single(prim.UpdateSlice(), [x, part, begin], whole, wider[1]), [x, part, begin], mover)


@pytest.mark.parametrize("dtype", DTYPES)
def test_broadcast(mover: str, dtype: str) -> None:
    rng = np.random.default_rng(5)
    for shape, wanted in (((1, 4, 1), (3, 4, 5)), ((3, 1), (3, 40)), ((1,), (17,)), ((1, 6), (5, 6))):
        x = content(rng, dtype, shape)
        for stride in (None, wanted[-1] + 1):
            check(single(prim.Broadcast(), [x], TensorType(dtype, wanted), stride), [x], mover)


def test_under_an_emulator(tmp_path: Path) -> None:
    """Gathers, scatters, boxes and transposed blocks on AArch64."""
    PLATFORMS["arm64"].skip_if_missing()
    rng, module = np.random.default_rng(6), KernelModule(resolve_target("arm64"))
    operands: list[list[Array]] = []

    def add(op: Operation, arrays: list[Array], result: TensorType) -> None:
        module.add(single(op, list(arrays), result, None), name=f"kernel_{len(operands)}")
        operands.append(arrays)

    for dtype, index_type in PAIRS:
        x, rows = content(rng, dtype, (9, 21)), wild(rng, index_type, (4,))
        type_ = TensorType(dtype, x.shape)
        add(prim.Transpose((1, 0)), [x], TensorType(dtype, (21, 9)))
        add(prim.Gather(0), [x, rows], TensorType(dtype, (4, 21)))
        add(prim.Gather(1), [x, rows], TensorType(dtype, (9, 4)))
        add(prim.GatherNd(), [x, rows.reshape(2, 2)], TensorType(dtype, (2,)))
        add(prim.ScatterNd("add"), [x, rows[:, None], content(rng, dtype, (4, 21))], type_)
        add(prim.UpdateSlice(), [x, content(rng, dtype, (3, 7)), rows[:2]], type_)
    assert check_emulated(module, operands, tmp_path) == []
