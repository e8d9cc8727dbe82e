"""What hot loops are made of: a guard of speed that no busy machine can disturb.

Every expectation counts instructions of an innermost loop in the assembly of one kernel. A change that makes
a loop better may make a limit smaller; one that exceeds a limit has to say why.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from assembly import assembly, hottest, innermost_loops, row_named
from kernel_harness import kernel_of
from mac_cases import sample

from qimport import prim
from qimport.fixedpoint import Rounding
from qimport.ir.graph import Builder, Value
from qimport.ir.types import TensorType
from qimport.lower.kernel import Kernel

POINTWISE: dict[str, Sequence[Any]] = {
    "kind": ("pointwise",),
    "x_dtype": ("int8",),
    "w_dtype": ("int8",),
    "zeros": ("middle",),
    "bias": ("small",),
    "batch": (1,),
    "height": (2,),
    "width": (48,),
    "inputs": (192,),
    "outputs": (64,),
    "stride": ((1, 1),),
    "dilation": ((1, 1),),
    "rounding": ("double_away",),
    "per_channel": (True,),
    "epilogue": ("clamp",),
    "gaps": (None,),
}

THREE = ((3, 3),)

LAYERS: dict[str, dict[str, Sequence[Any]]] = {
    "pointwise": {},
    "unsigned": {"x_dtype": ("uint8",), "w_dtype": ("uint8",)},
    "window": {"kind": ("window",), "window": THREE, "inputs": (128,)},
    "wide": {"inputs": (160,), "outputs": (320,), "width": (20,)},
    "dense": {"kind": ("dense",), "width": (1,), "inputs": (640,), "outputs": (128,)},
    "first": {"kind": ("window",), "window": THREE, "inputs": (3,), "outputs": (32,), "stride": ((2, 2),)},
    "depthwise": {"kind": ("depthwise",), "window": THREE, "inputs": (128,), "multiplier": (1,)},
    "words": {"x_dtype": ("int16",)},
}
LAYERS["strided"] = {**LAYERS["depthwise"], "stride": ((2, 2),)}
LAYERS["five"] = {**LAYERS["depthwise"], "window": ((5, 5),)}
"""What makes a layer different from :data:`POINTWISE`."""


def layer(name: str, **choices: Sequence[Any]) -> Kernel:
    """The kernel of a layer."""
    (case,) = sample(1, 1, **{**POINTWISE, **LAYERS[name], **choices})
    return case.kernel()[0]


@dataclass(frozen=True)
class Hot:
    """A row for a target: the instruction that must do the work, and what it may cost.

    ``most`` is, for each layer, how many instructions of the loop there may be for one of these.
    """

    row: str
    target: str
    instruction: str
    most: dict[str, float]


HOT = [
    Hot("mac_amx", "x86-64-amx", r"^tdpb[su]sd\s.*%tmm",
        {"pointwise": 4.0, "unsigned": 4.0, "window": 4.3, "wide": 4.0}),
    Hot("mac_tile_avx512vnni", "x86-64-vnni", r"vpdpbusd\s.*%zmm",
        {"pointwise": 1.6, "window": 1.6, "wide": 1.6, "dense": 2.3, "first": 1.8}),
    Hot("mac_tile_avxvnni", "x86-64-avxvnni", r"vpdpbusd\s.*%ymm",
        {"pointwise": 2.3, "window": 2.3, "wide": 2.3, "dense": 2.3, "first": 2.3}),
    Hot("mac_tile_avx512", "x86-64-v4", r"vpmaddwd\s.*%zmm", {"pointwise": 2.6, "window": 2.6}),
    Hot("mac_tile_avx2", "x86-64-v3", r"vpmaddwd\s.*%ymm",
        {"pointwise": 3.2, "unsigned": 3.2, "window": 3.3, "dense": 3.3, "first": 3.3}),
    Hot("mac_tile_sse2", "x86-64", r"pmaddwd\s.*%xmm", {"pointwise": 3.8, "window": 3.9}),
    Hot("mac_tile_avx512vnni_words", "x86-64-vnni", r"vpdpwssd\s.*%zmm", {"words": 1.6}),
    Hot("mac_tile_avx2_words", "x86-64-v3", r"vpmaddwd\s.*%ymm", {"words": 3.2}),
    Hot("mac_block_i8mm", "arm64-i8mm", r"^smmla\s", {"pointwise": 1.33, "wide": 1.33, "window": 1.33}),
    Hot("mac_block_dotprod", "arm64-dotprod", r"^sdot\s.*b\[\d\]$",
        {"pointwise": 1.17, "unsigned": 1.17, "window": 1.17, "dense": 1.8}),
    Hot("mac_block_neon", "arm64", r"^s(mull|mlal2|adalp)\s", {"pointwise": 1.14, "window": 1.14}),
    Hot("mac_depthwise_avx512vnni", "x86-64-vnni", r"vpdpbusd\s.*%zmm", {"depthwise": 5.5, "strided": 6.0}),
    Hot("mac_depthwise_avx512_pairs", "x86-64-v4", r"vpmaddwd\s.*%zmm", {"depthwise": 4.3, "strided": 4.9}),
    Hot("mac_depthwise_tile_dotprod", "arm64-dotprod", r"^sdot\s", {"depthwise": 4.4, "strided": 6.1}),
    Hot("mac_depthwise_tile_neon_bytes", "arm64", r"^sm(ul|la)l\s",
        {"depthwise": 4.3, "strided": 4.7}),
    Hot("mac_depthwise_dotprod", "arm64-dotprod", r"^sdot\s", {"depthwise": 5.1, "five": 2.5}),
    Hot("mac_depthwise", "arm64", r"^smlal\s", {"depthwise": 4.5}),
]  # fmt: skip

CASES = [pytest.param(hot, name, id=f"{hot.row}-{hot.target}-{name}") for hot in HOT for name in hot.most]


@pytest.mark.parametrize(("hot", "name"), CASES)
def test_the_hot_loop(hot: Hot, name: str) -> None:
    """It is made of the row's instruction, keeps all in registers, calls nothing, and nothing saturates."""
    kernel = layer(name)
    text = assembly(kernel, hot.target, row_named(hot.row))
    loop = hottest(text, hot.instruction)
    products = loop.count(hot.instruction)
    assert products >= 4, loop
    assert not loop.on_stack, loop
    assert not loop.count(r"^(callq?|bl)\s"), loop
    assert loop.length <= hot.most[name] * products, f"{loop.length / products:.2f}\n{loop}"
    assert "pmaddubsw" not in text


