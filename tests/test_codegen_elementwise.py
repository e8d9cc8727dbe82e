"""Elementwise kernels give the bytes of the prim interpreter on every target this machine runs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from kernel_harness import check, kernel_of

from qimport import prim
from qimport.codegen.host import host_target, resolve_target, why_not_runnable
from qimport.codegen.tables import TableLayout, specialization
from qimport.fixedpoint import Rounding, narrow_multiplier, quantize_multiplier
from qimport.ir.graph import Array, Builder, Value
from qimport.ir.types import TensorType

SIZES = (1, 3, 8, 15, 17, 33, 64, 70)
ROUNDINGS: tuple[Rounding, ...] = (
    "double_away",
    "double_up",
    "exact_up",
    "exact_up_saturated",
    "narrow_up",
    "float32_even",
    "float64_away",
    "float64_away_saturated",
)
EXTREMES = np.array([-(2**31), -(2**31) + 1, -1, 0, 1, 2**31 - 1, 2**30, -(2**30), 2**24 + 1, -(2**24) - 1])


@pytest.fixture(params=["x86-64", "x86-64-v3", "x86-64-v4", "host"])
def target(request: pytest.FixtureRequest) -> str:
    """Every x86 level, and everything this machine has."""
    if (reason := why_not_runnable(resolve_target(request.param))) is not None:
        pytest.skip(reason)
    return str(request.param)


def accumulators(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """int32 values: extremes, small ones with many ties, and everything between."""
    size = int(np.prod(shape))
    values = rng.integers(-(2**31), 2**31, size) >> rng.integers(0, 31, size)
    values[: min(size, len(EXTREMES))] = EXTREMES[:size]
    return rng.permutation(values).astype(np.int32).reshape(shape)


def factors(rounding: Rounding, scales: np.ndarray) -> list[Array]:
    """The constant operands of a rescale."""
    if not rounding.startswith("float"):
        parts = narrow_multiplier if rounding == "narrow_up" else quantize_multiplier
        pairs = [parts(float(scale)) for scale in scales]
        return [np.array(column, np.int32) for column in zip(*pairs, strict=True)]
    return [scales.astype(rounding.split("_")[0])]


SCALES: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "shifts": lambda rng, n: np.exp2(rng.uniform(-32, -1, n)),
    "ties": lambda rng, n: np.exp2(rng.integers(-31, 0, n)),
    "mixed": lambda rng, n: np.exp2(rng.uniform(-33, 6, n)),
    "zeros": lambda rng, n: np.where(rng.random(n) < 0.5, 0.0, 0.3),
}


@pytest.mark.parametrize("scales", SCALES)
@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_rescale_per_channel(target: str, rounding: Rounding, scales: str) -> None:
    """Every rounding on extremes and ties, with and without the clamp that may be folded into it."""
    rng = np.random.default_rng(1)
    for channels in (1, 5, 16, 23, 67):
        b, x = Builder(), Value(TensorType("int32", (12, channels)), "x")
        constants = [b.constant(f) for f in factors(rounding, SCALES[scales](rng, channels))]
        y = b.emit(prim.Rescale(rounding), (x, *constants), x.type)
        z = b.emit(prim.Clamp(-11, -100, 119), (y,), TensorType("int8", x.type.shape))
        values = accumulators(rng, x.type.shape)
        check(kernel_of(b.nodes[:1], y), [values], target)
        check(kernel_of(b.nodes, z), [values], target)


@pytest.mark.parametrize("rounding", ["double_away", "double_up"])
def test_rescale_with_leftover_channels(target: str, rounding: Rounding) -> None:
    """The last channels round otherwise, with one factor for all or one each."""
    rng = np.random.default_rng(2)
    other: Rounding = "double_up" if rounding == "double_away" else "double_away"
    for channels, first in ((9, 8), (20, 16), (5, 0), (16, 16)):
        for count in (1, channels):
            b, x = Builder(), Value(TensorType("int32", (40, channels)), "x")
            constants = [b.constant(f) for f in factors(rounding, np.exp2(rng.integers(-9, -1, count)))]
            y = b.emit(prim.Rescale(rounding, other, first), (x, *constants), x.type)
            check(kernel_of(b.nodes, y), [rng.integers(-999, 999, x.type.shape).astype(np.int32)], target)


@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_rescale_of_a_whole_tensor(target: str, rounding: Rounding) -> None:
    """One factor, every tail length, into uint8 and int16."""
    rng = np.random.default_rng(3)
    for size in SIZES:
        for dtype, clamp in (
            ("uint8", prim.Clamp(128, 0, 255)),
            ("int16", prim.Clamp(0, -(2**15), 2**15 - 1)),
        ):
            b, x = Builder(), Value(TensorType("int32", (size,)), "x")
            constants = [b.constant(f) for f in factors(rounding, np.array([0.0078125 * size]))]
            y = b.emit(prim.Rescale(rounding), (x, *constants), x.type)
            z = b.emit(clamp, (y,), TensorType(dtype, x.type.shape))
            check(kernel_of(b.nodes, z), [accumulators(rng, (size,))], target)


def test_vector_and_scalar_code_agree_without_optimization(target: str) -> None:
    """The same bytes at LLVM's optimization level 0 of the middle end."""
    rng = np.random.default_rng(4)
    b, x = Builder(), Value(TensorType("int32", (31, 31)), "x")
    y = b.emit(
        prim.Rescale("double_away"),
        (x, *map(b.constant, factors("double_away", np.exp2(rng.uniform(-30, 3, 31))))),
        x.type,
    )
    check(kernel_of(b.nodes, y), [accumulators(rng, x.type.shape)], target, level=0)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("entries", ["int8", "uint8", "int16", "int32", "float32"])
