"""Shared libraries of ``qimport build`` loaded into Python: the same bytes, or one sentence why not."""

from __future__ import annotations

import functools
import json
import pickle
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from aot_harness import emission
from command_line import DIGITS, succeed
from kernel_harness import same_bytes

import qimport
from qimport.codegen import note
from qimport.codegen.host import host_target, resolve_target
from qimport.errors import ArgumentError, ModelError, TargetError
from qimport.lower import parallel
from qimport.oracle import random_inputs
from qimport.toolchain import find_linker, missing_compiler
from tests.one_operator import draw_model

if find_linker(host_target()) is None:
    pytest.skip(missing_compiler(host_target()), allow_module_level=True)


def build(folder: Path, model: str | Path, *options: str) -> Path:
    """The shared library of a model."""
    succeed("build", model, "--emit", "shared", "-o", folder, "--name", "the model", *options)
    return folder / "libthe_model.so"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """That of the digits, in a folder with a space."""
    return build(tmp_path_factory.mktemp("a folder"), DIGITS)


def test_a_library_is_the_compiled_model(library: Path, tmp_path: Path) -> None:
    loaded, compiled = qimport.load(library), qimport.compile(DIGITS)
    inputs = random_inputs(compiled.inputs, 1)
    expected = compiled.run(inputs)[0]
    for attribute in (
        "numerics", "inputs", "outputs", "signatures", "states", "rows", "plan", "arena_bytes", "state_bytes",
        "target", "threads",
    ):  # fmt: skip
        assert getattr(loaded, attribute) == getattr(compiled, attribute), attribute
    assert loaded.name == "the model"
    assert same_bytes(loaded.run(inputs)[0], expected)
    loaded.save(tmp_path / "again.so")
    assert (tmp_path / "again.so").read_bytes() == library.read_bytes()
    assert same_bytes(pickle.loads(pickle.dumps(loaded)).session().call(inputs)[0], expected)
    with pytest.raises(ArgumentError, match="holds no stage 'prim'"):
        loaded.stage("prim")


def test_a_library_remembers(tmp_path: Path) -> None:
    case = draw_model("VARIABLE sum int8", 1)
    (tmp_path / "m.tflite").write_bytes(case.file)
    models = [qimport.load(build(tmp_path, tmp_path / "m.tflite")), qimport.compile(case.file)]
    assert models[0].state_bytes == models[1].state_bytes > 0
    sessions = [model.session() for model in models]
    for _ in range(2):
        for arrays in case.invocations:
            (found, expected), (new, initial) = (
                [session.call(arrays)[0] for session in sessions],
                [model.run(arrays)[0] for model in models],
            )
            assert same_bytes(found, expected)
            assert same_bytes(new, initial)
            assert same_bytes(sessions[0].states[0], sessions[1].states[0])
        for session in sessions:
            session.reset()


def test_threads_levels_and_a_file_that_is_built_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another library at the path is not the first one, which still works, and all go away."""
    monkeypatch.setattr(parallel, "SMALLEST_WORK", 0)
    options: list[tuple[str, ...]] = [("--threads", "2"), ()]
    if host_target().architecture is resolve_target("x86-64").architecture:
        options.append(("--target", "x86-64", "--dispatch-levels", "x86-64-v3"))
    models = [qimport.load(build(tmp_path, DIGITS, *option)) for option in options]
    assert [model.threads for model in models[:2]] == [2, 1]
    compiled = qimport.compile(DIGITS)
    inputs = random_inputs(compiled.inputs, 1)
    for model in models:
        for _ in range(2):
            assert same_bytes(model.run(inputs)[0], compiled.run(inputs)[0])


def test_wrong_and_damaged_files_are_refused_before_they_are_loaded(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qimport.library.load_library", None)
    content = library.read_bytes()
    rng = np.random.default_rng(0)
    damaged = [content[:size] for size in (4, 5, 20, 63, 64, 100, 4096, len(content) // 2, len(content) - 1)]
    places = [*range(6, 64), *rng.integers(64, len(content), 200).tolist()]
    for place in [*places, *range(len(content) - 400, len(content))]:
        wrong = bytearray(content)
        wrong[place] ^= 1 << int(rng.integers(0, 8))
        damaged.append(bytes(wrong))
    for piece in [*damaged, content + b"\0", Path(shutil.which("cat") or library).read_bytes()[:-1]]:
        (tmp_path / "d").write_bytes(piece)
        with pytest.raises(ModelError):
            qimport.load(tmp_path / "d")
    (tmp_path / "d").write_bytes(b"")
    with pytest.raises(ModelError, match="no compiled model of qimport"):
        qimport.load(tmp_path / "d")
    with pytest.raises(ArgumentError, match="cannot read"):
        qimport.load(tmp_path)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"version": "0.0.9"}, "compiled with qimport 0.0.9, this is .*; compile the model again"),
        ({"library": {"api_version": 9}}, "has version 9 of the C API, this is 1; build it again"),
        ({"inputs": [{}]}, "its description does not fit"),
    ],
)
def test_libraries_of_other_versions(
    changes: dict[str, object], sentence: str, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    description = json.loads(note.read_note(library.read_bytes(), "library"))
    monkeypatch.setattr("qimport.library.read_note", lambda *_: json.dumps({**description, **changes}))
    with pytest.raises(ModelError, match=sentence):
        qimport.load(library)


def test_libraries_for_other_machines(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    foreign = next(name for name in ("arm64", "x86-64", "armv7") if name != host_target().architecture.name)
    for name in (foreign, "armv7"):
        if find_linker(resolve_target(name)) is not None:
            with pytest.raises(TargetError, match=f"{name}: {name} code does not run on this .* machine"):
                qimport.load(build(tmp_path, DIGITS, "--target", name))
    less = replace(host_target(), features=frozenset())
    if host_target().features:
        monkeypatch.setattr("qimport.codegen.host.host_target", functools.cache(lambda: less))
        with pytest.raises(TargetError, match="this machine lacks"):
            qimport.load(library)


def test_libraries_without_description_or_weights(tmp_path: Path) -> None:
    for name, content in emission("digits_int8_ptq", "host", ("shared",)).contents().items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ModelError, match="is no shared library that `qimport build` made to be loaded"):
            qimport.load(tmp_path / name)
    with pytest.raises(ArgumentError, match="takes its weights from a file of their own"):
        qimport.load(build(tmp_path, DIGITS, "--weights", "separate"))
