"""Who is timed: a compiled model here, and other run-times in processes of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Protocol

from qimport.arrays import Array
from qimport.errors import ArgumentError, QimportError, unknown_name
from qimport.oracle import Oracle, Resize
from qimport.worker import WorkerDied, WorkerProcess, successive_calls

PEERS: dict[str, str] = {
    "tflite": "the TFLite interpreter's default: XNNPACK",
    "builtin": "the TFLite interpreter's builtin kernels",
    "openvino": "OpenVINO on the CPU; not exact",
}
"""Peer -> what it is."""

MODES = {"tflite": "xnnpack", "builtin": "builtin"}
"""Peer -> the configuration of the interpreter, named as numerics modes are."""

INSTALL_OPENVINO = "pip install openvino"
TIMEOUT = 600.0
"""Seconds that OpenVINO may take for an answer."""


class PeerUnavailable(QimportError):
    """A peer is not installed."""

    exit_code = 4


class PeerRefused(QimportError):
    """A peer cannot run the model; the message is in its own words."""

    exit_code = 4


class Contestant(Protocol):
    """Something that runs one model on inputs that stay the same."""

    def first(self) -> list[Array]:
        """Prepare, run once, and return the outputs."""

    def turn(self, calls: int) -> list[float]:
        """Seconds of each of ``calls`` successive calls after an untimed one."""


class Bound:
    """A call without arguments in this process, and the arrays it writes."""

    def __init__(self, call: Callable[[], None], outputs: Sequence[Array]) -> None:
        self._call = call
        self._outputs = outputs

    def first(self) -> list[Array]:
        """Run once and return copies of the outputs."""
        self._call()
        return [array.copy() for array in self._outputs]

    def turn(self, calls: int) -> list[float]:
        """Seconds of each call after an untimed one."""
        return successive_calls(self._call, calls)


class TfLite:
    """The interpreter in a numerics mode, with a number of threads."""

    def __init__(
        self, oracle: Oracle, content: bytes, inputs: Sequence[Array], mode: str, threads: int
    ) -> None:
        self._oracle, self._content, self._inputs = oracle, content, inputs
        self._mode, self._threads = mode, threads
        self._resize: Resize = {position: array.shape for position, array in enumerate(inputs)}

    def first(self) -> list[Array]:
        """Outputs of one thread: how a model is split between threads changes no byte that is compared."""
        return self._oracle.run(self._content, self._inputs, self._mode, resize=self._resize).outputs

    def turn(self, calls: int) -> list[float]:
        """Seconds of each invocation after an untimed one."""
        return self._oracle.time(
            self._content,
            self._inputs,
            self._mode,
            rounds=calls,
            threads=self._threads,
            resize=self._resize,
        )


class OpenVino:
    """OpenVINO in a worker that all models of a run share."""

    def __init__(self, worker: OpenVinoWorker, content: bytes, inputs: Sequence[Array], threads: int) -> None:
        self._worker, self._content, self._inputs, self._threads = worker, content, inputs, threads

    def first(self) -> list[Array]:
        """Compile, run once, and return the outputs."""
        outputs = self._worker.ask("prepare", self._content, list(self._inputs), self._threads)
        return list(outputs)

    def turn(self, calls: int) -> list[float]:
        """Seconds of each call after an untimed one."""
        return list(self._worker.ask("time", calls))


class OpenVinoWorker:
    """The process that holds OpenVINO; it holds one model at a time."""

    def __init__(self) -> None:
        self._process = WorkerProcess("qimport.openvino_worker", "OpenVINO", TIMEOUT)
        self._version = ""

    @property
    def version(self) -> str:
        """Version of the installed package.

        Raises:
            PeerUnavailable: there is none.
        """
        if not self._process.running:
            try:
                kind, value = self._process.start()
            except WorkerDied as error:
                raise PeerUnavailable(f"the worker of OpenVINO does not start: {error}") from None
            if kind == "missing":
                self._process.stop()
                raise PeerUnavailable(f"OpenVINO is not installed ({value}): {INSTALL_OPENVINO}")
            self._version = str(value)
        return self._version

    def ask(self, *request: object) -> list[Any]:
        """Answer of the worker.

        Raises:
            PeerRefused: OpenVINO refuses, or ended its process.
        """
        _ = self.version
        try:
            kind, value = self._process.ask(request)
        except WorkerDied as error:
            raise PeerRefused(str(error)) from None
        if kind == "refused":
            raise PeerRefused(f"OpenVINO refuses the model: {value}")
        return list(value)

    def stop(self) -> None:
        """End the process."""
        self._process.stop()


class Peers:
    """The chosen peers, started once for any number of models; a context manager.

    ``versions`` says what each of them is, once it is entered. ``oracle`` is there also without the
    interpreter among the peers, and starts when it is asked something.

    Raises:
        ArgumentError: there is no peer of this name.
    """

    def __init__(self, names: Sequence[str], threads: int = 1) -> None:
        for name in names:
            if name not in PEERS:
                raise ArgumentError(unknown_name("peer", name, list(PEERS)))
        self.names = tuple(dict.fromkeys(names))
        self.threads = threads
        self.oracle = Oracle()
        self.versions: dict[str, str] = {}
        self._openvino = OpenVinoWorker()

    def __enter__(self) -> Peers:
        """Start the peers.

        Raises:
            OracleError: the interpreter is chosen and not installed, or is another release.
            PeerUnavailable: OpenVINO is chosen and not installed.
        """
        try:
            self.versions = {name: self._version(name) for name in self.names}
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all processes."""
        self.oracle.close()
        self._openvino.stop()

    def _version(self, name: str) -> str:
        if name == "openvino":
            return f"openvino {self._openvino.version}"
        return f"ai-edge-litert {self.oracle.version}"

    def contestants(self, content: bytes, inputs: Sequence[Array]) -> dict[str, Contestant]:
        """The peers, ready to run a model."""
        return {name: self._contestant(name, content, inputs) for name in self.names}

    def _contestant(self, name: str, content: bytes, inputs: Sequence[Array]) -> Contestant:
        if name == "openvino":
            return OpenVino(self._openvino, content, inputs, self.threads)
        return TfLite(self.oracle, content, inputs, MODES[name], self.threads)
