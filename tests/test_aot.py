"""Object files: they link everywhere, need no run-time, and give the interpreter's bytes."""

from __future__ import annotations

import ctypes
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from aot_harness import (
    CC,
    NM,
    STRICT,
    build,
    build_graph,
    link_example,
    planned,
    run_example,
    run_tool,
    sum_of_two,
)
from conftest import ROOT

from qimport.codegen import aot, c_api, elf
from qimport.codegen.host import host_target, resolve_target, why_not_runnable
from qimport.codegen.interface import RESULTS
from qimport.codegen.target import ARM64, target_descriptions, target_named
from qimport.emission import write_files
from qimport.errors import ArgumentError, CompilerBug, TargetError
from qimport.numerics import X86_NUMERICS, Numerics
from qimport.oracle import Oracle, random_inputs

MODELS = sorted(path.stem for path in (ROOT / "models").glob("*.tflite"))
SEEDS = range(3)

ELF_TARGETS = [name for name in target_descriptions() if target_named(name).architecture.elf_machine]


def expect_oracle_bytes(
    oracle: Oracle, command: Sequence[str | Path], model: str, numerics: Numerics
) -> None:
    """The example's bytes are the interpreter's, for several random inputs."""
    inputs, outputs, _ = planned(model, numerics)
    for seed in SEEDS:
        arrays = random_inputs(inputs, seed)
        wanted = oracle.run(ROOT / "models" / f"{model}.tflite", arrays, numerics).outputs
        found = run_example(command, arrays, outputs)
        for info, mine, theirs in zip(outputs, found, wanted, strict=True):
            where = f"{model}, {numerics}, seed {seed}, {info.name}"
            assert mine.tobytes() == theirs.tobytes(), f"{where}: {np.count_nonzero(mine != theirs)} differ"


# The same bytes as the interpreter


@pytest.mark.needs(CC)
@pytest.mark.parametrize("target", ["host", "x86-64", "x86-64-v3"])
@pytest.mark.parametrize("model", MODELS)
def test_host_programs_give_the_interpreters_bytes(
    model: str, target: str, tmp_path: Path, oracle: Oracle
) -> None:
    if reason := why_not_runnable(resolve_target(target)):
        pytest.skip(reason)
    for numerics in X86_NUMERICS:
        program = link_example(build(tmp_path / numerics, model, target, numerics))
        expect_oracle_bytes(oracle, [program], model, numerics)


# The object file


@pytest.mark.needs(NM)
@pytest.mark.parametrize("target", ELF_TARGETS)
def test_objects_need_no_run_time_and_carry_the_prefix(target: str, tmp_path: Path) -> None:
    objects = build(tmp_path, target=target, prefix="Odd_1")[0]
    lines = [line.split() for line in run_tool(NM, objects).splitlines()]
    assert {words[-1] for words in lines if words[-2] == "U"} <= target_named(target).allowed_undefined
    assert {words[-1] for words in lines if words[-2] == "T"} == {"Odd_1_run", "Odd_1_arena_size"}
    assert not [words for words in lines if words[-2] in "BbDdCG"], "there is writable memory"
    named = {words[-1] for words in lines if words[-2] != "U" and not words[-1].startswith((".", "$"))}
    assert all(name.startswith("Odd_1_") for name in named)


@pytest.mark.parametrize("target", ["host", "arm64-dotprod"])
def test_two_builds_are_equal(target: str, tmp_path: Path) -> None:
    first, second = (build(tmp_path / folder, "mobile_int8", target) for folder in ("a", "b"))
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


@pytest.mark.needs(CC)
@pytest.mark.parametrize("options", [["-pie", "-fPIE"], ["-no-pie", "-fno-pie"], ["-static"]], ids=str)
def test_objects_link_into_every_kind_of_program(options: list[str], tmp_path: Path) -> None:
    files = build(tmp_path)
    program = link_example(files, options=[*options, "-Wl,--fatal-warnings", "-Wl,-z,text"])
    inputs, outputs, _ = planned("digits_int8_ptq", "reference")
    assert run_example([program], random_inputs(inputs, 0), outputs)


@pytest.mark.needs(CC)
def test_two_models_link_into_one_program(tmp_path: Path) -> None:
    for name in ("first", "second"):
        build(tmp_path, name=name)
    (tmp_path / "main.c").write_text(
        '#include "first.h"\n#include "second.h"\n'
        "int main(void) { return first_arena_size() != second_arena_size(); }\n"
    )
    run_tool(CC, *STRICT, "-o", "both", "main.c", "first.o", "second.o", directory=tmp_path)
    run_tool(tmp_path / "both")