@pytest.mark.parametrize(
    ("row", "target", "instruction", "products", "most"),
    [
        ("mac_depthwise_tile_neon_bytes", "arm64", r"^sm(ul|la)l\s", 7 * 25, 3.2),
        ("mac_depthwise_tile_dotprod_across", "arm64-dotprod", r"^sdot\s", 7 * 20, 3.3),
    ],
)
def test_wide_windows_cost_few_spills(
    row: str, target: str, instruction: str, products: int, most: float
) -> None:
    """Registers do not hold a window of 25 taps: what they lack is loaded once for seven pixels."""
    loop = hottest(assembly(layer("five", width=(28,)), target, row_named(row)), instruction)
    assert loop.count(instruction) == products, loop
    assert loop.length <= most * products, f"{loop.length / products:.2f}\n{loop}"


@pytest.mark.parametrize("name", ["pointwise", "window", "wide"])
def test_tiles_are_loaded_before_they_are_multiplied(name: str) -> None:
    """In the other order the tile unit waits for every load, which takes two to three times as long."""
    loop = hottest(assembly(layer(name), "x86-64-amx", row_named("mac_amx")), "tdpb")
    order = "".join("L" if "tileload" in line else "P" for line in loop.matching("tileload|tdpb"))
    assert re.fullmatch("(LLLLPPPP)+", order), order
    products = [line.split()[-1] for line in loop.matching("tdpb")]
    assert len(set(products)) == 4, "four tiles of sums"
    assert not loop.count("tilestored"), loop


