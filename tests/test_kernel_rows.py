"""Every row of the kernel table gives the prim interpreter's bytes around the edges of its tiles.

A row is tested with every target that has its instructions; what this machine cannot run is skipped by name,
and AArch64 and WebAssembly run under emulators. ``QIMPORT_SWEEP=long`` tests many more sizes.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from assembly import row_named
from emulated_kernels import check_emulated, skip_without_tools
from kernel_harness import CompiledKernels, KernelModule, run_program, same_bytes
from mac_cases import MacCase, sample

from qimport import prim
from qimport.codegen.host import resolve_target, why_not_runnable
from qimport.codegen.isa.channels import CHANNEL_PRODUCTS
from qimport.codegen.isa.taps import TAP_PRODUCTS
from qimport.codegen.program import generate
from qimport.codegen.table import MAC_ROWS, Row, choose, rows_for
from qimport.codegen.target import Target, target_descriptions
from qimport.errors import TargetError
from qimport.ir.graph import Array, Builder, Graph, Value
from qimport.ir.interpret import interpret
from qimport.ir.types import TensorType
from qimport.lower.kernel import Kernel
from qimport.lower.schedule import make_plan

LONG = os.environ.get("QIMPORT_SWEEP") == "long"

TARGETS = [resolve_target(name) for name in target_descriptions()]
PAIRS = [(row, target) for target in TARGETS for row in MAC_ROWS if row.available(target)]
"""Rows with the named targets that have their instructions."""

DEPTHWISE: dict[str, Sequence[Any]] = {
    "kind": ("depthwise",),
    "inputs": (2, 3, 8, 12, 16, 17, 24, 31, 32, 40, 48, 64, 65, 70, 96, 130, 257, 300),
    "multiplier": (1, 1, 1, 1, 2, 4, 8),
    "width": (1, 2, 3, 4, 5, 7, 8, 9, 16, 33, 70),
    "height": (1, 2, 3, 5),
    "window": ((3, 3), (3, 3), (5, 5), (1, 1), (2, 2), (1, 3), (3, 1), (4, 1), (1, 5), (3, 2)),
}
"""Channels and columns in one block or in several, with and without an incomplete last one."""

TAPS = {
    f"mac_depthwise_{product.name}": DEPTHWISE
    | ({"zeros": ("middle",)} if product.weight_dtype == "int8" else {})
    for product in TAP_PRODUCTS
}

TILES = {
    f"mac_depthwise_tile_{product.name}": DEPTHWISE
    | {"inputs": (8, 16, 24, 40), "window": ((3, 3), (3, 3), (5, 5), (2, 2), (1, 3), (4, 1), (7, 7))}
    | ({"zeros": ("middle",)} if product.dtype == "int8" else {})
    for product in CHANNEL_PRODUCTS
}
"""Whole blocks of channels, windows that registers hold and others."""

SPECIAL: dict[str, dict[str, Sequence[Any]]] = {
    "mac_amx": {
        "kind": ("dense", "pointwise", "pointwise", "window", "groups"),
        "zeros": ("middle", "middle", "random", "high"),
        "inputs": (3, 9, 16, 20, 32, 48, 52, 64, 70, 80, 128, 192),
    },
    "mac_depthwise": {"kind": ("depthwise",)},
    **TAPS,
    **TILES,
    "mac_direct": {"runtime": (("w", "bias"), ("w",), ("bias",), ())},
}
"""Choices that leave more cases to which a row applies."""

LONG_SUMS: dict[str, Sequence[Any]] = {
    "x_dtype": ("int16",),
    "accumulator": ("int64",),
    "rounding": ("single_up", "float64_away", "single_up", None),
}
"""Choices for activations of 16 bits whose sums have 64."""

WORDS: tuple[dict[str, Sequence[Any]], ...] = (LONG_SUMS, {"x_dtype": ("int16",)})
WORD_WEIGHTS = {**LONG_SUMS, "w_dtype": ("int16",)}


def kinds(row: Row) -> Sequence[dict[str, Sequence[Any]]]:
    """Choices of element types for the operands that a row takes."""
    if row.name.endswith("_words"):
        return WORDS
    if row.name in ("mac_depthwise", "mac_depthwise_tile_neon") or row.name.endswith("_pairs"):
        return ({}, *WORDS)
    return ({}, *WORDS, WORD_WEIGHTS) if row.name == "mac_direct" else ({},)


LONG_CHOICES: dict[str, Sequence[Any]] = {
    "width": range(1, 41),
    "inputs": range(1, 71),
    "outputs": range(1, 71),
    "height": range(1, 6),
    "multiplier": range(1, 6),
    "window": [(rows, columns) for rows in range(1, 6) for columns in range(1, 6)],
}


def is_best(row: Row, target: Target) -> bool:
    """Whether ``target`` would use this row for some kernels, rather than rows of older instructions."""

    def family(name: str) -> tuple[bool, ...]:
        words = name.endswith("_words")
        return name.startswith("mac_depthwise"), words, name.endswith("_pairs"), name.endswith("_wide")

    if row.name == "mac_depthwise":
        return not any(other.name.endswith("_pairs") for other in MAC_ROWS if other.available(target))
    if row.name in TILES:
        return True
    if not row.name.startswith(("mac_tile", "mac_block", "mac_depthwise")):
        return True
    here = [other for other in MAC_ROWS if other.available(target)]
    return row is next(other for other in here if family(other.name) == family(row.name))


def cases(row: Row, target: Target) -> list[MacCase]:
    """Cases of every kind; in the long sweep fewer for rows that a target would not use."""
    special, best, found = SPECIAL.get(row.name, {}), is_best(row, target), []
    for number, kind in enumerate(kinds(row)):
        if LONG:
            found += sample(300 if best else 60, 7 + number, **{**LONG_CHOICES, **special, **kind})
        else:
            few = row.name in (*TAPS, *TILES)
            found += sample(10 if few else 14, len(target.features) + 50 * number, **{**special, **kind})
    return found


def saturating_cases(row: Row) -> list[MacCase]:
    """All operands at the ends of their ranges; pairs of such products do not fit into 16 bits."""
    plain: dict[str, Sequence[Any]] = {
        "x_dtype": ("uint8", "int8"),
        "w_dtype": ("int8", "uint8", "int8"),
        "zeros": ("middle",),
        "content": ("highest", "lowest", "opposite", "alternating"),
        "inputs": (64,),
        "outputs": (33,),
        "width": (14,),
        "window": ((2, 2),),
        "dilation": ((1, 1),),
        "rounding": (None,),
        "gaps": (None,),
    }
    fixed = {**plain, **SPECIAL.get(row.name, {}), "inputs": (64,)}
    found = []
    for kind in kinds(row):
        inputs = {"inputs": (64, 300, 70)} if kind else {}
        found += sample(12 if LONG else 8, 3, **{**fixed, **kind, **inputs})
    return found


def module_of(row: Row, target: Target, found: Sequence[MacCase]) -> tuple[KernelModule, list[list[Array]]]:
    """The kernels of all cases to which ``row`` applies, and their operands."""
    module, operands = KernelModule(target), []
    for number, case in enumerate(found):
        kernel, arrays = case.kernel()
        if row.available(target) and row.applies(kernel):
            module.add(kernel, row, f"kernel_{number}")
            operands.append(arrays)
    return module, operands


def sweep(row: Row, target: Target, found: Sequence[MacCase]) -> None:
    """Compile and check all cases, with the residual operand overwritten where a kernel works in place."""
    module, operands = module_of(row, target, found)
    assert len(operands) * 2 >= len(found), "too few cases for this row"
    compiled = CompiledKernels(module)
    for emitted, arrays in zip(module.kernels, operands, strict=True):
        case = found[int(emitted.name.removeprefix("kernel_"))]
        compiled.check(emitted, arrays, f"in {row.name} for {target.name}, {case}", overwritten=-1)


def skip_unless_runnable(row: Row, target: Target) -> None:
    """Skip by the row's name."""
    if (reason := why_not_runnable(target)) is not None:
        pytest.skip(f"{row.name} for {target.name} not run: {reason}")


