"""Whole networks on every target that has an emulator: the bytes are the interpreter's.

Usually two of the project's models run. With QIMPORT_TARGETS (names of targets with commas between them, or
``all``; ``make test-targets``) all of them do, and the files of the zoo that take emulators some seconds.
"""

from __future__ import annotations

import csv
import functools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from _pytest.mark.structures import ParameterSet
from conftest import ROOT, zoo_folder
from emulated_kernels import skip_without_tools
from emulator import PLATFORMS, Board
from network_program import NetworkProgram, build_network
from wasm_network import WasmNetwork, link_network
from zoo_list import REFUSED, UNTRUSTED

from qimport.codegen.target import target_named
from qimport.compiler import Compilation, trace
from qimport.errors import UnsupportedError
from qimport.ir.graph import Array
from qimport.numerics import MODES as MODE_OF
from qimport.numerics import Numerics
from qimport.oracle import Oracle, OracleRefused, OracleUnavailable, random_inputs

TARGETS = (*PLATFORMS, "wasm32")

Record = Callable[[str, object], None]

CHOSEN = os.environ.get("QIMPORT_TARGETS", "")
"""Targets that run everything."""

SAMPLE = ("digits_int8_ptq", "mobile_int8")
"""Models that always run."""

MODES: tuple[Numerics, ...] = ("reference", "xnnpack", "xnnpack-arm64")

REFUSED_FOR_ARM = "refused, the bytes on ARM are not known"
"""In the modes of ARM: there are operators whose floats are not reproduced."""

FINE = ("equal", "refused by the interpreter", "skipped, no interpreter for ARM", REFUSED_FOR_ARM)
"""What may become of a network."""

MOST_MACS, MOST_ON_BOARDS = 20_000_000, 1_000_000
"""Larger files of the zoo take the emulators too long, or have no room on a board."""

CALLS = 2


def networks() -> Iterator[tuple[Path, int]]:
    """The project's models, and the smaller files of the zoo by size; with their multiply-accumulates."""
    for file in sorted((ROOT / "models").glob("*.tflite")):
        yield file, 0
    folder = zoo_folder()
    if folder is None:
        return
    with (folder / "INDEX.tsv").open(newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    sizes = {row["file"]: int(row["macs"]) for row in rows if row["macs"]}
    for name in sorted(sizes, key=lambda name: (sizes[name], name)):
        file = folder / "zoo" / name
        left_out = name.startswith("BADINPUT") or file.stem in REFUSED or file.stem in UNTRUSTED
        if not left_out:
            yield file, sizes[name]


def most_macs(target: str) -> int:
    """Of networks that run on a target."""
    return MOST_ON_BOARDS if isinstance(PLATFORMS.get(target), Board) else MOST_MACS


def cases() -> list[ParameterSet]:
    """Every network for each of its targets, one after the other: the interpreter is asked once."""
    chosen = set(TARGETS) if CHOSEN == "all" else set(CHOSEN.split(",")) - {""}
    if unknown := chosen - set(TARGETS):
        raise pytest.UsageError(f"QIMPORT_TARGETS names {unknown}; emulators run {', '.join(TARGETS)}")
    return [
        pytest.param(file, target, id=f"{file.stem}-{target}")
        for file, macs in networks()
        for target in TARGETS
        if file.stem in SAMPLE or (target in chosen and macs <= most_macs(target))
    ]


@pytest.mark.parametrize(("file", "target"), cases())
def test_a_network_on_a_target(
    file: Path, target: str, tmp_path: Path, oracle: Oracle, record_property: Record
) -> None:
    skip_without_tools(target_named(target))
    wrong = []
    for mode in MODES:
        found = outcome(file, target, mode, tmp_path / mode, oracle)
        record_property("target", f"{target}, {mode}: {found}")
        if found not in FINE:
            wrong.append(f"{mode}: {found}")
    assert not wrong


def program_of(stages: Compilation, folder: Path) -> NetworkProgram | WasmNetwork:
    """A model for a target, ready to run."""
    emulated = stages.options.target.name in PLATFORMS
    return build_network(stages, folder) if emulated else link_network(stages, folder)


def outcome(file: Path, target: str, mode: Numerics, folder: Path, oracle: Oracle) -> str:
    """What becomes of a network, in a few words."""
    try:
        sequence, wanted = ask(file, mode, oracle)
    except OracleRefused:
        return "refused by the interpreter"
    except OracleUnavailable:
        return "skipped, no interpreter for ARM"
    stages = trace(file, target, numerics=mode)
    try:
        _ = stages.plan
    except UnsupportedError as error:
        return REFUSED_FOR_ARM if MODE_OF[mode].arm64 else f"not compiled: {error}"
    found = program_of(stages, folder).run(sequence)
    same = all(
        [array.tobytes() for array in mine] == [array.tobytes() for array in theirs]
        for mine, theirs in zip(found, wanted, strict=True)
    )
    return "equal" if same else "other bytes"


@functools.lru_cache(maxsize=len(MODES))
def ask(file: Path, mode: Numerics, oracle: Oracle) -> tuple[list[list[Array]], list[list[Array]]]:
    """Inputs of successive calls and the interpreter's outputs."""
    details, _ = oracle.details(file, mode=mode)
    sequence = [random_inputs(details, seed) for seed in range(CALLS)]
    return sequence, oracle.run_sequence(file, sequence, mode)
