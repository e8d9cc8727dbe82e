"""The command line: every exit code, one sentence per error, JSON that parses, files in every form."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

import qimport
from qimport.cli.app import COMMANDS, app
from qimport.cli.text import print_json, shorten
from qimport.oracle import Oracle
from tests.command_line import DIGITS, MOBILE, ROOT, fail, process, run, succeed
from tests.flatbuffer_builder import ModelBuilder
from tests.importer_models import One, T, unary

BAD_FILES = {
    "BADINPUT_coral__keras_lstm_mnist_ptq_edgetpu": (3, "edgetpu-custom-op"),
    "BADINPUT_coral__model_invoking_error": (3, "fake-op-double"),
    "BADINPUT_flutter__bad_model": (2, "file identifier"),
    "BADINPUT_litert__0_subgraphs": (2, "no subgraph"),
    "BADINPUT_litert__empty_model": (2, "no outputs"),
    "BADINPUT_litert__segment_sum_invalid_buffer": (2, "no content"),
    "BADINPUT_litert__softplus_flex": (3, "FlexSoftplus"),
    "BADINPUT_litert__string_input_model": (3, "string"),
    "BADINPUT_tflm__person_detect_vela": (3, "ethos-u"),
}
"""File of the zoo -> exit code of `qimport check`, and what its message must name."""


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
        (["zzz"], "known: bench, build, cache"),
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
        (["build", DIGITS, "--emit", "obj,heder"], "unknown kind of file 'heder'; did you mean 'header'?"),
        (["build", DIGITS, "--emit", "weights"], "belongs to --weights separate"),
        (["build", DIGITS, "--emit", "header,cmake"], "needs one of obj, lib and shared"),
        (["build", DIGITS, "--prefix", "9 lives"], "take 'model_9_lives'"),
        (["build", DIGITS, "-o", DIGITS], f"{DIGITS} is a file, not a folder"),
        (["build", DIGITS, "-o", f"{DIGITS}/below"], f"{DIGITS} is a file, not a folder"),
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


UNSUPPORTED = One("BUCKETIZE", [T((2,), "float32", name="angle")], T((2,), "int32")).file()


@pytest.mark.parametrize("command", ["build", "check", "inspect", "run", "verify"])
def test_malformed_files_exit_with_2(command: str, tmp_path: Path, oracle: Oracle) -> None:
    options = {"run": ["--random", 0], "build": ["-o", tmp_path]}.get(command, [])
    for content in (b"", b"not a model at all", Path(DIGITS).read_bytes()[:3000]):
        path = tmp_path / "broken.tflite"
        path.write_bytes(content)
        fail(2, command, path, *options)


@pytest.mark.parametrize("command", ["build", "check", "inspect", "run", "verify"])
def test_unsupported_models_exit_with_3_and_all_reasons(command: str, tmp_path: Path, oracle: Oracle) -> None:
    path = tmp_path / "buckets.tflite"
    path.write_bytes(UNSUPPORTED)
    options = {"run": ["--random", 0], "build": ["-o", tmp_path]}.get(command, [])
    assert "operator 0 (BUCKETIZE)" in fail(3, command, path, *options)


@pytest.mark.parametrize("name", sorted(BAD_FILES))
def test_bad_files_of_the_zoo(name: str, zoo: Path) -> None:
    code, words = BAD_FILES[name]
    message = fail(code, "check", zoo / "zoo" / f"{name}.tflite")
    assert name in message
    assert words in message


def test_the_list_of_bad_files_is_complete(zoo: Path) -> None:
    found = {path.stem for path in (zoo / "zoo").glob("BADINPUT_*")}
    assert found == {*BAD_FILES, "BADINPUT_litert__topo_sort_fork_violation"}, (
        "the order of that one is valid"
    )


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


def test_interruption_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("qimport.cli.inspect.trace", interrupt)
    result = run("inspect", DIGITS)  # click prints a line end after the terminal's ^C
    assert (result.exit_code, result.stdout) == (130, "")
    assert result.stderr.strip() == "qimport: error: interrupted"


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
    path = tmp_path / "buckets.tflite"
    path.write_bytes(UNSUPPORTED)
    (report,) = json.loads(run("check", "--json", path).stdout)
    assert [(reason["op_index"], reason["op"]) for reason in report["reasons"]] == [(0, "BUCKETIZE")]


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
    path.write_bytes(UNSUPPORTED)
    fail(3, "inspect", path)
    assert "operator 0: BUCKETIZE v1 (%0) -> (%1)" in succeed("inspect", path, "--stage", "tflite")
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
