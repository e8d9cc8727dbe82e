"""Objects with several levels: every processor gets the best one it has, and every level the same bytes."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from aot_harness import CC, NM, STRICT, emission, planned, run_example, run_tool
from command_line import DIGITS, succeed

import qimport
from qimport.codegen import aot, levels
from qimport.codegen.aot import interface_of
from qimport.codegen.host import host_target
from qimport.codegen.interface import RESULTS
from qimport.codegen.levels import levels_of
from qimport.codegen.target import X86_64, Evidence, target_named
from qimport.emission import Emission
from qimport.errors import ArgumentError, TargetError
from qimport.lower import parallel
from qimport.oracle import random_inputs

MODEL = "digits_int8_ptq"

CODE = {name: code for code, (name, _) in enumerate(RESULTS)}

PROCESSORS = [
    ("arm64", "qemu-aarch64", "cortex-a53", "arm64"),
    ("arm64", "qemu-aarch64", "cortex-a76", "arm64-dotprod"),
    ("arm64", "qemu-aarch64", "max,sme=off", "arm64-i8mm"),
    ("x86-64", "qemu-x86_64", "Nehalem", "x86-64"),
    ("x86-64", "qemu-x86_64", "Haswell", "x86-64-v3"),
]
"""Architecture, emulator, processor and the level it has."""

COMPILERS = {"arm64": "aarch64-linux-gnu-gcc", "x86-64": CC}

PROGRAM = r"""
#include <stdio.h>
#include "digits.h"

static _Alignas(DIGITS_ARENA_ALIGNMENT) unsigned char arena[DIGITS_ARENA_BYTES];
static DIGITS_INPUT0_TYPE image[DIGITS_INPUT0_ELEMENTS];
static DIGITS_OUTPUT0_TYPE scores[DIGITS_OUTPUT0_ELEMENTS];

int main(void) {
  static const char *const names[DIGITS_LEVELS] = DIGITS_LEVEL_NAMES;
  const void *inputs[] = {image};
  void *outputs[] = {scores};
  if (fread(image, sizeof image, 1, stdin) != 1) return 1;
  if (digits_run(inputs, outputs, arena) != DIGITS_ERROR_ARENA || digits_level(arena) != -1) return 2;
  if (digits_reset(arena + 8) != DIGITS_ERROR_ARENA || digits_reset(NULL) != DIGITS_ERROR_ARENA) return 3;
  if (digits_reset(arena) != DIGITS_OK) return 4;
  if (digits_run(NULL, outputs, arena) != DIGITS_ERROR_INPUT) return 5;
  if (digits_run(inputs, outputs, arena) != DIGITS_OK) return 6;
  printf("%s\n", names[digits_level(arena)]);
  fwrite(scores, sizeof scores, 1, stdout);
  return 0;
}
"""


def files_of(target: str, kinds: tuple[str, ...] = ("obj", "header")) -> Emission:
    """The digits with all levels above a target."""
    return emission(MODEL, target, kinds, name="digits", levels=levels_of(target_named(target)))


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A static program for each architecture whose object this machine can build and link."""
    found = {}
    for target, compiler in COMPILERS.items():
        native = host_target().architecture is target_named(target).architecture
        if shutil.which(compiler) is None or (target == "x86-64" and not native):
            continue
        folder = tmp_path_factory.mktemp(target)
        objects, _ = files_of(target).write(folder)
        (folder / "main.c").write_text(PROGRAM)
        options = ["-std=c11", *STRICT[1:], "-static"]
        run_tool(compiler, *options, "-o", "program", "main.c", objects.name, directory=folder)
        found[target] = folder / "program"
    return found