@pytest.mark.parametrize("rounding", ["double_away", "double_up", "float32_even"])
@pytest.mark.parametrize(
    ("row", "target", "vector", "most"),
    [
        ("mac_amx", "x86-64-amx", 16, 15),
        ("mac_tile_avx512vnni", "x86-64-vnni", 16, 15),
        ("mac_tile_avx2", "x86-64-v3", 8, 20),
    ],
)
def test_requantization_costs_few_instructions(
    row: str, target: str, vector: int, most: int, rounding: str
) -> None:
    """``most`` for each vector of sums, from loading to storing, without any product of 64 bits."""
    text = assembly(layer("pointwise", rounding=(rounding,)), target, row_named(row))
    loop = hottest(text, r"vcvtdq2ps\s")
    sums = loop.count(r"vcvtdq2ps\s")
    assert sums >= 1, text
    assert not loop.count(r"vpmul(u?dq|lq)\s"), loop
    assert not loop.spills, loop
    assert loop.length <= most * sums, f"{loop.length / sums:.1f} for {vector} sums\n{loop}"


def sums_kernel(rounding: Rounding) -> Kernel:
    """Sums that become bytes."""
    b = Builder()
    x = Value(TensorType("int32", (64, 64)), "x")
    factors = [np.array([2**30 + 1], np.int32), np.array([-9], np.int32)]
    if rounding == "float32_even":
        factors = [np.array([0.003], np.float32)]
    scaled = b.emit(prim.Rescale(rounding), (x, *map(b.constant, factors)), x.type)
    return kernel_of(b.nodes, b.emit(prim.Clamp(5, -128, 99), (scaled,), TensorType("int8", (64, 64))))


@pytest.mark.parametrize(
    ("rounding", "most"), [("double_away", 28), ("double_up", 24), ("exact_up", 24), ("float32_even", 28)]
)
def test_requantization_by_neon(rounding: Rounding, most: int) -> None:
    """``most`` for sixteen sums, from loading to storing; SQXTN is there for each register of them."""
    loop = hottest(assembly(sums_kernel(rounding), "arm64"), r"^sqxtn2?\s.*\.4s$")
    assert loop.count(r"^sqxtn2?\s.*\.4s$") == 4, loop
    assert loop.length <= most, loop


def test_sums_of_pairs_by_neon() -> None:
    """A product of 16 bits for each limb of each of 32 codes, and nothing wider."""
    b = Builder()
    codes = [Value(TensorType("int8", (64, 64)), name) for name in "ab"]
    factors = b.constant(np.array([2**28 - 5, -(2**26) - 1, 2**36 + 1], np.int64))
    kernel = kernel_of(b.nodes, b.emit(prim.PairSum(29, -128, 99), (*codes, factors), codes[0].type))
    loop = hottest(assembly(kernel, "arm64"), r"^(smull|smlal)2?\s")
    assert loop.count(r"^(smull|smlal)2?\s.*\.4s, ") == 16, loop
    assert loop.length <= 48, loop


def table_kernel() -> Kernel:
    """256 bytes, looked up by each of many."""
    b = Builder()
    x = Value(TensorType("int8", (1, 64, 64, 64)), "x")
    table = b.constant(np.arange(256).astype(np.int8))
    return kernel_of(b.nodes, b.emit(prim.Lut(), (x, table), x.type))


@pytest.mark.parametrize(
    ("target", "instruction", "count", "most"),
    [
        ("x86-64-amx", r"vperm[it]2b\s.*%zmm", 2, 10),
        ("x86-64-vnni", r"vpshufb\s.*%zmm", 16, 62),
        ("x86-64-v3", r"vpshufb\s.*%ymm", 16, 76),
        ("arm64", r"^tb[lx]\s", 4, 14),
    ],
)
def test_tables_of_bytes_stay_in_registers(target: str, instruction: str, count: int, most: int) -> None:
    """A whole vector of bytes per round, by shuffles instead of a load for each byte."""
    loop = hottest(assembly(table_kernel(), target), instruction)
    assert loop.count(instruction) == count, loop
    assert loop.length <= most, loop


LOOPS = """
outer:
.LBB0_1:
	movl	%eax, %ecx
.LBB0_2:	# a comment
	addl	$1, %ecx
	vmovups	%zmm1, 8(%rsp)
	jne	.LBB0_2
	jne	.LBB0_1
	jmp	.LBB0_3
.LBB0_3:
	retq
"""


def test_innermost_loops_are_found() -> None:
    (loop,) = innermost_loops(LOOPS)
    assert [line.split()[0] for line in loop.lines] == ["addl", "vmovups", "jne"]
    assert len(loop.spills) == len(loop.on_stack) == 1
