"""The commands that run, build and verify: files in every form, bytes that differ."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from qimport.oracle import Oracle, OracleUnavailable
from qimport.verify import Comparison, Layer, Report
from tests.command_line import DIGITS, ROOT, fail, run, succeed
from tests.importer_models import T, unary
from tests.importer_models import dense as dense_model


@pytest.fixture
def relu(tmp_path: Path) -> Path:
    """A model of one RELU on int8[2, 3], in a folder whose name has a space."""
    path = tmp_path / "a folder" / "relu model.tflite"
    path.parent.mkdir()
    path.write_bytes(unary("RELU").file())
    return path


# run


def test_run_lists_classes(models: Path, tmp_path: Path) -> None:
    samples = np.load(models / "digits_int8_ptq_samples.npz")
    np.save(tmp_path / "digit.npy", samples["inputs"][:1])
    report = json.loads(succeed("run", DIGITS, "--input", tmp_path / "digit.npy", "--json", "--top", 3))
    (places,) = report["outputs"][0]["top"]
    assert len(places) == 3
    assert places[0]["class"] == samples["labels"][0]
    text = succeed("run", DIGITS, "--input", tmp_path / "digit.npy", "--top", 3).splitlines()
    assert text[1].split() == ["class", "code", "value"]
    assert text[2].split()[:2] == [str(places[0]["class"]), str(places[0]["code"])]


def test_run_reads_and_writes_every_form(relu: Path, tmp_path: Path) -> None:
    data = np.arange(-3, 3, dtype=np.int8).reshape(2, 3)
    np.save(tmp_path / "in.npy", data)
    np.savez(tmp_path / "only.npz", anything=data)
    (tmp_path / "in.raw").write_bytes(data.tobytes())
    expected = np.maximum(data, 0)
    for source in ("in.npy", "only.npz", "in.raw"):
        for path in (f"{tmp_path / source}", f"x={tmp_path / source}"):
            succeed("run", relu, "--input", path, "--output", tmp_path / "out.npy")
            assert np.array_equal(np.load(tmp_path / "out.npy"), expected)
    named = f"x={tmp_path / 'in.raw'}"
    for target, read in (
        ("y.raw", lambda path: np.frombuffer(path.read_bytes(), np.int8).reshape(2, 3)),
        ("y.npz", lambda path: np.load(path)["y"]),
        ("folder", lambda path: np.load(path / "output0.npy")),
    ):
        assert f"wrote {tmp_path / target}" in succeed(
            "run", relu, "--input", named, "--output", tmp_path / target
        )
        assert np.array_equal(read(tmp_path / target), expected)


def test_run_takes_dash_for_stdin_and_stdout(relu: Path) -> None:
    data = np.arange(-3, 3, dtype=np.int8)
    result = run("run", relu, "--input", "-", "--output", "-", data=data.tobytes())
    assert result.stdout_bytes == np.maximum(data, 0).tobytes()
    result = run("run", "-", "--random", 7, "--output", "-", data=relu.read_bytes())
    again = run("run", relu, "--random", 7, "--output", "-")
    assert result.exit_code == 0
    assert result.stdout_bytes == again.stdout_bytes


@pytest.mark.parametrize("shape", [(40, 2), (1, 10, 4)], ids=["many rows", "boxes"])
def test_run_of_outputs_that_are_no_classes_shows_their_range(shape: tuple[int, ...], tmp_path: Path) -> None:
    path = tmp_path / "column.tflite"
    path.write_bytes(unary("RELU", T(shape, name="y"), T(shape, name="x")).file())
    assert re.search(r"^  from 0 to \d+, mean [\d.]+$", succeed("run", path, "--random", 0), re.MULTILINE)


def test_floats_need_the_option(relu: Path, tmp_path: Path) -> None:
    floats = np.array([[-1, 0, 0.5], [1, 2, 63.5]], np.float32)
    np.save(tmp_path / "floats.npy", floats)
    message = fail(4, "run", relu, "--input", tmp_path / "floats.npy")
    assert "input 'x' is float32, the model wants int8" in message
    succeed(
        *("run", relu, "--input", tmp_path / "floats.npy", "--quantize", "--dequantize"),
        *("--output", tmp_path / "out.npy"),
    )
    assert np.array_equal(np.load(tmp_path / "out.npy"), np.maximum(floats, 0))


def test_wrong_inputs_are_explained(relu: Path, tmp_path: Path) -> None:
    (tmp_path / "short.raw").write_bytes(b"12345")
    (tmp_path / "broken.npy").write_bytes(b"\x93NUMPY and no more")
    (tmp_path / "broken.npz").write_bytes(b"PK\x03\x04 and no more")
    np.save(tmp_path / "objects.npy", np.array([{}]), allow_pickle=True)
    np.savez(tmp_path / "two.npz", a=np.zeros(1), b=np.zeros(1))
    np.savez(tmp_path / "none.npz")
    np.save(tmp_path / "shape.npy", np.zeros((3, 2), np.int8))
    np.savez_compressed(tmp_path / "whole.npz", x=np.zeros((2, 3), np.int8))
    packed = (tmp_path / "whole.npz").read_bytes()
    directory = packed.index(b"PK\x01\x02")
    for place, name in (
        (60, "deflate.npz"),
        (directory + 8, "encrypted.npz"),
        (directory + 10, "method.npz"),
    ):
        (tmp_path / name).write_bytes(packed[:place] + b"\xff" + packed[place + 1 :])
    header = b"{'descr': '|i1', 'shape': (2, 3"
    (tmp_path / "header.npy").write_bytes(b"\x93NUMPY\x01\x00" + bytes([len(header), 0]) + header + bytes(6))
    for name, words in {
        "short.raw": "has 5 bytes; input 'x' of shape (2, 3) and type int8 has 6",
        "broken.npy": "not a readable .npy file",
        "broken.npz": "not a readable .npz file",
        "deflate.npz": "not a readable .npz file",
        "method.npz": "not a readable .npz file",
        "encrypted.npz": "not a readable .npz file",
        "header.npy": "not a readable .npy file",
        "objects.npy": "not a readable .npy file",
        "two.npz": "holds arrays named a, b; inputs of the model are x",
        "shape.npy": "has shape [3, 2], the model wants [2, 3]",
        "none.npz": "holds no arrays",
        "missing.npy": "no such file",
        "/dev/zero": "has more than 1048624 bytes",
    }.items():
        assert words in fail(4, "run", relu, "--input", tmp_path / name)
    both = ("--input", tmp_path / "short.raw") * 2
    assert "2 file(s) do not give each of the 1 input(s)" in fail(4, "run", relu, *both)
    assert "the name of the output is empty" in fail(4, "run", relu, "--random", 0, "--output", "")


def test_code_for_another_machine_does_not_run(relu: Path) -> None:
    other = "arm64" if os.uname().machine == "x86_64" else "x86-64"
    assert "does not run on this" in fail(4, "run", relu, "--random", 0, "--target", other)


# build


def test_build_writes_three_files(relu: Path, tmp_path: Path) -> None:
    out = tmp_path / "out folder"
    text = succeed("build", relu, "--target", "arm64", "-o", out, "--numerics", "xnnpack")
    assert sorted(path.name for path in out.iterdir()) == [
        "relu_model.h",
        "relu_model.o",
        "relu_model_example.c",
    ]
    assert "target arm64, numerics xnnpack" in text
    options = ("--name", "net", "--prefix", "my_net", "--json")
    report = json.loads(succeed("build", relu, "--target", "arm64", "-o", out, *options))
    assert [Path(file["path"]).name for file in report["files"]] == ["net.o", "net.h", "net_example.c"]
    assert "int my_net_run(" in (out / "net.h").read_text()


def test_threads_change_no_byte(tmp_path: Path) -> None:
    for threads in (1, 3):
        options = ("--threads", threads, "--random", 0, "--output", tmp_path / f"{threads}.npy")
        succeed("run", DIGITS, *options)
    assert (tmp_path / "1.npy").read_bytes() == (tmp_path / "3.npy").read_bytes()
    report = json.loads(succeed("build", DIGITS, "--threads", 2, "-o", tmp_path, "--json"))
    assert report["threads"] == 1, "nothing in this model is worth splitting"
    assert "threads is 0" in fail(4, "run", DIGITS, "--threads", 0, "--random", 0)


def test_build_into_impossible_places(relu: Path) -> None:
    fail(4, "build", relu, "-o", relu)
    fail(4, "build", relu, "-o", relu / "below")
    if Path("/proc").is_dir():  # nobody can write there, not even root
        fail(4, "build", relu, "-o", "/proc/qimport")
        fail(4, "run", relu, "--random", 0, "--output", "/proc/qimport/out.npy")
    assert "'my-net'" in fail(4, "build", relu, "-o", relu.parent, "--prefix", "my-net")


def test_build_writes_the_kinds_asked_for(tmp_path: Path) -> None:
    folder = tmp_path / "my models"
    arguments = ["build", DIGITS, "--target", "arm64", "--name", "digits", "--prefix", "ocr", "-o", folder]
    kinds = "lib,weights,header,cmake"
    text = succeed(*arguments, "--emit", kinds, "--weights", "separate")
    names = ["digits.h", "libdigits.a", "digits_weights.bin", "digitsConfig.cmake"]
    written = [Path(line.split("  ")[0]) for line in text.splitlines() if "  " in line]
    assert written == [folder / name for name in names]
    assert sorted(path.name for path in folder.iterdir()) == sorted(names)
    header = (folder / "digits.h").read_text()
    assert "int ocr_run(const void *const *inputs" in header
    assert f'#define OCR_MODEL_SHA256 "{hashlib.sha256(Path(DIGITS).read_bytes()).hexdigest()}"' in header


def test_build_has_examples() -> None:
    assert "--emit obj,header,weights --weights separate" in succeed("build", "--help")


def test_build_refuses_folders_it_may_not_write_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert f"{tmp_path} is read-only for this user" in fail(4, "build", DIGITS, "-o", tmp_path / "new")
    assert not list(tmp_path.iterdir())


def test_an_interrupted_build_leaves_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "qimport", "build", str(ROOT / "models" / "inception_uint8.tflite")]
    done = subprocess.Popen([*command, "-o", str(tmp_path)], cwd=ROOT, stderr=subprocess.PIPE, text=True)
    time.sleep(0.7)  # it imports, or compiles
    done.send_signal(signal.SIGINT)
    _, said = done.communicate(timeout=60)
    assert not list(tmp_path.iterdir())
    assert "bug" not in said
    assert done.returncode in (130, -signal.SIGINT)


# verify


def test_verify_compares_in_every_mode(tmp_path: Path, oracle: Oracle) -> None:
    path = tmp_path / "dense.tflite"
    path.write_bytes(dense_model().file())
    text = succeed("verify", path, "--seeds", 2)
    assert [line.partition(":")[0] for line in text.splitlines()] == ["reference", "builtin", "xnnpack"]
    assert text.count(f"ai-edge-litert {oracle.version} agree on 12 output elements for 2 random inputs") == 3
    (report,) = json.loads(succeed("verify", path, "--numerics", "builtin", "--json", "--per-layer"))
    assert report["equal"]
    assert report["numerics"] == "builtin"


def test_verify_exits_with_1_where_bytes_differ(monkeypatch: pytest.MonkeyPatch, oracle: Oracle) -> None:
    comparison = Comparison(1, "probabilities", 10, 2, (0, 3), 5, 6)
    layer = Layer("prim", 4, "operator 2 (CONV_2D) 'c'", comparison)
    report = Report("digits", "reference", "host", "ai-edge-litert 2.3.0", (comparison,), layer)
    monkeypatch.setattr("qimport.cli.verify.verify_model", lambda *_, **__: report)
    result = run("verify", DIGITS, "--numerics", "reference")
    assert result.exit_code == 1
    first, second, third = result.stdout.splitlines()
    assert "DIFFER on 10 output elements" in first
    assert (
        "seed 1, output 'probabilities': 2 of 10 elements differ, first [0, 3]: 5, the interpreter has 6"
        in second
    )
    assert "tensor 4, of operator 2 (CONV_2D) 'c', stage prim" in third
    assert run("verify", DIGITS, "--json", "--numerics", "reference").exit_code == 1


def test_verify_says_how_to_get_the_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_: Oracle) -> str:
        raise OracleUnavailable("the TFLite interpreter is not installed: pip install ai-edge-litert==2.3.0")

    monkeypatch.setattr(Oracle, "version", property(missing))
    assert "pip install ai-edge-litert==2.3.0" in fail(4, "verify", DIGITS)
