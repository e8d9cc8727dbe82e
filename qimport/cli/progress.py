"""A line on a terminal's stderr that says what takes so long."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

from qimport.cli.text import ELLIPSIS, shorten
from qimport.compiler import Progress
from qimport.errors import printable

DELAY = 2.0
"""Seconds before anything is shown."""

INTERVAL = 0.2
"""Seconds until it is drawn again."""

BAR = 24
"""Characters of the bar."""

ERASE = "\r\x1b[K"


@contextmanager
def working(sentence: str) -> Iterator[Progress]:
    """Show ``sentence`` while the block runs, if that takes long, and what the block reports of its progress.

    After a report of 1 something else is going on that nobody can foresee: only the time is shown. Nothing is
    shown where stderr is no terminal.
    """
    if not sys.stderr.isatty():
        yield lambda stage, fraction: None
        return
    line = _Line(sys.stderr, printable(sentence))
    try:
        yield line.report
    finally:
        line.end()


class _Line:
    """Draws itself from a thread of its own: the block may be busy elsewhere for seconds."""

    def __init__(self, stream: TextIO, sentence: str) -> None:
        self._stream, self._sentence = stream, sentence
        self._progress: tuple[str, float] | None = None
        self._started = time.monotonic()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="qimport-progress", daemon=True)
        self._thread.start()

    def report(self, stage: str, fraction: float) -> None:
        """Take the present stage and which part of all work is done; drawn when its time comes."""
        self._progress = stage, fraction

    def end(self) -> None:
        """Leave the terminal as it was."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        if self._ended.wait(DELAY):
            return
        with suppress(OSError, ValueError):  # the terminal has gone
            while not self._ended.is_set():
                self._draw(self._text())
                self._ended.wait(INTERVAL)
            self._draw("")

    def _draw(self, text: str) -> None:
        self._stream.write(ERASE + text)
        self._stream.flush()

    def _text(self) -> str:
        """One line that fits the terminal."""
        if self._progress is None or self._progress[1] >= 1:
            return self._fitting(f", {time.monotonic() - self._started:.0f} s")
        stage, fraction = self._progress
        bar = ("#" * round(BAR * fraction)).ljust(BAR, ".")
        return self._fitting(f" [{bar}] {fraction:4.0%} {stage}")

    def _fitting(self, state: str) -> str:
        """The sentence, of which a narrow terminal shows the end, and the state."""
        width = shutil.get_terminal_size().columns - 1
        return (shorten(self._sentence, max(width - len(state), len(ELLIPSIS))) + state)[:width]
