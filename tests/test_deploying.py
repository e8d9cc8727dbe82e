"""What docs/deploying.md shows: the call, the CMake projects, the firmware."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from aot_harness import CC, NM, STRICT, build, emission, run_tool
from conftest import ROOT

from qimport.codegen.interface import RESULTS
from qimport.codegen.target import target_named
from qimport.toolchain import Tool, find_compiler, missing_compiler

MODEL = "digits_int8_ptq"

CLASSIFYING_MAIN = "int main(void) { return classify(); }\n"


def code_blocks(language: str) -> list[str]:
    """All blocks of this language in the page."""
    page = (ROOT / "docs" / "deploying.md").read_text()
    return re.findall(rf"^```{language}\n(.*?)^```", page, re.MULTILINE | re.DOTALL)


def compiler_for(target: str) -> Tool:
    """A compiler; without one the calling test is skipped."""
    found = find_compiler(target_named(target))
    if found is None:
        pytest.skip(missing_compiler(target_named(target)))
    return found


@pytest.mark.needs(CC)
def test_the_call_works(tmp_path: Path) -> None:
    build(tmp_path, name="digits")
    (tmp_path / "main.c").write_text(code_blocks("c")[0] + CLASSIFYING_MAIN)
    options = ["-std=c11", *STRICT[1:]]
    run_tool(CC, *options, "-o", "main", "main.c", "digits.o", directory=tmp_path)
    run_tool(tmp_path / "main")


def test_the_results_are_the_real_ones() -> None:
    page = (ROOT / "docs" / "deploying.md").read_text()
    assert re.findall(r"^\| (\d) \| `DIGITS_(\w+)` \|", page, re.MULTILINE) == [
        (str(code), name) for code, (name, _) in enumerate(RESULTS)
    ]


# CMake


def configure_and_build(folder: Path, *options: str) -> None:
    """Build the project in a folder."""
    run_tool("cmake", "-S", folder, "-B", folder / "out", *options)
    run_tool("cmake", "--build", folder / "out")


@pytest.mark.needs("cmake", CC)
def test_the_project_that_builds_the_model(tmp_path: Path) -> None:
    build(tmp_path / "made", name="digits")
    (tmp_path / "digits.tflite").write_text("")
    (tmp_path / "main.c").write_text(code_blocks("c")[0] + CLASSIFYING_MAIN)
    project = code_blocks("cmake")[0]
    # The command is tested with the command line; here the files are there already.
    copy = f"COMMAND ${{CMAKE_COMMAND}} -E copy_directory {tmp_path}/made ${{MODEL_DIR}}"
    project, count = re.subn(r"COMMAND qimport build .*", copy, project)
    assert count == 1
    (tmp_path / "CMakeLists.txt").write_text(project)
    configure_and_build(tmp_path)
    run_tool(tmp_path / "out" / "reader")


@pytest.mark.needs("cmake", CC)
def test_the_project_that_finds_the_package(tmp_path: Path) -> None:
    emission(MODEL, "host", ("lib", "header", "cmake"), name="digits").write(tmp_path / "generated")
    (tmp_path / "main.c").write_text(code_blocks("c")[0] + CLASSIFYING_MAIN)
    (tmp_path / "CMakeLists.txt").write_text(code_blocks("cmake")[1])
    configure_and_build(tmp_path)
    run_tool(tmp_path / "out" / "reader")


@pytest.mark.needs("cmake", "readelf")
def test_the_native_library_for_android(tmp_path: Path) -> None:
    """With a cross compiler in place of the NDK, which finds packages where the NDK does."""
    compiler = compiler_for("arm64")
    models = tmp_path / "models" / "arm64-v8a"
    emission(MODEL, "arm64", ("lib", "header", "cmake"), name="digits").write(models)
    (tmp_path / "main.c").write_text(code_blocks("c")[0])
    (tmp_path / "CMakeLists.txt").write_text(code_blocks("cmake")[2])
    configure_and_build(
        tmp_path,
        "-DANDROID_ABI=arm64-v8a",
        "-DCMAKE_SYSTEM_NAME=Linux",
        "-DCMAKE_FIND_ROOT_PATH=/nowhere",
        "-DCMAKE_FIND_ROOT_PATH_MODE_PACKAGE=ONLY",
        f"-DCMAKE_C_COMPILER={';'.join(compiler.command)}",
    )
    shown = run_tool("readelf", "-W", "--dyn-syms", tmp_path / "out" / "libreader.so")
    assert "digits_run" in shown


# Microcontrollers

FIRMWARE_START = """
#include <stddef.h>
#include <stdint.h>
int classify(const int8_t *image, int8_t *scores);
static int8_t image[64], scores[10];
void *memcpy(void *to, const void *from, size_t count) {
  char *t = to;
  const char *f = from;
  while (count--) *t++ = *f++;
  return to;
}
void *memset(void *to, int value, size_t count) {
  char *t = to;
  while (count--) *t++ = (char)value;
  return to;
}
void __aeabi_memcpy(void *to, const void *from, size_t count) { memcpy(to, from, count); }
void __aeabi_memset(void *to, size_t count, int value) { memset(to, value, count); }
void __aeabi_memclr(void *to, size_t count) { memset(to, 0, count); }
void reset(void) {
  classify(image, scores);
  for (;;) {}
}
__attribute__((section(".vectors"), used)) static void (*const vectors[])(void) = {0, reset};
"""

FREESTANDING = ("-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", "-ffreestanding", "-fno-builtin", "-c")


@pytest.mark.needs("arm-none-eabi-gcc", NM)
def test_the_firmware_lies_where_the_linker_script_says(tmp_path: Path) -> None:
    compiler = compiler_for("cortex-m4")
    kinds = ("obj", "header", "weights")
    emission(MODEL, "cortex-m4", kinds, separate=True, name="digits").write(tmp_path)
    (firmware,) = [block for block in code_blocks("c") if "digits_weights" in block and ".arena" in block]
    for name, text in (
        ("classify.c", firmware),
        ("start.c", FIRMWARE_START),
        ("weights.s", code_blocks("asm")[0]),
        ("firmware.ld", code_blocks("ld")[0]),
    ):
        (tmp_path / name).write_text(text)
    compiler.run(*FREESTANDING, "classify.c", "start.c", "weights.s", directory=tmp_path)
    objects = ["start.o", "classify.o", "weights.o", "digits.o"]
    options = ["-nostdlib", "-static", "-Wl,-T,firmware.ld", "-Wl,-e,reset", "-o", "firmware.elf"]
    compiler.run(*options, *objects, "-lgcc", directory=tmp_path)
    places = {words[2]: int(words[0], 16) for words in symbols(tmp_path / "firmware.elf")}
    assert places["digits_weights"] == 0x9000_0000
    assert places["arena"] == 0x2000_0000
    assert 0x0800_0000 <= places["digits_run"] < 0x0808_0000


def symbols(program: Path) -> list[list[str]]:
    """Address, kind and name of what is defined; nothing may be left undefined."""
    shown = subprocess.run([NM, program], capture_output=True, text=True, check=True).stdout
    found = [line.split() for line in shown.splitlines()]
    assert all(len(words) == 3 for words in found), shown
    return found
