"""What shows that work goes on: the callback of ``compile``, the line on a terminal, Ctrl-C."""

from __future__ import annotations

import io
import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import command_line as cli
import pytest

import qimport
from qimport.cli import progress
from qimport.cli.progress import working
from qimport.codegen import backend
from qimport.codegen.host import host_target


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_compile_reports_stages_and_kernels() -> None:
    seen: list[tuple[str, float]] = []
    qimport.compile(cli.DIGITS, progress=lambda stage, fraction: seen.append((stage, fraction)))
    stages, fractions = zip(*seen, strict=True)
    assert stages[:5] == ("reading", "importing", "lowering", "planning", "writing kernel 1")
    assert stages[-1] == "done"
    assert any(stage.startswith("compiling kernel 1 of ") for stage in stages)
    assert list(fractions) == sorted(fractions)
    assert (fractions[0], fractions[-1]) == (0.0, 1.0)


def shown(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, delay: float) -> str:
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress, "DELAY", delay)
    monkeypatch.setattr(progress, "INTERVAL", 0.01)
    with working("compiling \x1b a.tflite") as report:
        time.sleep(0.05)
        report("compiling kernel 3 of 6", 0.5)
        time.sleep(0.05)
        report("done", 1.0)
        time.sleep(0.05)
    return stream.getvalue()


def test_the_line_shows_what_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    lines = shown(monkeypatch, Terminal(), 0.0).split(progress.ERASE)
    escaped = "compiling \\x1b a.tflite"
    assert lines[1] == f"{escaped}, 0 s"
    assert f"{escaped} [############............]  50% compiling kernel 3 of 6" in lines
    assert lines[-2:] == [f"{escaped}, 0 s", ""]  # a blank line at the end


def test_a_narrow_terminal_shows_the_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "70")
    lines = shown(monkeypatch, Terminal(), 0.0).split(progress.ERASE)
    (line,) = {line for line in lines if "kernel 3" in line}
    assert re.fullmatch(r"\.\.\..*tflite \[#{12}\.{12}\]  50% compiling kernel 3 of 6", line)
    assert max(map(len, lines)) == 69


def test_short_work_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, Terminal(), 60.0) == ""


def test_nothing_is_shown_but_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, io.StringIO(), 0.0) == ""


def test_an_exception_cancels_what_is_not_compiled_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []

    def emit(text: str, *_: object) -> bytes:
        begun.append(text)
        time.sleep(0.05)
        return b""

    monkeypatch.setattr(backend, "_emit", emit)

    def write() -> None:
        with backend.ObjectWriter(host_target()) as writer:
            for number in range(100):
                writer.add(str(number))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write()
    assert len(begun) < 100


def test_ctrl_c_ends_a_compilation_with_one_sentence(tmp_path: Path) -> None:
    """On a terminal, with the line shown and threads at work."""
    program = (
        "import qimport.cli.progress as p, qimport.codegen.backend as b, time, sys; p.DELAY = 0.0\n"
        "emit = b._emit\n"
        "def slow(*arguments):\n"
        "    print('busy', flush=True); time.sleep(0.3); return emit(*arguments)\n"
        "b._emit = slow\n"
        "from qimport.cli import main; main()"
    )
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", program, "build", cli.DIGITS, "-o", str(tmp_path / "out")]
    with subprocess.Popen(command, cwd=cli.ROOT, stdout=subprocess.PIPE, stderr=theirs) as running:
        os.close(theirs)
        assert running.stdout is not None
        assert running.stdout.readline() == b"busy\n"
        running.send_signal(signal.SIGINT)
        assert running.wait(30) == 130
    said = b""
    while True:
        try:
            said += os.read(ours, 4096)
        except OSError:  # the other side is closed
            break
    os.close(ours)
    assert said.decode().split(progress.ERASE)[-1].strip() == "qimport: error: interrupted"
    assert not list(tmp_path.glob("out/*"))