def level_that_runs(*command: str | Path) -> str:
    """The level that a program takes; its outputs must be those of the compiled model."""
    arrays = random_inputs(planned(MODEL, "reference")[0], 7)
    done = subprocess.run(command, input=arrays[0].tobytes(), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    name, scores = done.stdout.split(b"\n", 1)
    assert scores == qimport.compile(DIGITS).run(*arrays)[0].tobytes()
    return name.decode()


@pytest.mark.parametrize(("target", "emulator", "processor", "level"), PROCESSORS)
def test_every_processor_gets_its_level(
    programs: dict[str, Path], target: str, emulator: str, processor: str, level: str
) -> None:
    if target not in programs:
        pytest.skip(f"programs for {target} cannot be built here")
    if shutil.which(emulator) is None:
        pytest.skip(f"{emulator} is not installed")
    assert level_that_runs(emulator, "-cpu", processor, programs[target]) == level


def test_this_machine_gets_the_best_level_it_has(programs: dict[str, Path]) -> None:
    architecture = host_target().architecture
    if architecture.name not in programs:
        pytest.skip(f"programs for {architecture.name} cannot be built here")
    usable = [name for name in architecture.levels if target_named(name).features <= host_target().features]
    assert level_that_runs(programs[architecture.name]) == usable[-1]


@pytest.mark.needs(CC)
def test_denied_tiles_give_the_level_below(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An object that takes this machine for one with AMX, and asks Linux for something it does not know."""
    if host_target().architecture is not X86_64:
        pytest.skip("AMX objects are built on x86-64 only")
    chosen = (target_named("x86-64"), target_named("x86-64+amx-int8"))
    monkeypatch.setattr(levels, "_evidence", lambda *_: [Evidence("cpuid", (1, 0, 3), 1)])
    monkeypatch.setattr("qimport.codegen.c_api._ARCH_REQ_XCOMP_PERM", 0x10FF)
    files = emission(MODEL, "x86-64", ("shared",), name="digits", levels=chosen)
    library = ctypes.CDLL(str(files.write(tmp_path)[0]))
    arena = aligned_room(files.api.arena_bytes)
    assert library.digits_reset(arena) == CODE["OK"]
    assert library.digits_level(arena) == 0


def aligned_room(nbytes: int) -> Any:
    """So many bytes at a multiple of 64."""
    room = ctypes.create_string_buffer(nbytes + 64)
    return (ctypes.c_char * nbytes).from_buffer(room, -ctypes.addressof(room) % 64)


@pytest.mark.needs(NM)
@pytest.mark.parametrize("target", COMPILERS)
def test_objects_show_the_api_only_and_are_equal(target: str, tmp_path: Path) -> None:
    if target == "x86-64" and host_target().architecture is not X86_64:
        pytest.skip("such objects are built on x86-64 only")
    first, second = (files_of(target).contents() for _ in range(2))
    assert first == second
    (tmp_path / "digits.o").write_bytes(first["digits.o"])
    symbols = [line.split() for line in run_tool(NM, tmp_path / "digits.o").splitlines()]
    shown = {name for *_, kind, name in symbols if kind == "T"}
    assert shown == {"digits_run", "digits_reset", "digits_level", "digits_arena_size"}
    outside = {"memcpy", "memmove", "memset", *(["getauxval"] if target == "arm64" else [])}
    assert {name for *_, kind, name in symbols if kind == "U"} <= outside
    assert not [name for *_, kind, name in symbols if kind in "BbDdCG"], "there is writable memory"


@pytest.mark.needs("aarch64-linux-gnu-gcc", "qemu-aarch64", "readelf")
def test_shared_libraries_for_arm64_need_the_c_library(tmp_path: Path) -> None:
    files = files_of("arm64", ("header", "shared"))
    _, library = files.write(tmp_path)
    dynamic = run_tool("readelf", "-dW", library)
    assert [line.split()[-1] for line in dynamic.splitlines() if "NEEDED" in line] == ["[libc.so.6]"]
    (tmp_path / "main.c").write_text(PROGRAM)
    options = ["-std=c11", *STRICT[1:], f"-L{tmp_path}", f"-Wl,-rpath,{tmp_path}"]
    run_tool(COMPILERS["arm64"], *options, "-o", "program", "main.c", "-ldigits", directory=tmp_path)
    program = tmp_path / "program"
    command = ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu", "-cpu", "cortex-a76", program]
    assert level_that_runs(*command) == "arm64-dotprod"


@pytest.mark.needs(CC)
def test_levels_hand_their_work_to_threads(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    first, second = map(target_named, host_target().architecture.levels[:2])
    monkeypatch.setattr(parallel, "SMALLEST_WORK", 0)
    inputs, outputs, plan = planned(MODEL, "reference", 2)
    api = interface_of("digits", inputs, outputs, plan, first, "reference", levels=(first, second))
    library = ctypes.CDLL(str(Emission(api, plan, ("shared",)).write(tmp_path)[0]))
    task = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t)
    counts = []

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, task, ctypes.c_void_p, ctypes.c_size_t)
    def parallel_for(_pool: int, part: Any, context: int, count: int) -> None:
        counts.append(count)
        for index in reversed(range(count)):
            part(context, index)

    arrays = random_inputs(inputs, 7)
    (wanted,) = qimport.compile(DIGITS).run(*arrays)
    found, arena = np.zeros_like(wanted), aligned_room(api.arena_bytes)
    sources, results = (ctypes.c_void_p * 1)(arrays[0].ctypes.data), (ctypes.c_void_p * 1)(found.ctypes.data)
    assert library.digits_arena_size() == api.arena_bytes
    assert library.digits_run_parallel(sources, results, arena, parallel_for, None) == CODE["ERROR_ARENA"]
    assert library.digits_reset(arena) == CODE["OK"]
    assert library.digits_run_parallel(sources, results, arena, parallel_for, None) == CODE["OK"]
    assert found.tobytes() == wanted.tobytes()
    assert set(counts) == {2}


@pytest.mark.needs(CC)
def test_the_command_builds_levels(tmp_path: Path) -> None:
    first, second = host_target().architecture.levels[:2]
    arguments = ["build", DIGITS, "--name", "digits", "--target", first, "--dispatch-levels", second]
    assert f"target {first} or {second}" in succeed(*arguments, "-o", tmp_path)
    objects, header, example = (tmp_path / name for name in ("digits.o", "digits.h", "digits_example.c"))
    assert f'_LEVEL_NAMES {{"{first}", "{second}"}}' in header.read_text()
    run_tool(CC, *STRICT, "-o", tmp_path / "program", example, objects)
    inputs, outputs, _ = planned(MODEL, "reference")
    arrays = random_inputs(inputs, 7)
    (found,) = run_example([tmp_path / "program"], arrays, outputs)
    assert found.tobytes() == qimport.compile(DIGITS).run(*arrays)[0].tobytes()


# Requests that make no sense


@pytest.mark.parametrize(
    ("target", "names", "sentence"),
    [
        ("riscv64", (), "code for riscv64 has one level only; --dispatch is for x86-64, arm64"),
        ("x86-64-amx", (), "no level is above x86-64-amx; .* such as --target x86-64"),
        ("x86-64-v3", ("x86-64-v2",), "x86-64-v2 is no level above x86-64-v3"),
        ("x86-64", ("arm64",), "arm64 is no level above x86-64"),
        ("x86-64", ("x86-64-v9",), "unknown target 'x86-64-v9'"),
    ],
)
def test_levels_that_make_no_sense(target: str, names: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(TargetError, match=sentence):
        levels_of(target_named(target), names)


def test_levels_are_ordered_and_named_once() -> None:
    names = ("x86-64-vnni", "x86-64-v3", "x86-64-v3", "x86-64")
    found = levels_of(target_named("x86-64"), names)
    assert [level.name for level in found] == ["x86-64", "x86-64-v3", "x86-64-vnni"]


def test_kinds_that_levels_do_not_have() -> None:
    found = levels_of(target_named("arm64"))
    with pytest.raises(ArgumentError, match="--weights embed only"):
        emission(MODEL, "arm64", ("obj", "weights"), separate=True, levels=found)
    with pytest.raises(ArgumentError, match="without --dispatch"):
        emission(MODEL, "arm64", ("asm",), levels=found)


def test_cpuid_is_not_assembled_for_other_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aot, "host_target", lambda: target_named("arm64"))
    with pytest.raises(TargetError, match="leave out --dispatch"):
        files_of("x86-64").contents()
