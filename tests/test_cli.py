"""The command line: every exit code, one sentence per error, JSON that parses, files in every form."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

import qimport
from qimport.cli.app import COMMANDS, app
from qimport.cli.text import print_json, shorten
from qimport.oracle import Oracle, OracleUnavailable
from qimport.verify import Comparison, Layer, Report
from tests.flatbuffer_builder import ModelBuilder
from tests.importer_models import One, T, unary
from tests.importer_models import dense as dense_model

ROOT = Path(__file__).resolve().parents[1]
DIGITS = str(ROOT / "models" / "digits_int8_ptq.tflite")
MOBILE = str(ROOT / "models" / "mobile_int8.tflite")

BAD_FILES = {
    "BADINPUT_coral__keras_lstm_mnist_ptq_edgetpu": (3, "edgetpu-custom-op"),
    "BADINPUT_coral__model_invoking_error": (3, "fake-op-double"),
    "BADINPUT_flutter__bad_model": (2, "file identifier"),
    "BADINPUT_litert__0_subgraphs": (2, "no subgraph"),
    "BADINPUT_litert__empty_model": (2, "no outputs"),
    "BADINPUT_litert__segment_sum_invalid_buffer": (2, "no content"),
    "BADINPUT_litert__softplus_flex": (3, "FlexSoftplus"),
    "BADINPUT_litert__string_input_model": (3, "string"),
    "BADINPUT_litert__topo_sort_fork_violation": (3, "float32"),
    "BADINPUT_tflm__person_detect_vela": (3, "ethos-u"),
}
"""File of the zoo -> exit code of `qimport check`, and what its message must name."""


def run(*arguments: object, data: bytes | None = None) -> Result:
    """The command line in this process."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments], input=data)


def succeed(*arguments: object, data: bytes | None = None) -> str:
    """What a command prints that must succeed quietly."""
    result = run(*arguments, data=data)
    assert (result.exit_code, result.stderr) == (0, ""), result.stderr
    return result.stdout


def fail(code: int, *arguments: object, data: bytes | None = None) -> str:
    """The only message of a command that must fail: one sentence, indented lines of reasons, no traceback."""
    result = run(*arguments, data=data)
    first, *more = result.stderr.splitlines()
    assert result.exit_code == code, result.stderr
    assert first.startswith("qimport: error: ")
    assert all(line.startswith("  ") for line in more)
    assert "Traceback" not in result.stderr
    return result.stderr


def process(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """The command line in a process of its own."""
    command = [sys.executable, "-m", "qimport", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, **options)


@pytest.fixture
def relu(tmp_path: Path) -> Path:
    """A model of one RELU on int8[2, 3], in a folder whose name has a space."""
    path = tmp_path / "a folder" / "relu model.tflite"
    path.parent.mkdir()
    path.write_bytes(unary("RELU").file())
    return path


# The program


def test_help_lists_every_command() -> None:
    text = succeed("--help")
    assert all(f"  {name}  " in text and line in text for name, line in COMMANDS.items())
    assert succeed() == text


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_has_help(name: str) -> None:
    text = succeed(name, "--help")
    assert text.startswith(f"Usage: {app.name} {name} ")
    assert COMMANDS[name].rstrip(".").split(";")[0].split(",")[0] in text


def test_help_imports_nothing_heavy() -> None:
    program = (
        "import sys; from qimport.cli.app import app\n"
        "try: app.main(['--help'])\n"
        "except SystemExit: print({'numpy', 'llvmlite', 'tflite'} & set(sys.modules))"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert found.stdout.splitlines()[-1] == "set()"


def test_version() -> None:
    assert succeed("--version") == f"qimport {qimport.__version__}\n"
    assert process("--version").stdout == f"qimport {qimport.__version__}\n"


# Exit codes


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["chek"], "did you mean 'check'?"),
        (["zzz"], "known: build, check"),
        (["--nonsense"], "--nonsense"),
        (["run", DIGITS], "either --input or --random"),
        (["run", DIGITS, "--random", "-1"], "--random"),
        (["run", "-", "--input", "-"], "only one file can come from stdin"),
        (["run", DIGITS, "--random", "0", "--numerics", "exact"], "'exact'"),
        (["run"], "MODEL"),
        (["check"], "MODEL"),
        (["check", ROOT / "nothing.tflite"], "no such file"),
        (["run", ROOT / "nothing.tflite", "--random", "0"], "no such file"),
        (["inspect", ROOT], "is a directory"),
        (["build", DIGITS, "--target", "arm64-dotpord"], "did you mean 'arm64-dotprod'?"),
        (["build", DIGITS, "--target", "x86-64+amx"], "did you mean"),
        (["build", DIGITS, "--target", "host+avx2"], "host already has every feature"),
        (["inspect", DIGITS, "--shape", "image"], "is no shape"),
        (["inspect", DIGITS, "--shape", "image=1,8,8"], "has 3 dimensions; expected 4"),
        (["inspect", DIGITS, "--shape", "imag=1,8,8,1"], "did you mean 'image'?"),
        (["inspect", DIGITS, "--batch", "0"], "batch"),
        (["inspect", DIGITS, "--stage", "llvn"], "'llvn'"),
    ],
)
def test_wrong_arguments_exit_with_4(arguments: list[object], message: str) -> None:
    assert message in fail(4, *arguments)


