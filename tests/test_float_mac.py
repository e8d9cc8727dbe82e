"""Sums of float products: their orders, the exact fused multiply-add, and the kernels that form them."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from emulated_kernels import check_emulated
from emulator import PLATFORMS
from kernel_harness import KernelModule, check, kernel_of

from qimport import prim
from qimport.codegen.host import resolve_target, why_not_runnable
from qimport.ir.graph import Array, Builder, Value
from qimport.ir.types import TensorType
from qimport.lower.kernel import Kernel
from qimport.summation import ORDERS, fused_multiply_add


@pytest.fixture(params=["x86-64", "x86-64-v3", "x86-64-v4", "host"])
def target(request: pytest.FixtureRequest) -> str:
    """The baseline has no fused multiply-add, the others have."""
    if (reason := why_not_runnable(resolve_target(request.param))) is not None:
        pytest.skip(reason)
    return str(request.param)


def floats(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Numbers of both signs and many magnitudes."""
    return (rng.standard_normal(shape) * 2.0 ** rng.integers(-6, 7, shape)).astype(np.float32)


def nearest_float32(exact: Fraction) -> np.float32:
    """The float32 number nearest to ``exact``, the even one of two."""
    guess = np.float32(float(exact))
    around = [np.nextafter(guess, np.float32(side), dtype=np.float32) for side in (-np.inf, np.inf)]
    best = min((guess, *around), key=lambda f: (abs(Fraction(float(f)) - exact), int(f.view(np.int32)) & 1))
    return np.float32(best)


def test_fused_multiply_add_rounds_once() -> None:
    """Against rational arithmetic, with sums that end just beside ties of float32 and of float64."""
    rng = np.random.default_rng(1)
    a, b = floats(rng, (3000,)), floats(rng, (3000,))
    c = floats(rng, (3000,)) * np.float32(2.0) ** rng.integers(-40, 60, 3000).astype(np.float32)
    a[:1000] = (1 + 2.0**-12 * rng.integers(1, 4096, 1000)).astype(np.float32)
    b[:1000] = (1 + 2.0**-12 * rng.integers(1, 4096, 1000)).astype(np.float32)
    c[:1000] = (2.0 ** rng.integers(-60, 30, 1000)).astype(np.float32)
    found = fused_multiply_add(a, b, c)
    for x, y, z, result in zip(a, b, c, found, strict=True):
        exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        assert result == nearest_float32(exact), (x, y, z)


def test_fused_multiply_add_of_no_numbers() -> None:
    inf, nan = np.inf, np.nan
    assert fused_multiply_add(inf, 2.0, 1.0) == inf
    assert np.isnan(fused_multiply_add(inf, 0.0, 1.0))
    assert np.isnan(fused_multiply_add(1.0, nan, 1.0))
    assert fused_multiply_add(np.float32(3e38), np.float32(3e38), 1.0) == inf


def sums(
    op: prim.FloatMac, x: TensorType, w: TensorType, rng: np.random.Generator, known: bool, clamp: bool
) -> tuple[Kernel, list[Array]]:
    """A kernel, perhaps with bounds after it, and its operands."""
    b = Builder()
    types = [x, w, TensorType("float32", (w.shape[3],))]
    arrays = [floats(rng, type_.shape) for type_ in types]
    values = [Value(type_, f"v{i}") for i, type_ in enumerate(types)]
    if known:
        values[1:] = [b.constant(array) for array in arrays[1:]]
        arrays = arrays[:1]
    y = b.emit(op, values, op.result_type(x, w))
    if clamp:
        y = b.emit(prim.Binary("max"), (y, b.constant(np.zeros(1, np.float32))), y.type)
        y = b.emit(prim.Binary("mul"), (y, b.constant(floats(rng, w.shape[3:]))), y.type)
    return kernel_of(b.nodes, y), arrays


WINDOWS: list[tuple[dict[str, Any], tuple[int, ...], tuple[int, ...]]] = [
    ({}, (2, 4, 5, 3), (3, 2, 3, 7)),
    ({"stride": (2, 1), "dilation": (1, 2)}, (1, 5, 7, 3), (2, 3, 3, 33)),
    ({"groups": 2}, (1, 4, 5, 6), (2, 2, 3, 10)),
    ({"groups": 5}, (1, 5, 6, 5), (3, 3, 1, 5)),
    ({"groups": 5}, (1, 3, 6, 20), (2, 1, 4, 5)),
    ({"groups": 37, "columns_first": True}, (1, 4, 9, 37), (2, 3, 1, 37)),
    ({"columns_first": True}, (1, 4, 9, 1), (2, 3, 1, 1)),
    ({"groups": 3, "columns_first": True}, (2, 4, 5, 3), (2, 2, 1, 12)),
    ({}, (3, 1, 1, 40), (1, 1, 40, 70)),
    ({}, (1, 3, 3, 9), (1, 1, 9, 1)),
]


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("number", range(len(WINDOWS)))
def test_windows(target: str, number: int, fused: bool) -> None:
    """Sequential sums: groups, depthwise, dilation, run-time weights, nodes after them."""
    attributes, x, w = WINDOWS[number]
    rng = np.random.default_rng(number)
    for known in (True, False):
        op = prim.FloatMac(**attributes, fused=fused, bias_first=fused)
        kernel, arrays = sums(op, TensorType("float32", x), TensorType("float32", w), rng, known, known)
        check(kernel, arrays, target)


MATRICES = [(order, depth) for order in ORDERS for depth in (1, 4, 7, 12, 31, 40)]


@pytest.mark.parametrize(("order", "depth"), MATRICES)
def test_orders(target: str, order: Any, depth: int) -> None:
    """Every order, whole and in blocks, with leftovers of every kind."""
    rng = np.random.default_rng(depth)
    for rows, outputs, block in ((1, 1, 0), (5, 3, 0), (3, 19, 16), (6, 40, 8)):
        op = prim.FloatMac(order=order, block=block)
        x, w = TensorType("float32", (rows, 1, 1, depth)), TensorType("float32", (1, 1, depth, outputs))
        check(*sums(op, x, w, rng, True, False), target)


def fma_kernel(rng: np.random.Generator) -> tuple[Kernel, list[Array]]:
    """a * b + c with a broadcast operand."""
    b = Builder()
    types = [TensorType("float32", shape) for shape in ((5, 37), (5, 37), (5, 1))]
    values = [Value(type_, f"x{i}") for i, type_ in enumerate(types)]
    arrays = [floats(rng, type_.shape) for type_ in types]
    arrays[2] *= np.float32(1e6)
    result = b.emit(prim.Fma(), values, types[0])
    return kernel_of(b.nodes, result), arrays


def test_fma(target: str) -> None:
    check(*fma_kernel(np.random.default_rng(4)), target)


def test_arm64(tmp_path: Path) -> None:
    """The same code for AArch64, under an emulator."""
    PLATFORMS["arm64"].skip_if_missing()
    module, operands = KernelModule(resolve_target("arm64")), []
    rng = np.random.default_rng(5)
    found = [fma_kernel(rng)]
    for attributes, x, w in WINDOWS[:5]:
        op = prim.FloatMac(**attributes, fused=True, bias_first=True)
        found.append(sums(op, TensorType("float32", x), TensorType("float32", w), rng, True, True))
    for number, (kernel, arrays) in enumerate(found):
        module.add(kernel, None, f"kernel_{number}")
        operands.append(arrays)
    assert check_emulated(module, operands, tmp_path) == []