def test_lut(target: str, dtype: str, entries: str) -> None:
    """All 256 codes and every tail length."""
    rng = np.random.default_rng(5)
    table = rng.integers(0, 256, 256).astype(np.uint8).view(np.int8 if entries == "int8" else np.uint8)
    for size in (*SIZES, 256, 300):
        b, x = Builder(), Value(TensorType(dtype, (size,)), "x")
        y = b.emit(prim.Lut(), (x, b.constant(table.astype(entries))), TensorType(entries, (size,)))
        codes = np.arange(size).astype(np.uint8).view(x.type.numpy)
        check(kernel_of(b.nodes, y), [codes], target)


def test_lut_with_byte_shuffles_of_16() -> None:
    """SSE4.2 alone, which the levels above leave for wider shuffles."""
    if (reason := why_not_runnable(resolve_target("x86-64-v2"))) is not None:
        pytest.skip(reason)
    for dtype in ("int8", "uint8"):
        test_lut("x86-64-v2", dtype, "int8")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("saturate", [False, True])
@pytest.mark.parametrize("rounding", ["even", "away"])
def test_to_int(target: str, rounding: str, saturate: bool, dtype: str) -> None:
    """Ties, the neighbours of one half, both ends of int32, infinities, NaN."""
    edges = [0.5, 1.5, 2.5, 0.0, 1e-30, 3e9, 1e30, np.inf, 2.0**31, 2.0**31 - 0.5, 2.0**31 - 1, 2.0**31 + 0.5]
    edges += [2.0**31 - 128, 2.0**23, 2.0**23 - 0.5, 2.0**24 + 2, 8388609.0, 4503599627370497.5, 2.0**31 + 1]
    edges += [float(np.nextafter(np.dtype(dtype).type(0.5), np.dtype(dtype).type(n))) for n in (0, 1)]
    values = np.array([*edges, *(-e for e in edges), np.nan, *np.linspace(-9, 9, 73)]).astype(dtype)
    b, x = Builder(), Value(TensorType(dtype, values.shape), "x")
    y = b.emit(prim.ToInt(rounding, saturate), (x,), TensorType("int32", values.shape))  # type: ignore[arg-type]
    check(kernel_of(b.nodes, y), [values], target)


@pytest.mark.parametrize("divisors", [(1, 2, 3), (7, 49, 64), (2**31 - 1, 2**30, 12345)], ids=str)
def test_div_round(target: str, divisors: tuple[int, ...]) -> None:
    """Half away from zero on all of int32, uniform divisors and one per element of the last dimension."""
    rng = np.random.default_rng(9)
    for divisor in (np.array(divisors[:1]), np.array(divisors)):
        b, x = Builder(), Value(TensorType("int32", (40, 3)), "x")
        y = b.emit(prim.DivRound(), (x, b.constant(divisor.astype(np.int32))), x.type)
        check(kernel_of(b.nodes, y), [accumulators(rng, (40, 3))], target)


