"""Every exception as one sentence on stderr and an exit code; never a traceback unless asked for."""

from __future__ import annotations

import os
import platform
import sys
import tempfile
import traceback
from contextlib import suppress

import click

from qimport.cli import INTERRUPTED
from qimport.errors import QimportError
from qimport.version import VERSION

BAD_ARGUMENT = 4
BUG = 70
BROKEN_PIPE = 141

TRACEBACK = "QIMPORT_TRACEBACK"
"""Environment variable: 1 prints the traceback of an unexpected exception."""


def explain(error: BaseException) -> int:
    """Print what a user needs to know of ``error`` and return the exit code."""
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else BUG
    if isinstance(error, click.Abort | KeyboardInterrupt):
        say("interrupted")
        return INTERRUPTED
    found = describe(error)
    if found is None:
        return _explain_bug(error)
    code, sentence = found
    say(sentence)
    return code


def describe(error: BaseException) -> tuple[int, str] | None:
    """Exit code and sentence for an error whose cause is the input; None for a bug of ours."""
    if isinstance(error, click.UsageError):
        command = error.ctx.command_path if error.ctx else "qimport"
        return BAD_ARGUMENT, f"{error.format_message().rstrip('.')} (see {command} --help)"
    if isinstance(error, click.ClickException):
        return BAD_ARGUMENT, error.format_message()
    if isinstance(error, QimportError) and error.exit_code != BUG:
        return error.exit_code, str(error)
    if isinstance(error, OSError):
        where = f"cannot access {os.fspath(error.filename)!r}: " if error.filename is not None else ""
        return BAD_ARGUMENT, f"{where}{(error.strerror or str(error)).lower()}"
    if isinstance(error, MemoryError):
        return BAD_ARGUMENT, "there is not enough memory for this model with these shapes"
    return None


def say(sentence: str) -> None:
    """Print an error."""
    with suppress(BrokenPipeError):
        click.echo(f"qimport: error: {sentence}", err=True)


def show_warning(message: Warning | str, *_where: object, **_options: object) -> None:
    """Print a warning as a sentence, without the line of code that gave it; for ``warnings.showwarning``."""
    with suppress(BrokenPipeError):
        click.echo(f"qimport: warning: {message}", err=True)


def _explain_bug(error: BaseException) -> int:
    trace = "".join(traceback.format_exception(error))
    what = f"this is a bug in qimport ({type(error).__name__}: {_first_line(error)})"
    if os.environ.get(TRACEBACK) == "1":
        click.echo(trace, err=True, nl=False)
        say(f"{what}; please report it with the text above")
        return BUG
    try:
        say(f"{what}; please report it with the file {_write_report(trace)}")
    except OSError:
        say(f"{what}; please report it with what {TRACEBACK}=1 shows")
    return BUG


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [""])[0]


def _write_report(trace: str) -> str:
    lines = [
        f"qimport: {VERSION}",
        f"arguments: {sys.argv[1:]}",
        f"python: {sys.version}",
        f"system: {platform.platform()}",
        "",
        trace,
    ]
    handle, path = tempfile.mkstemp(prefix="qimport-", suffix=".txt")
    with os.fdopen(handle, "w", encoding="utf-8") as report:
        report.write("\n".join(lines))
    return path