def pair_id(value: Row | Target) -> str:
    """Rows and targets in the names of tests."""
    return value.name


def features(target: Target) -> int:
    """How many features a target has."""
    return len(target.features)


NATIVE_PAIRS = [pair for pair in PAIRS if pair[1].architecture.name == "x86-64" and (LONG or is_best(*pair))]
"""Rows with targets for x86-64; in the short sweep those only that would use them."""

EMULATED = ("arm64", "wasm32")
EMULATED_PAIRS = [
    (row, min(targets, key=lambda target: (EMULATED.index(target.architecture.name), features(target))))
    for row in MAC_ROWS
    if (targets := [t for t in TARGETS if t.architecture.name in EMULATED and row.available(t)])
]
"""Every row with the least target: under an emulator, code does not get better on a better one."""


@pytest.mark.parametrize(("row", "target"), NATIVE_PAIRS, ids=pair_id)
def test_sweep(row: Row, target: Target) -> None:
    skip_unless_runnable(row, target)
    sweep(row, target, cases(row, target))


def long_cases(row: Row) -> list[MacCase]:
    """Pixels with so many activations that a tile of them does not fit on the stack."""
    shape = {"width": (1, 2), "height": (1,), "outputs": (5,), "batch": (1,), "runtime": ((),)}
    words = LONG_SUMS if row.name.endswith("_words") else {}
    long_dense = {"kind": ("dense",), "inputs": (30001,)}
    many_channels = {"kind": ("window",), "inputs": (3002,), "window": ((3, 3),)}
    return [case for long in (long_dense, many_channels) for case in sample(2, 7, **words, **shape, **long)]


