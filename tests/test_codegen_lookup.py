"""Interpolated tables, leading zeros, functions and 16-bit softmax: the same bytes on every target."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from emulated_kernels import check_emulated
from emulator import PLATFORMS
from kernel_harness import KernelModule, check, kernel_of
from test_codegen_kernels import softmax_table

from qimport import prim, real
from qimport.codegen.host import resolve_target, why_not_runnable
from qimport.codegen.target import target_named
from qimport.ir.graph import Array, Builder, Operation, Value
from qimport.ir.types import TensorType
from qimport.lower.kernel import Kernel
from tests.test_prim_math import KINDS, arguments

SIZES = (1, 3, 8, 15, 17, 70, 300)


@pytest.fixture(params=["x86-64", "x86-64-v3", "x86-64-v4", "host"])
def target(request: pytest.FixtureRequest) -> str:
    """Every x86 level, and everything this machine has."""
    if (reason := why_not_runnable(resolve_target(request.param))) is not None:
        pytest.skip(reason)
    return str(request.param)


def kernel(op: Operation, dtype: str, shape: tuple[int, ...], result: str, *constants: Array) -> Kernel:
    """One node of one operand."""
    b, x = Builder(), Value(TensorType(dtype, shape), "x")
    y = b.emit(op, (x, *map(b.constant, constants)), TensorType(result, shape))
    return kernel_of(b.nodes, y)


def knots(seed: int) -> Array:
    """Any numbers, with steps that wrap."""
    return np.random.default_rng(seed).integers(-(2**15), 2**15, 513).astype(np.int16)


def words(dtype: str, size: int) -> Array:
    """Random integers, the ends first, of every magnitude."""
    info, rng = np.iinfo(dtype), np.random.default_rng(size)
    values = rng.integers(info.min, info.max, size, endpoint=True) >> rng.integers(0, info.bits, size)
    ends = np.array([info.min, info.max, 0, -1, 1])
    values[: min(size, 5)] = ends[:size]
    return values.astype(dtype)


def test_interpolated_tables(target: str) -> None:
    for size in SIZES:
        made = kernel(prim.Lut16(), "int16", (size,), "int16", knots(size))
        check(made, [words("int16", max(size, 70))[-size:]], target)


def test_leading_zeros(target: str) -> None:
    for size in SIZES:
        check(kernel(prim.LeadingZeros(), "int32", (size,), "int32"), [words("int32", size)], target)


@pytest.mark.parametrize("kind", sorted(real.FUNCTIONS64))
def test_functions_of_float64(target: str, kind: real.Kind) -> None:
    for size in (1, 37):
        made = kernel(prim.Math(kind), "float64", (size,), "float64")
        check(made, [arguments(70)[-size:].astype(np.float64)], target)


@pytest.mark.parametrize("kind", ["fixed", "float"])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_softmax_to_16_bits(target: str, kind: str, dtype: str) -> None:
    op = prim.Softmax(kind, 1 / 32768, 0)  # type: ignore[arg-type]
    for shape in ((1, 1), (3, 17), (2, 600)):
        made = kernel(op, dtype, shape, "int16", softmax_table(kind))
        codes = words(dtype, shape[0] * shape[1]).reshape(shape)
        for array in (codes, np.zeros_like(codes)):
            check(made, [array], target)


def test_emulated_arm64_gives_the_same_bytes(tmp_path: Path) -> None:
    PLATFORMS["arm64"].skip_if_missing()
    made = {
        "lut16": (kernel(prim.Lut16(), "int16", (70,), "int16", knots(1)), words("int16", 70)),
        "leading_zeros": (kernel(prim.LeadingZeros(), "int32", (70,), "int32"), words("int32", 70)),
        "softmax": (
            kernel(prim.Softmax("fixed"), "int8", (7, 10), "int16", softmax_table("fixed")),
            words("int8", 70).reshape(7, 10),
        ),
        **{kind: (kernel(prim.Math(kind), "float32", (70,), "float32"), arguments(70)) for kind in KINDS},
    }
    module = KernelModule(target_named("arm64"))
    for number, (each, _) in enumerate(made.values()):
        module.add(each, name=f"kernel_{number}")
    wrong = check_emulated(module, [[operand] for _, operand in made.values()], tmp_path)
    names = list(made)
    assert not wrong, [names[int(name.removeprefix("kernel_"))] for name in wrong]