def test_an_object_that_needs_more_is_our_bug(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(elf, "undefined_symbols", lambda _: frozenset({"memcpy", "__divti3"}))
    with pytest.raises(CompilerBug, match="needs __divti3"):
        build(tmp_path, target="arm64")
    assert not list(tmp_path.iterdir())


def test_system_calls_are_not_assembled_for_other_processors(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(aot, "host_target", lambda: target_named("arm64"))
    with pytest.raises(TargetError, match="without amx-int8"):
        build(tmp_path, target="x86-64-amx")


# The function in a shared library


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The digits model and a sum of two tensors as one shared library."""
    if shutil.which(CC) is None:
        pytest.skip(f"{CC} is not installed")
    folder = tmp_path_factory.mktemp("library")
    objects = [build(folder, name="digits")[0], build_graph(folder, sum_of_two())[0]]
    path = folder / "library.so"
    run_tool(CC, "-shared", "-Wl,-z,text", "-Wl,-z,defs", "-Wl,--fatal-warnings", "-o", path, *objects)
    return ctypes.CDLL(str(path))


def pointers(*addresses: int | None) -> Any:
    """An array of pointers."""
    return (ctypes.c_void_p * len(addresses))(*addresses)


CODE = {name: code for code, (name, _) in enumerate(RESULTS)}


def test_wrong_pointers_give_error_codes(library: ctypes.CDLL) -> None:
    size = library.digits_arena_size()
    room = ctypes.create_string_buffer(size + 128)
    arena = -(-ctypes.addressof(room) // 64) * 64
    image, scores = ctypes.create_string_buffer(64), ctypes.create_string_buffer(b"\x55" * 10, 10)
    ins, outs = pointers(ctypes.addressof(image)), pointers(ctypes.addressof(scores))

    def run(inputs: Any, outputs: Any, address: int | None) -> int:
        return int(library.digits_run(inputs, outputs, ctypes.c_void_p(address)))

    assert run(None, outs, arena) == CODE["ERROR_INPUT"]
    assert run(pointers(None), outs, arena) == CODE["ERROR_INPUT"]
    assert run(ins, None, arena) == CODE["ERROR_OUTPUT"]
    assert run(ins, pointers(None), arena) == CODE["ERROR_OUTPUT"]
    assert run(ins, outs, None) == CODE["ERROR_ARENA"]
    assert {run(ins, outs, arena + shift) for shift in (1, 4, 32, 63)} == {CODE["ERROR_ARENA"]}
    assert scores.raw == b"\x55" * 10
    assert run(ins, outs, arena) == CODE["OK"]
    assert scores.raw != b"\x55" * 10


def test_a_model_without_arena_needs_none(library: ctypes.CDLL) -> None:
    assert library.tiny_arena_size() == 0
    a, b, c = (ctypes.create_string_buffer(16) for _ in range(3))
    addresses = [ctypes.addressof(buffer) + 1 for buffer in (a, b, c)]
    ins, outs = pointers(*addresses[:2]), pointers(addresses[2])
    assert library.tiny_run(ins, outs, None) == CODE["OK"]
    assert library.tiny_run(pointers(addresses[0], None), outs, None) == CODE["ERROR_INPUT"]
    # codes 0 with zero points 3: -0.021 * 3 - 0.037 * 3, in steps of 0.045 from 3
    assert c.raw == b"\0" + bytes([256 - 1]) * 15


def test_arena_size_is_the_plans(library: ctypes.CDLL) -> None:
    assert library.digits_arena_size() == planned("digits_int8_ptq", "reference")[2].arena_bytes


@pytest.mark.needs(CC)
def test_a_refused_system_call_gives_its_code(tmp_path: Path) -> None:
    """The object asks Linux for something that it does not know."""
    if host_target().architecture is ARM64:
        pytest.skip("AMX objects are built on x86-64 only")
    objects = build_with_request(tmp_path, request=0x10FF)
    run_tool(CC, "-shared", "-o", "refused.so", objects, directory=tmp_path)
    library = ctypes.CDLL(str(tmp_path / "refused.so"))
    buffers = [ctypes.create_string_buffer(15) for _ in range(3)]
    a, b, c = map(ctypes.addressof, buffers)
    assert library.tiny_run(pointers(a, b), pointers(c), None) == CODE["ERROR_TILES"]


def build_with_request(directory: Path, request: int) -> Path:
    """An AMX object whose request to Linux is another one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(c_api, "_ARCH_REQ_XCOMP_PERM", request)
        return build_graph(directory, sum_of_two(), "x86-64-amx")[0]


# The folder


def test_folders_are_made_and_leave_no_scraps(tmp_path: Path) -> None:
    folder = tmp_path / "new folder" / "deep"
    paths = build(folder, name="my model")
    assert paths == [folder / name for name in ("my_model.o", "my_model.h", "my_model_example.c")]
    assert sorted(folder.iterdir()) == sorted(paths)


def test_unwritable_folders_are_refused_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ArgumentError, match=r"cannot write to .*file: \w+"):
        write_files(tmp_path / "file", {"a": b""})
    with pytest.raises(ArgumentError, match="cannot write to"):
        write_files(tmp_path / "file" / "below", {"a": b""})
    if os.geteuid() == 0:
        return  # root may write anywhere
    tmp_path.chmod(0o500)
    with pytest.raises(ArgumentError, match="Permission denied"):
        write_files(tmp_path, {"a": b""})


def test_a_failing_write_leaves_the_old_files(tmp_path: Path) -> None:
    write_files(tmp_path, {"a": b"old"})
    with pytest.raises(ArgumentError):
        write_files(tmp_path, {"a": b"new", "b/c": b""})
    assert (tmp_path / "a").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_bad_prefixes_are_refused_with_a_good_one(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="take 'model_9_lives'"):
        build(tmp_path, prefix="9 lives")