@pytest.mark.parametrize("command", ["build", "check", "inspect", "run", "verify"])
def test_malformed_files_exit_with_2(command: str, tmp_path: Path, oracle: Oracle) -> None:
    options = {"run": ["--random", 0], "build": ["-o", tmp_path]}.get(command, [])
    for content in (b"", b"not a model at all", Path(DIGITS).read_bytes()[:3000]):
        path = tmp_path / "broken.tflite"
        path.write_bytes(content)
        fail(2, command, path, *options)


@pytest.mark.parametrize("command", ["build", "check", "inspect", "run", "verify"])
def test_unsupported_models_exit_with_3_and_all_reasons(command: str, tmp_path: Path, oracle: Oracle) -> None:
    path = tmp_path / "float.tflite"
    path.write_bytes(One("ADD", [T((2,), "float32", name="a")] * 2, T((2,), "float32")).file())
    options = {"run": ["--random", 0], "build": ["-o", tmp_path]}.get(command, [])
    assert "operator 0 (ADD), tensor 'a'" in fail(3, command, path, *options)


@pytest.mark.parametrize("name", sorted(BAD_FILES))
def test_bad_files_of_the_zoo(name: str, zoo: Path) -> None:
    code, words = BAD_FILES[name]
    message = fail(code, "check", zoo / "zoo" / f"{name}.tflite")
    assert name in message
    assert words in message


def test_the_list_of_bad_files_is_complete(zoo: Path) -> None:
    assert {path.stem for path in (zoo / "zoo").glob("BADINPUT_*")} == set(BAD_FILES)


def test_control_characters_of_a_file_never_reach_the_terminal(tmp_path: Path) -> None:
    model, evil = ModelBuilder(), "two\nlines \x1b[31m"
    x, y = T((2, 3), name=f"x{evil}").add(model), T((2, 3), name=f"y{evil}").add(model)
    model.operator("CUSTOM", [x], [y], custom_code=evil)
    (tmp_path / "custom.tflite").write_bytes(model.build([x], [y], signature=evil))
    (tmp_path / "named.tflite").write_bytes(
        unary("RELU", T((2, 3), name=f"y{evil}"), T((2, 3), name=f"x{evil}")).file()
    )
    assert r"CUSTOM two\nlines \x1b[31m" in fail(3, "check", tmp_path / "custom.tflite")
    for arguments in (
        ("inspect", tmp_path / "custom.tflite", "--stage", "tflite"),
        ("inspect", tmp_path / "named.tflite"),
        ("run", tmp_path / "named.tflite", "--random", 0),
    ):
        text = succeed(*arguments)
        assert r"two\nlines \x1b[31m" in text
        assert "\x1b" not in text


