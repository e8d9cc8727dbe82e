"""A Python module in a process of its own, which may crash without harm to ours.

Both sides speak in length-prefixed pickle frames over two pipes. The worker begins with ``("ready", value)``
or ``("missing", why)``. Then it answers every request with one frame ``(kind, value)``.
"""

from __future__ import annotations

import os
import pickle
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any

from qimport.errors import QimportError

Answer = tuple[str, Any]


class WorkerDied(QimportError):
    """The process ended, or gave no answer in time; ``signal_name`` names the signal that ended it."""

    exit_code = 4

    def __init__(self, message: str, signal_name: str | None = None) -> None:
        super().__init__(message)
        self.signal_name = signal_name


class WorkerProcess:
    """``python -m module``; ``subject`` is what runs there, for error messages.

    ``timeout`` is in seconds per request. ``python`` may be another Python than ours, which gets
    ``environment`` besides our own environment variables. One thread at a time.
    """

    def __init__(
        self,
        module: str,
        subject: str,
        timeout: float,
        python: str = sys.executable,
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.timeout = timeout
        self._python = python
        self._environment = environment
        self._module = module
        self._subject = subject
        self._process: subprocess.Popen[bytes] | None = None
        self._stderr: IO[bytes] | None = None

    @property
    def running(self) -> bool:
        """Whether there is a process."""
        return self._process is not None

    def start(self) -> Answer:
        """Start the process and wait for what it says first.

        Raises:
            WorkerDied: it ended instead.
        """
        paths = [str(Path(__file__).resolve().parents[1]), os.environ.get("PYTHONPATH", "")]
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the worker
        environment = {**os.environ, **self._environment, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
        try:
            self._process = subprocess.Popen(
                [self._python, "-W", "ignore", "-m", self._module],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                env=environment,
            )
        except OSError as error:
            raise WorkerDied(f"{self._python}: {error.strerror}") from None
        return self._exchange(None)

    def ask(self, request: Any) -> Answer:
        """Send a request and wait for the answer.

        Raises:
            WorkerDied: the process ended instead, or was ended because it took too long.
        """
        return self._exchange(request)

    def stop(self) -> None:
        """End the process; a later :meth:`start` makes another one."""
        process, self._process = self._process, None
        if process is None:
            return
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if self._stderr is not None:
            self._stderr.close()

    def _exchange(self, request: Any) -> Answer:
        """Send ``request`` (None: nothing, the worker speaks first) and wait for the answer."""
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        expired = threading.Event()

        def expire() -> None:
            expired.set()
            process.kill()

        timer = threading.Timer(self.timeout, expire)
        timer.start()
        try:
            if request is not None:
                write_frame(process.stdin, request)
            kind, value = read_frame(process.stdout)
            return kind, value
        except (EOFError, BrokenPipeError):
            raise self._death(expired.is_set()) from None
        except BaseException:
            # Interrupted in the middle of a frame: this worker cannot be spoken with any more.
            process.kill()
            self.stop()
            raise
        finally:
            timer.cancel()

    def _death(self, expired: bool) -> WorkerDied:
        assert self._process is not None
        assert self._stderr is not None
        code = self._process.wait()
        self._stderr.seek(0)
        lines = self._stderr.read().decode(errors="replace").strip().splitlines()
        self.stop()
        if expired:
            return WorkerDied(f"{self._subject} gave no answer in {self.timeout:g} s")
        name = signal.Signals(-code).name if code < 0 else None
        how = f"was ended by {name}" if name else f"ended with exit code {code}"
        words = f": {lines[-1]}" if lines else ""
        return WorkerDied(f"the process of {self._subject} {how}{words}", name)


def serve(say_first: Callable[[], Answer], answer: Callable[[Any], Answer]) -> None:
    """The other side: answer requests until standard input ends.

    Standard output is kept for frames; whatever anything else prints there goes to standard error.
    """
    frames = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    first = say_first()
    write_frame(frames, first)
    while first[0] == "ready":
        try:
            request = read_frame(sys.stdin.buffer)
        except EOFError:
            return
        write_frame(frames, answer(request))


def successive_calls(call: Callable[[], object], calls: int) -> list[float]:
    """Seconds of each of ``calls`` successive calls after an untimed one: alike in every process."""
    clock, seconds = time.perf_counter, []
    call()
    for _ in range(calls):
        start = clock()
        call()
        seconds.append(clock() - start)
    return seconds


def write_frame(pipe: IO[bytes], value: Any) -> None:
    """Send one pickled value with its length in front."""
    payload = pickle.dumps(value, protocol=5)
    pipe.write(struct.pack("<Q", len(payload)))
    pipe.write(payload)
    pipe.flush()


def read_frame(pipe: IO[bytes]) -> Any:
    """Receive what :func:`write_frame` sent; raises EOFError when the other side is gone."""
    header = pipe.read(8)
    if len(header) < 8:
        raise EOFError
    (size,) = struct.unpack("<Q", header)
    payload = pipe.read(size)
    if len(payload) < size:
        raise EOFError
    return pickle.loads(payload)  # both ends are ours
