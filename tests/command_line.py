"""Calls of the command line, in this process or in one of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from qimport.cli.app import app

ROOT = Path(__file__).resolve().parents[1]
DIGITS = str(ROOT / "models" / "digits_int8_ptq.tflite")
MOBILE = str(ROOT / "models" / "mobile_int8.tflite")


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
