"""Programs around objects touch nothing but their tensors, whatever the alignment, and compile everywhere."""

from __future__ import annotations

import ctypes
import functools
import subprocess
from pathlib import Path

import numpy as np
import pytest
from aot_harness import (
    CC,
    STRICT,
    build_graph,
    emission,
    planned,
    run_example,
    run_tool,
)
from conftest import ROOT
from emulator import PLATFORMS, Platform
from network_program import build_network

import qimport
from qimport.codegen.host import why_not_runnable
from qimport.codegen.target import target_descriptions, target_named
from qimport.compiler import trace
from qimport.ir.graph import Array, Builder, Graph, Value
from qimport.ir.types import Quantization, TensorType
from qimport.oracle import random_inputs
from qimport.qnn.quantize import Dequantize
from qimport.qnn.sums import Add
from qimport.toolchain import require_compiler

MODELS = ("digits_int8_ptq", "mobile_int8")

NATIVE = ("x86-64", "x86-64-v3", "arm64")
"""Targets whose programs this machine may run without an emulator."""


def skip_unless_native(target: str) -> None:
    """Skip the calling test where programs of a target do not run by themselves."""
    if reason := why_not_runnable(target_named(target)):
        pytest.skip(reason)


@functools.cache
def inputs_and_outputs(model: str) -> tuple[list[Array], list[Array]]:
    """Random inputs, and what the model computes of them in this process."""
    arrays = random_inputs(planned(model, "reference")[0], 11)
    return arrays, list(qimport.compile(ROOT / "models" / f"{model}.tflite").run(*arrays))


@pytest.mark.needs(CC)
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("target", NATIVE)
def test_guard_pages_around_every_buffer(target: str, model: str, tmp_path: Path) -> None:
    skip_unless_native(target)
    arrays, wanted = inputs_and_outputs(model)
    program = build_network(trace(ROOT / "models" / f"{model}.tflite", target), tmp_path)
    (found,) = program.run([arrays])
    assert [array.tobytes() for array in found] == [array.tobytes() for array in wanted]


@pytest.mark.needs(CC)
@pytest.mark.parametrize("separate", [False, True], ids=["embedded", "separate"])
def test_the_address_sanitizer_finds_nothing(separate: bool, tmp_path: Path) -> None:
    """Memory of the example is poisoned around every tensor, the arena and the weights."""
    options = ["-fsanitize=address", "-g"]
    (tmp_path / "empty.c").write_text("int main(void) { return 0; }\n")
    probe = [CC, *options, "-o", "empty", "empty.c"]
    if subprocess.run(probe, cwd=tmp_path, capture_output=True, check=False).returncode:
        pytest.skip(f"{CC} has no address sanitizer")
    arrays, wanted = inputs_and_outputs(MODELS[1])
    kinds = ("obj", "header", "example", *(["weights"] if separate else []))
    objects, _, example, *weights = emission(MODELS[1], "host", kinds, separate).write(tmp_path)
    run_tool(CC, *STRICT, *options, "-o", "program", example, objects, directory=tmp_path)
    (found,) = run_example([tmp_path / "program"], arrays, planned(MODELS[1], "reference")[1], weights)
    assert found.tobytes() == wanted[0].tobytes()


# Every target


def wide_sum() -> Graph:
    """int16 a + b, and the sum as float32."""
    type_ = TensorType("int16", (7, 5), Quantization((0.5,), (0,)))
    a, b = Value(type_, "a"), Value(type_, "b")
    builder = Builder()
    total = builder.emit(Add("NONE"), (a, b), type_, name="sum")
    real = builder.emit(Dequantize(), (total,), TensorType("float32", (7, 5)), name="real")
    return Graph("wide", (a, b), (total, real), tuple(builder.nodes))


@pytest.mark.parametrize("target", target_descriptions())
def test_examples_compile_strictly_and_run(target: str, tmp_path: Path) -> None:
    platform = PLATFORMS.get(target, Platform(target))
    platform.skip_if_missing()
    objects, _, example = build_graph(tmp_path, wide_sum(), target)
    if not platform.emulator and why_not_runnable(target_named(target)):
        require_compiler(target_named(target)).run(*STRICT, "-c", example, "-o", tmp_path / "example.o")
        return
    program = platform.link([example, objects], tmp_path / "program", STRICT)
    arrays = [np.arange(35, dtype=np.int16) * step for step in (3, -5)]
    for name, array in zip("ab", arrays, strict=True):
        array.tofile(tmp_path / name)
    platform.run(program, "a", "b", "sum", "real")
    total = arrays[0] + arrays[1]
    assert np.fromfile(tmp_path / "sum", np.int16).tolist() == total.tolist()
    assert np.fromfile(tmp_path / "real", np.float32).tolist() == (total * 0.5).tolist()


@pytest.mark.needs(CC)
def test_wide_tensors_may_lie_at_any_address(tmp_path: Path) -> None:
    objects, _, _ = build_graph(tmp_path, wide_sum(), name="wide")
    run_tool(CC, "-shared", "-o", "wide.so", objects, directory=tmp_path)
    library = ctypes.CDLL(str(tmp_path / "wide.so"))
    a, b = (np.arange(35, dtype=np.int16) * step for step in (3, -5))
    arena = ctypes.create_string_buffer(library.wide_arena_size() + 64)
    scratch = -(-ctypes.addressof(arena) // 64) * 64
    for shift in range(4):
        rooms = [ctypes.create_string_buffer(4 * 35 + 16) for _ in range(4)]
        places = [-(-ctypes.addressof(room) // 8) * 8 + shift for room in rooms]
        for place, array in zip(places, (a, b), strict=False):
            ctypes.memmove(place, array.tobytes(), array.nbytes)
        ins, outs = ((ctypes.c_void_p * 2)(*pair) for pair in (places[:2], places[2:]))
        assert library.wide_run(ins, outs, ctypes.c_void_p(scratch)) == 0
        found = np.frombuffer(ctypes.string_at(places[2], a.nbytes), np.int16)
        assert found.tolist() == (a + b).tolist()
        real = np.frombuffer(ctypes.string_at(places[3], 4 * 35), np.float32)
        assert real.tolist() == ((a + b) * 0.5).tolist()