@pytest.mark.parametrize(
    ("row", "target"), [pair for pair in NATIVE_PAIRS if "mac_tile" in pair[0].name], ids=pair_id
)
def test_windows_beyond_the_stack(row: Row, target: Target) -> None:
    skip_unless_runnable(row, target)
    sweep(row, target, long_cases(row))


@pytest.mark.parametrize("row", MAC_ROWS, ids=pair_id)
def test_sweep_on_this_machine(row: Row) -> None:
    try:
        host = resolve_target("host")
    except TargetError as error:
        pytest.skip(f"{row.name} not run: {error}")
    if not row.available(host):
        pytest.skip(f"{row.name} not run: this machine lacks its instructions")
    sweep(row, host, cases(row, host))


HEAVY: dict[str, Sequence[Any]] = {
    "kind": ("window",),
    "batch": (1,),
    "zeros": ("middle",),
    "height": (6,),
    "width": (7,),
    "inputs": (1152,),
    "outputs": (970,),
    "window": ((1, 1),),
    "dilation": ((1, 1),),
    "epilogue": ("residual in place",),
}
"""A layer whose weights do not stay in the cache while its pixels are walked."""


@pytest.mark.parametrize("stride", [(1, 1), (2, 2)], ids=["read in place", "gathered"])
def test_heavy_weights(stride: tuple[int, int]) -> None:
    row, target = row_named("mac_amx"), resolve_target("x86-64-amx")
    skip_unless_runnable(row, target)
    sweep(row, target, sample(1, 4, **HEAVY, stride=(stride,)))


@pytest.mark.parametrize(("row", "target"), [p for p in NATIVE_PAIRS if is_best(*p)], ids=pair_id)
def test_nothing_saturates(row: Row, target: Target) -> None:
    skip_unless_runnable(row, target)
    sweep(row, target, saturating_cases(row))


