"""Functions of one float32: accuracy of the steps, and the same bits from generated code on every target."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import get_args

import numpy as np
import pytest
from kernel_harness import check, kernel_of

from qimport import prim
from qimport.codegen.host import resolve_target, why_not_runnable
from qimport.ir.graph import Array, Builder, Value
from qimport.ir.types import TensorType
from qimport.prim.math import MathKind
from qimport.real import apply as math_function
from tests.single_op import expect_same

KINDS: tuple[MathKind, ...] = get_args(MathKind)

NUMBERS = """
0 -0 1 -1 0.5 -0.5 1.5 2.5 -2.5 inf -inf nan 3.4e38 -3.4e38 1e-45 -1e-45 1e-38 88.72 88.73 -87.4 -103.9
-104.1 4194304.5 8388609 -4194304.5 1e10 -1e22 710 3.1415927 -1.5707964 7.7291997e28 10.05 -9.1 0.49999997
-0.99999994 1.0000001 0.70710677
"""
SPECIAL = np.array(NUMBERS.split(), np.float32)


def arguments(size: int) -> Array:
    """Special values, and numbers of every size."""
    rng = np.random.default_rng(size)
    values = rng.normal(size=size) * np.exp2(rng.integers(-30, 8, size))
    values[: min(size, SPECIAL.size)] = SPECIAL[:size]
    return values.astype(np.float32)


@pytest.fixture(params=["x86-64", "x86-64-v3", "x86-64-v4", "host"])
def target(request: pytest.FixtureRequest) -> str:
    """Every x86 level, and everything this machine has."""
    if (reason := why_not_runnable(resolve_target(request.param))) is not None:
        pytest.skip(reason)
    return str(request.param)


@pytest.mark.parametrize("kind", KINDS)
def test_generated_code_gives_the_bits_of_the_steps(target: str, kind: MathKind) -> None:
    for size in (1, 3, 70):
        b, x = Builder(), Value(TensorType("float32", (size,)), "x")
        y = b.emit(prim.Math(kind), (x,), x.type)
        check(kernel_of(b.nodes, y), [arguments(max(size, 70))[-size:]], target)


EXACT: dict[MathKind, Callable[[Array], Array]] = {
    "abs": np.abs,
    "neg": np.negative,
    "floor": np.floor,
    "ceil": np.ceil,
    "rint": np.rint,
}


@pytest.mark.parametrize("kind", EXACT)
def test_exact_functions_are_those_of_numpy(kind: MathKind) -> None:
    x = np.concatenate([SPECIAL, arguments(5000)])
    expect_same(math_function(kind, x), EXACT[kind](x), kind)


ROUNDED: dict[MathKind, tuple[Callable[[float], float], float, float]] = {
    "logistic": (lambda v: 1 / (1 + math.exp(-v)), -100, 90),
}


@pytest.mark.parametrize("kind", ROUNDED)
def test_other_functions_are_rounded_correctly(kind: MathKind) -> None:
    """At most one of 30 000 differs from the rounded float64 function, by one unit in the last place."""
    function, low, high = ROUNDED[kind]
    rng = np.random.default_rng(7)
    spread = rng.uniform(low, high, 20000) * np.where(rng.random(20000) < 0.5, 1, rng.random(20000))
    x = np.concatenate([spread, rng.normal(size=10000) * (1 if low < 0 else 0) + (low >= 0)]).astype(
        np.float32
    )
    with np.errstate(over="ignore"):
        wanted = np.array([function(float(v)) for v in x]).astype(np.float32)
    found = math_function(kind, x)
    different = found != wanted
    assert different.sum() <= 1
    assert np.all(np.abs(found[different].view(np.int32) - wanted[different].view(np.int32)) <= 1)


LIBRARY: dict[MathKind, tuple[Callable[[float], float], float, float]] = {
    "erfc": (math.erfc, -5, 9),
    "cos": (math.cos, -1e6, 1e6),
    "exp": (math.exp, -104, 88.7),
    "expm1": (math.expm1, -30, 88.7),
    "sin": (math.sin, -1e6, 1e6),
    "tanh": (math.tanh, -25, 25),
}


@pytest.mark.parametrize("kind", LIBRARY)
def test_functions_of_the_c_library_are_close_to_correct(kind: MathKind) -> None:
    """Within two units in the last place, near 0 and over the whole range."""
    function, low, high = LIBRARY[kind]
    rng = np.random.default_rng(8)
    x = np.concatenate([rng.uniform(low, high, 20000), rng.normal(size=10000) * 0.5]).astype(np.float32)
    wanted = np.array([function(float(v)) for v in x]).astype(np.float32)
    assert np.abs(math_function(kind, x).view(np.int32) - wanted.view(np.int32)).max() <= 2


def test_results_outside_the_domain() -> None:
    x = np.array([np.inf, -np.inf, -1.0, 0.0], np.float32)
    bits = {kind: math_function(kind, x).view(np.uint32).tolist() for kind in KINDS}
    nan, infinite = 0xFFC00000, 0x7F800000
    assert bits["sin"][:2] == bits["cos"][:2] == [nan, nan]
    assert bits["log"] == [infinite, nan, nan, infinite | 1 << 31]
    assert bits["sqrt"] == [infinite, nan, nan, 0]
    assert bits["exp"][:2] == [infinite, 0]
    assert math_function("round", np.array([-0.4, -0.0], np.float32)).view(np.uint32).tolist() == [0, 1 << 31]


def test_estimated_roots_are_close_to_correct() -> None:
    x = np.exp(np.random.default_rng(9).uniform(-80, 80, 20000)).astype(np.float32)
    roots = {"sqrt_of_estimate": np.sqrt(x), "rsqrt_of_estimate": np.float32(1) / np.sqrt(x)}
    for kind, wanted in roots.items():
        found = math_function(kind, x)
        assert np.abs(found.view(np.int32) - wanted.view(np.int32)).max() <= 3, kind