def test_json_is_ascii_without_infinities(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"é": [math.inf, (math.nan, 1.5)], "n": 2**70})
    text = capsys.readouterr().out
    assert text.isascii()
    assert json.loads(text) == {"é": [None, [None, 1.5]], "n": 2**70}


def test_bugs_exit_with_70_and_leave_a_report(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("qimport.cli.inspect.trace", lambda *_, **__: {}["nothing"])
    message = fail(70, "inspect", DIGITS)
    (report,) = tmp_path.iterdir()
    assert (
        f"this is a bug in qimport (KeyError: 'nothing'); please report it with the file {report}" in message
    )
    assert "KeyError: 'nothing'" in report.read_text()
    monkeypatch.setenv("QIMPORT_TRACEBACK", "1")
    assert run("inspect", DIGITS).stderr.startswith("Traceback")
    monkeypatch.delenv("QIMPORT_TRACEBACK")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    assert "QIMPORT_TRACEBACK=1" in fail(70, "inspect", DIGITS)


def test_interruption_is_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("qimport.cli.inspect.trace", interrupt)
    result = run("inspect", DIGITS)
    assert (result.exit_code, result.stdout, result.stderr.strip()) == (130, "", "")


def test_too_little_memory_is_no_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    def exhaust(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("qimport.cli.inspect.trace", exhaust)
    assert "not enough memory" in fail(4, "inspect", DIGITS)


@pytest.mark.parametrize(
    "arguments",
    [["targets"], ["--help"], ["verify", "--help"], ["run", DIGITS, "--random", "0", "--output", "-"]],
)
def test_a_reader_that_leaves_is_no_error(arguments: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "qimport", *arguments]
    result = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, cwd=ROOT, check=False)
    os.close(writer)
    assert (result.returncode, result.stderr) == (141, b"")


@pytest.mark.parametrize(
    ("stream", "arguments", "code"),
    [
        (0, ["check", "-"], 2),
        (1, ["run", DIGITS, "--random", "0", "--output", "-"], 0),
        (2, ["check", "nothing.tflite"], 4),
        (2, ["verify", "nothing.tflite"], 4),
        (2, ["run", DIGITS, "--random", "0"], 0),
    ],
)
def test_standard_streams_may_be_closed(stream: int, arguments: list[str], code: int) -> None:
    result = process(*arguments, preexec_fn=lambda: os.close(stream))
    assert result.returncode == code
    assert "bug" not in result.stderr


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="needs a file without end")
@pytest.mark.parametrize("command", ["build", "check", "inspect", "run", "verify"])
def test_files_without_end_are_not_read_on(command: str, tmp_path: Path, oracle: Oracle) -> None:
    options = {"run": ["--random", 0], "build": ["-o", tmp_path]}.get(command, [])
    assert "/dev/zero: the file identifier is" in fail(2, command, "/dev/zero", *options)


# check, inspect, targets


def test_check_of_several_files(tmp_path: Path) -> None:
    broken = tmp_path / "broken.tflite"
    broken.write_bytes(b"nothing")
    result = run("check", DIGITS, broken, MOBILE)
    assert result.exit_code == 2
    assert result.stdout.splitlines() == [
        f"{DIGITS}: supported, 7 operators",
        f"{MOBILE}: supported, 18 operators",
    ]
    assert result.stderr.count("qimport: error:") == 1
    result = run("check", "--json", DIGITS, broken)
    good, bad = json.loads(result.stdout)
    assert (good["exit_code"], good["operators"], bad["exit_code"], result.stderr) == (0, 7, 2, "")


def test_check_names_every_operator_once_as_json(tmp_path: Path) -> None:
    path = tmp_path / "float.tflite"
    path.write_bytes(One("ADD", [T((2,), "float32", name="a")] * 2, T((2,), "float32")).file())
    (report,) = json.loads(run("check", "--json", path).stdout)
    assert [(reason["op_index"], reason["op"]) for reason in report["reasons"]] == [(0, "ADD")]