@pytest.mark.parametrize(("row", "target"), EMULATED_PAIRS, ids=pair_id)
def test_sweep_under_an_emulator(row: Row, target: Target, tmp_path: Path) -> None:
    skip_without_tools(target)
    found = [*cases(row, target), *saturating_cases(row), *long_cases(row)]
    module, operands = module_of(row, target, found)
    wrong = check_emulated(module, operands, tmp_path, overwritten=-1)
    assert not wrong, [found[int(name.removeprefix("kernel_"))] for name in wrong]


def test_every_row_has_a_target() -> None:
    """And the sweeps name every row, so that none is skipped unseen."""
    assert {row.name for row, _ in (*NATIVE_PAIRS, *EMULATED_PAIRS)} == {row.name for row in MAC_ROWS}


class Network:
    """A small network of prim nodes: every kind of layer, a residual addition, a concatenation."""

    def __init__(self, dtype: str) -> None:
        self.dtype = dtype
        self.rng = np.random.default_rng(5)
        self.b = Builder()

    def constant(self, low: int, high: int, shape: tuple[int, ...], dtype: str) -> Value:
        return self.b.constant(self.rng.integers(low, high, shape).astype(dtype))

    def layer(
        self, x: Value, outputs: int, window: int = 1, groups: int = 1, add: Value | None = None
    ) -> Value:
        """A convolution without padding, rescaled to the network's type, with ``add`` on top."""
        w = self.constant(-128, 128, (outputs, window, window, x.type.shape[3] // groups), "int8")
        op = prim.Mac(groups=groups, input_zero=0 if self.dtype == "int16" else -3)
        sums = self.b.emit(
            op, (x, w, self.constant(-900, 900, (outputs,), "int32")), op.result_type(x.type, w.type)
        )
        factors = (
            self.constant(2**30, 2**31, (outputs,), "int32"),
            self.constant(-10, -7, (outputs,), "int32"),
        )
        scaled = self.b.emit(prim.Rescale("double_away"), (sums, *factors), sums.type)
        if add is not None:
            wide = self.b.emit(prim.Cast(), (add,), sums.type)
            scaled = self.b.emit(prim.Binary("add"), (scaled, wide), sums.type)
        return self.b.emit(prim.Clamp(4, -128, 127), (scaled,), TensorType(self.dtype, sums.type.shape))

    def graph(self) -> Graph:
        x = Value(TensorType(self.dtype, (1, 9, 11, 16)), "x")
        first = self.layer(x, 32, window=3)
        branch = self.layer(self.layer(first, 32, groups=32), 32, groups=2)
        joined = self.layer(branch, 32, add=first)
        parts = (self.layer(joined, 20), self.layer(joined, 12, add=self.layer(first, 12)))
        whole = self.b.emit(prim.Concat(3), parts, joined.type)
        flat = self.b.emit(prim.Reshape(), (whole,), TensorType(self.dtype, (1, 1, 1, whole.type.size)))
        return Graph("network", (x,), (self.layer(flat, 10), whole), tuple(self.b.nodes))


@pytest.mark.parametrize("row", MAC_ROWS, ids=pair_id)
def test_any_row_may_be_chosen(row: Row) -> None:
    """A whole program with every kernel in this row that it applies to."""
    try:
        host = resolve_target("host")
    except TargetError as error:
        pytest.skip(f"{row.name} not run: {error}")
    if not row.available(host):
        pytest.skip(f"{row.name} not run: this machine lacks its instructions")
    graph = Network("int16" if row.name.endswith("_words") else "int8").graph()
    plan = make_plan(graph)

    def choice(kernel: Kernel, target: Target) -> Row:
        return row if row in rows_for(kernel, target) else choose(kernel, target)

    program = generate(plan, host, choice=choice)
    assert row.name in program.rows
    x = np.random.default_rng(6).integers(-128, 128, graph.inputs[0].type.shape)
    x = x.astype(graph.inputs[0].type.numpy)
    for found, wanted in zip(run_program(program, plan, host, [x]), interpret(graph, [x]), strict=True):
        assert same_bytes(found, wanted)
