"""What docs/deploying.md shows: the call, the CMake projects, the firmware."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from aot_harness import CC, STRICT, build, emission, run_tool
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