def test_inspect_shows_a_table() -> None:
    text = succeed("inspect", DIGITS)
    assert "input   image: int8 1x8x8x1, scale 0.00392156886, zero point -128" in text
    assert [line.split()[:2] for line in text.splitlines()[4:11]][:2] == [["0", "conv2d"], ["1", "conv2d"]]
    assert "87,360 MACs, 9,528 bytes of weights" in text
    assert max(map(len, text.splitlines())) < 120


def test_inspect_as_json() -> None:
    report = json.loads(succeed("inspect", "--json", DIGITS))
    assert report["macs"] == 87360
    assert report["inputs"][0]["shape"] == [1, 8, 8, 1]
    assert report["arena_bytes"] > 0


def test_shapes_are_chosen_by_option() -> None:
    batch = json.loads(succeed("inspect", "--json", MOBILE, "--batch", 3))
    shape = json.loads(succeed("inspect", "--json", MOBILE, "--shape", "image=3,24,24,1"))
    assert batch == shape
    assert batch["outputs"][0]["shape"] == [3, 10]


@pytest.mark.parametrize(
    ("stage", "words"),
    [
        ("tflite", "operator 0: CONV_2D"),
        ("qnn", "qnn.conv2d"),
        ("prim", "prim.rescale"),
        ("plan", "kernel calls"),
        ("llvm", "define"),
        ("asm", ".text"),
    ],
)
def test_inspect_prints_every_stage(stage: str, words: str) -> None:
    assert words in succeed("inspect", DIGITS, "--stage", stage)
    report = json.loads(succeed("inspect", DIGITS, "--stage", stage, "--json"))
    assert stage == "tflite" or words in report["text"]


def test_inspect_shows_files_that_cannot_be_compiled(tmp_path: Path) -> None:
    path = tmp_path / "odd.tflite"
    path.write_bytes(One("COS", [T((2,), "float32", name="angle")], T((2,), "float32")).file())
    fail(3, "inspect", path)
    assert "operator 0: COS v1 (%0) -> (%1)" in succeed("inspect", path, "--stage", "tflite")
    graph = json.loads(succeed("inspect", path, "--stage", "tflite", "--json"))["subgraphs"][0]
    assert graph["tensors"][0]["name"] == "angle"


def test_long_names_keep_their_end() -> None:
    assert shorten("short") == "short"
    assert shorten("x" * 60 + "/Relu6") == "..." + "x" * 31 + "/Relu6"


def test_targets() -> None:
    assert "arm64-dotprod" in succeed("targets")
    found = {target["name"]: target for target in json.loads(succeed("targets", "--json"))}
    assert found["host"]["runs_here"]
    assert found["arm64-dotprod"]["features"] == ["dotprod", "neon"]


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
        succeed("run", relu, "--input", tmp_path / source, "--output", tmp_path / f"{source}.npy")
        assert np.array_equal(np.load(tmp_path / f"{source}.npy"), expected)
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


def test_run_of_outputs_that_are_no_classes_shows_their_range(tmp_path: Path) -> None:
    path = tmp_path / "column.tflite"
    shape = T((40, 2), name="x"), T((40, 2), name="y")
    path.write_bytes(unary("RELU", shape[1], shape[0]).file())
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
        "missing.npy": "no such file",
    }.items():
        assert words in fail(4, "run", relu, "--input", tmp_path / name)
    both = ("--input", tmp_path / "short.raw") * 2
    assert "2 file(s) do not give each of the 1 input(s)" in fail(4, "run", relu, *both)


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


def test_build_into_impossible_places(relu: Path) -> None:
    fail(4, "build", relu, "-o", relu)
    fail(4, "build", relu, "-o", relu / "below")
    if Path("/proc").is_dir():  # nobody can write there, not even root
        fail(4, "build", relu, "-o", "/proc/qimport")
        fail(4, "run", relu, "--random", 0, "--output", "/proc/qimport/out.npy")
    assert "'my-net'" in fail(4, "build", relu, "-o", relu.parent, "--prefix", "my-net")


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