@pytest.mark.parametrize(
    "op", [prim.Clamp(2**31 - 1, -(2**31), 2**31 - 1), prim.Clamp(-(2**31), -7, 9)], ids=str
)
def test_clamp_does_not_overflow(target: str, op: prim.Clamp) -> None:
    """Zero points at both ends of int32."""
    b, x = Builder(), Value(TensorType("int32", (60,)), "x")
    y = b.emit(op, (x,), x.type)
    check(kernel_of(b.nodes, y), [accumulators(np.random.default_rng(10), (60,))], target)


def quantized_add(shape: tuple[int, ...], other: tuple[int, ...]) -> tuple[Builder, list[Value], Value]:
    """The arithmetic of a quantized addition, as it is lowered."""
    b = Builder()
    operands = [Value(TensorType("int8", s), "x") for s in (shape, other)]
    parts = []
    for value, scale in zip(operands, (0.3, 0.5), strict=True):
        wide = b.emit(prim.Cast(), (value,), TensorType("int32", value.type.shape))
        moved = b.emit(prim.Binary("add"), (wide, b.constant(np.array([7], np.int32))), wide.type)
        raised = b.emit(prim.Binary("shift_left"), (moved, b.constant(np.array([20], np.int32))), wide.type)
        constants = map(b.constant, factors("double_away", np.array([scale])))
        parts.append(b.emit(prim.Rescale("double_away"), (raised, *constants), wide.type))
    total = b.emit(prim.Binary("add"), parts, TensorType("int32", np.broadcast_shapes(shape, other)))
    constants = map(b.constant, factors("double_away", np.array([2.0**-19 / 3])))
    scaled = b.emit(prim.Rescale("double_away"), (total, *constants), total.type)
    return b, operands, b.emit(prim.Clamp(3, -128, 127), (scaled,), TensorType("int8", total.type.shape))


@pytest.mark.parametrize(("stride", "in_place"), [(None, False), (29, False), (None, True)])
def test_a_fused_quantized_addition(target: str, stride: int | None, in_place: bool) -> None:
    """A long elementwise kernel: broadcasting, a row stride, and a result that overwrites an operand."""
    rng = np.random.default_rng(11)
    for shape, other in (((3, 23), (3, 23)), ((4, 6, 17), (1, 1, 17)), ((5, 1), (5, 1))):
        b, operands, result = quantized_add(shape, other)
        arrays = [rng.integers(-128, 128, v.type.shape).astype(np.int8) for v in operands]
        check(kernel_of(b.nodes, result, stride, in_place), arrays, target)


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("rounding", ["double_away", "double_up"])
def test_products_in_the_middle_of_two_bytes(target: str, rounding: Rounding, in_place: bool) -> None:
    """Half of an odd product is in doubt: whole registers are computed again, before or after a store."""
    rng = np.random.default_rng(8)
    for channels in (13, 150):
        shape, row = (5, channels), (1, channels)
        b, x, scale = Builder(), Value(TensorType("int8", shape), "x"), Value(TensorType("int8", row), "s")
        wide = [b.emit(prim.Cast(), (v,), TensorType("int32", v.type.shape)) for v in (x, scale)]
        product = b.emit(prim.Binary("mul"), (wide[0], wide[1]), wide[0].type)
        constants = [b.constant(f) for f in factors(rounding, np.array([0.5]))]
        y = b.emit(prim.Rescale(rounding), (product, *constants), wide[0].type)
        z = b.emit(prim.Clamp(2, -128, 127), (y,), x.type)
        values = [rng.integers(-15, 16, n).astype(np.int8) for n in (shape, row)]
        check(kernel_of(b.nodes, z, None, in_place), values, target)


def test_code_depends_on_constants_through_facts_only() -> None:
    """Other factors of the same kind give the same layout and the same facts; a left shift does not."""

    def layout(scale: float) -> tuple[object, int]:
        b, x = Builder(), Value(TensorType("int32", (4, 6)), "x")
        constants = map(b.constant, factors("double_away", np.full(6, scale)))
        y = b.emit(prim.Rescale("double_away"), (x, *constants), x.type)
        kernel = kernel_of(b.nodes, y)
        return specialization(kernel.graph), TableLayout(kernel.graph, host_target()).size

    assert layout(0.1) == layout(0.01)
    assert layout(0.1) != layout(3.0)
