"""Bytes requantized by whole registers: sums around every middle of two integers, and sums far outside."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from emulated_kernels import check_emulated
from emulator import PLATFORMS
from kernel_harness import KernelModule, check, kernel_of

from qimport import prim
from qimport.codegen import byte_requantize
from qimport.codegen.host import resolve_target, why_not_runnable
from qimport.codegen.tables import TableLayout
from qimport.fixedpoint import Rounding
from qimport.ir.graph import Builder, Value
from qimport.ir.types import TensorType
from qimport.lower.kernel import Kernel

TARGETS = ("x86-64", "x86-64-v3", "x86-64-v4", "x86-64-amx")
ROUNDINGS: tuple[Rounding, ...] = ("double_away", "double_up", "exact_up", "float32_even")
CHANNELS = 6000


def kernel_of_sums(
    rescale: prim.Rescale, dtype: str, sums: np.ndarray, multiplier: np.ndarray, exponent: np.ndarray
) -> Kernel:
    """A dense layer of zeros whose biases are the sums."""
    b = Builder()
    x = Value(TensorType("int8", (1, 1, 1, 4)), "x")
    weights = b.constant(np.zeros((sums.size, 1, 1, 4), np.int8))
    op = prim.Mac((1, 1), (1, 1), ((0, 0), (0, 0)), 1, 0, 0)
    wide, codes = TensorType("int32", (1, 1, 1, sums.size)), TensorType(dtype, (1, 1, 1, sums.size))
    result = b.emit(op, (x, weights, b.constant(sums)), wide)
    factors = (b.constant(multiplier), b.constant(exponent))
    if rescale.rounding == "float32_even":
        factors = (b.constant(np.ldexp(multiplier, exponent.astype(np.int64) - 31).astype(np.float32)),)
    scaled = b.emit(rescale, (result, *factors), wide)
    clamp = prim.Clamp(3, -128, 127) if dtype == "int8" else prim.Clamp(100, 7, 255)
    return kernel_of(b.nodes, b.emit(clamp, (scaled,), codes))


def sums_near_the_middle(
    rng: np.random.Generator, multiplier: np.ndarray, exponent: np.ndarray
) -> np.ndarray:
    """The sums nearest to n + 1/2 after scaling, for every n that matters, one further, or anything."""
    factor = np.ldexp(multiplier.astype(np.float64), exponent.astype(np.int64) - 31)
    middles = rng.integers(-260, 260, multiplier.size) + 0.5
    near = np.rint(middles / factor) + rng.integers(-1, 2, multiplier.size)
    anything = rng.integers(-(2**31), 2**31, multiplier.size)
    chosen = np.where(rng.random(multiplier.size) < 0.9, near, anything)
    return np.clip(chosen, -(2**31), 2**31 - 1).astype(np.int32)


def middles_of(rescale: prim.Rescale, dtype: str, target: str, largest_exponent: int = -2) -> Kernel:
    """Sums near the middle of two integers, which the target computes by whole registers."""
    rng = np.random.default_rng(len(target + rescale.rounding + dtype))
    multiplier = rng.integers(2**30, 2**31, CHANNELS).astype(np.int32)
    multiplier[::97] = 2**30  # exact middles, too
    exponent = rng.integers(-22, largest_exponent + 1, CHANNELS).astype(np.int32)
    sums = sums_near_the_middle(rng, multiplier, exponent)
    kernel = kernel_of_sums(rescale, dtype, sums, multiplier, exponent)
    layout = TableLayout(kernel.graph, resolve_target(target))
    assert any(byte_requantize.applies(layout, node, resolve_target(target)) for node in kernel.epilogue)
    return kernel


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("name", TARGETS)
def test_sums_near_the_middle_of_two_integers(name: str, rounding: Rounding, dtype: str) -> None:
    if reason := why_not_runnable(resolve_target(name)):
        pytest.skip(reason)
    check(middles_of(prim.Rescale(rounding), dtype, name), [np.zeros((1, 1, 1, 4), np.int8)], name)


def test_sums_near_the_middle_on_arm64(tmp_path: Path) -> None:
    """Every rounding, two in one tensor, and left shifts where bytes allow them."""
    PLATFORMS["arm64"].skip_if_missing()
    rules = [*map(prim.Rescale, ROUNDINGS), prim.Rescale("double_away", "double_up", CHANNELS // 2)]
    cases = [(rule, -2) for rule in rules]
    cases += [(prim.Rescale(rounding), 6) for rounding in ("exact_up", "exact_up_saturated")]
    module = KernelModule(resolve_target("arm64"))
    for number, (rule, exponent) in enumerate(cases):
        for dtype in ("int8", "uint8"):
            module.add(middles_of(rule, dtype, "arm64", exponent), name=f"{dtype}_{number}")
    wrong = check_emulated(module, [[np.zeros((1, 1, 1, 4), np.int8)]] * len(module.kernels), tmp_path)
    assert not wrong, [(name, cases[int(name.split("_")[1])]) for name in wrong]


def test_powers_of_two_are_not_speculated() -> None:
    multiplier, exponent = np.full(64, 2**30, np.int32), np.full(64, -3, np.int32)
    kernel = kernel_of_sums(
        prim.Rescale("double_up"), "int8", np.arange(64, dtype=np.int32), multiplier, exponent
    )
    target = resolve_target("x86-64-v4")
    layout = TableLayout(kernel.graph, target)
    assert not any(byte_requantize.applies(layout, node, target) for node in kernel.epilogue)
