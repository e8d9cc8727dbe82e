"""Objects made into one: the C compiler's run as before, LLVM's do not depend on threads."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from aot_harness import CC, NM, run_tool
from conftest import ROOT

from qimport.codegen import backend, elf
from qimport.codegen.target import target_named
from qimport.compiler import trace
from qimport.errors import CompilerBug

FIRST = """
extern int second(int), shown_data[2];
static int hidden = 5;
int helper(int x) { return x + hidden; }
const char *word(void) { return "word"; }
int first(int x) { return second(x) + helper(1) + shown_data[1]; }
"""
SECOND = """
extern int helper(int), puts(const char *);
extern const char *word(void);
static int hidden = 7;
int shown_data[2] = {1, 100};
int second(int x) { puts(word()); puts("another"); return helper(x) * hidden; }
"""
MAIN = """
int first(int);
int helper(int x) { return x; }
int main(void) { return first(2) == (2 + 5) * 7 + (1 + 5) + 100 ? 0 : 1; }
"""
GLOBAL_OFFSETS = "_GLOBAL_OFFSET_TABLE_"
"""GCC names it wherever code is position independent, and the linker knows it."""

FLAGS = ("-O1", "-fPIC", "-fno-asynchronous-unwind-tables", "-fno-common", "-fcf-protection=none", "-c")


@pytest.mark.parametrize(
    ("compiler", "emulator"),
    [
        pytest.param(CC, (), marks=pytest.mark.needs(CC, NM)),
        pytest.param(
            "aarch64-linux-gnu-gcc",
            ("qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"),
            marks=pytest.mark.needs("aarch64-linux-gnu-gcc", "qemu-aarch64", NM),
        ),
    ],
)
def test_linked_objects_behave_as_their_parts(
    compiler: str, emulator: tuple[str, ...], tmp_path: Path
) -> None:
    for name, text in (("first", FIRST), ("second", SECOND), ("main", MAIN)):
        (tmp_path / f"{name}.c").write_text(text)
    run_tool(compiler, *FLAGS, "first.c", "second.c", directory=tmp_path)
    parts = [(tmp_path / f"{name}.o").read_bytes() for name in ("first", "second")]
    linked = elf.link(parts, {"first"})
    assert linked == elf.link(parts, {"first"})
    assert elf.undefined_symbols(linked) - {GLOBAL_OFFSETS} == {"puts"}
    assert elf.read_machine(linked) == elf.read_machine(parts[0])
    (tmp_path / "linked.o").write_bytes(linked)
    # main has a helper of its own: that of the linked object must be hidden
    run_tool(compiler, "-o", "program", "main.c", "linked.o", directory=tmp_path)
    done = subprocess.run(
        [*emulator, str(tmp_path / "program")], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, "word\nanother\n")
    shown = subprocess.run([NM, "-g", "linked.o"], cwd=tmp_path, capture_output=True, text=True, check=True)
    symbols = [line.split()[-2:] for line in shown.stdout.splitlines() if GLOBAL_OFFSETS not in line]
    assert symbols == [["T", "first"], ["U", "puts"]]


@pytest.mark.needs(CC)
def test_two_definitions_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text("int same(void) { return 1; }\n")
    run_tool(CC, *FLAGS, "a.c", directory=tmp_path)
    content = (tmp_path / "a.o").read_bytes()
    with pytest.raises(CompilerBug, match="two objects define same"):
        elf.link([content, content], ())


def test_only_elf_is_read() -> None:
    with pytest.raises(CompilerBug, match="little-endian ELF"):
        elf.read_machine(b"MZ")


@pytest.mark.parametrize("target", ["x86-64-v3", "arm64"])
def test_objects_do_not_depend_on_threads(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = trace(ROOT / "models" / "digits_int8_ptq.tflite", target).program
    objects = []
    for processors in ({0}, {0, 1, 2}):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, found=processors: found)
        objects.append(backend.object_code(program.modules, target_named(target)))
    assert objects[0] == objects[1]
    symbols = elf.read_symbols(elf.read_sections(objects[0]))
    assert [s.name for s in symbols if s.is_global and s.section] == [program.entry]


def test_broken_code_is_our_bug() -> None:
    with pytest.raises(CompilerBug, match="LLVM rejects"):
        backend.object_code(["define void @f() {", "nothing"], target_named("x86-64"))
