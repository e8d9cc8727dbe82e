"""Whole networks on every target that has an emulator: the bytes are the interpreter's.

Usually two of the project's models run. With QIMPORT_TARGETS (names of targets with commas between them, or
``all``; ``make test-targets``) all of them do, and the files of the zoo that take emulators some seconds.
"""

from __future__ import annotations

import csv
import functools
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from _pytest.mark.structures import ParameterSet
from conftest import ROOT, zoo_folder
from network_program import EMULATORS, build_network
from zoo_list import REFUSED, UNTRUSTED

from qimport.codegen.target import target_named
from qimport.compiler import trace
from qimport.errors import QimportError
from qimport.ir.graph import Array
from qimport.numerics import NUMERICS, Numerics
from qimport.oracle import Oracle, OracleRefused, random_inputs
from qimport.toolchain import find_compiler, missing_compiler

Record = Callable[[str, object], None]

CHOSEN = os.environ.get("QIMPORT_TARGETS", "")
"""Targets that run everything."""

SAMPLE = ("digits_int8_ptq", "mobile_int8")
"""Models that always run."""

MODES: tuple[Numerics, ...] = ("reference", "xnnpack")

MOST_MACS = 20_000_000
"""Larger files of the zoo take the emulators too long."""

CALLS = 2


def networks() -> Iterator[Path]:
    """The project's models, and the smaller files of the zoo with the smallest first."""
    yield from sorted((ROOT / "models").glob("*.tflite"))
    folder = zoo_folder()
    if folder is None:
        return
    with (folder / "INDEX.tsv").open(newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    sizes = {row["file"]: int(row["macs"]) for row in rows if row["macs"]}
    for name in sorted(sizes, key=lambda name: (sizes[name], name)):
        file = folder / "zoo" / name
        left_out = name.startswith("BADINPUT") or file.stem in REFUSED or file.stem in UNTRUSTED
        if not left_out and sizes[name] <= MOST_MACS:
            yield file


def cases() -> list[ParameterSet]:
    """Every network for each of its targets, one after the other: the interpreter is asked once."""
    chosen = set(EMULATORS) if CHOSEN == "all" else set(CHOSEN.split(",")) - {""}
    if unknown := chosen - set(EMULATORS):
        raise pytest.UsageError(f"QIMPORT_TARGETS names {unknown}; emulators run {', '.join(EMULATORS)}")
    return [
        pytest.param(file, target, id=f"{file.stem}-{target}")
        for file in networks()
        for target in EMULATORS
        if target in chosen or file.stem in SAMPLE
    ]


@pytest.mark.parametrize(("file", "target"), cases())
def test_a_network_on_a_target(
    file: Path, target: str, tmp_path: Path, oracle: Oracle, record_property: Record
) -> None:
    skip_without_tools(target)
    wrong = []
    for mode in MODES:
        found = outcome(file, target, mode, tmp_path / mode, oracle)
        record_property("target", f"{target}, {mode}: {found}")
        if found not in ("equal", "refused by the interpreter"):
            wrong.append(f"{mode}: {found}")
    assert not wrong


def skip_without_tools(target: str) -> None:
    """Skip the calling test where compiler or emulator are missing."""
    if shutil.which(EMULATORS[target][0]) is None:
        pytest.skip(f"{EMULATORS[target][0]} is not installed")
    if find_compiler(target_named(target)) is None:
        pytest.skip(missing_compiler(target_named(target)))


def outcome(file: Path, target: str, mode: Numerics, folder: Path, oracle: Oracle) -> str:
    """What becomes of a network, in a few words."""
    expected = ask(file, mode, oracle)
    if expected is None:
        return "refused by the interpreter"
    sequence, wanted = expected
    try:
        program = build_network(trace(file, target, numerics=mode), folder)
    except QimportError as error:
        return f"not compiled: {error}"
    found = program.run(sequence)
    same = all(
        [array.tobytes() for array in mine] == [array.tobytes() for array in theirs]
        for mine, theirs in zip(found, wanted, strict=True)
    )
    return "equal" if same else "other bytes"


@functools.lru_cache(maxsize=2 * len(NUMERICS))
def ask(file: Path, mode: Numerics, oracle: Oracle) -> tuple[list[list[Array]], list[list[Array]]] | None:
    """Inputs of successive calls and the interpreter's outputs; None where it refuses."""
    try:
        details, _ = oracle.details(file, mode=mode)
        sequence = [random_inputs(details, seed) for seed in range(CALLS)]
        return sequence, oracle.run_sequence(file, sequence, mode)
    except OracleRefused:
        return None
