"""The TFLite interpreter as an oracle for the bytes of a model in each numerics mode.

The interpreter ends its whole process on some valid inputs (reference SOFTMAX over 512 equal logits, for
one), so it never runs in ours. :class:`Oracle` keeps a worker process (:mod:`qimport.oracle_worker`) and
starts another one when it died.

The modes of 64-bit ARM are asked of an interpreter for that machine: the environment variable
:data:`ARM64_PYTHON` names a Python for it that runs here, in an emulator for example
(``tests/arm64_python.sh`` makes one). The variable :data:`ARM64_CORE` tells it which core to be.
"""

from __future__ import annotations

import hashlib
import os
import platform
import threading
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from qimport.errors import ArgumentError, QimportError
from qimport.numerics import MODES, Family, Mode
from qimport.version import INTERPRETER_VERSION
from qimport.worker import WorkerDied, WorkerProcess

Array = npt.NDArray[Any]
Model = bytes | memoryview | str | os.PathLike[str]
Resize = dict[int, tuple[int, ...]]

SUPPORTED_VERSION = INTERPRETER_VERSION
"""The only ai-edge-litert release that answers."""

INSTALL = f"pip install ai-edge-litert=={SUPPORTED_VERSION}"

RESOLVERS: dict[Family, str] = {
    "reference": "BUILTIN_REF",
    "builtin": "BUILTIN_WITHOUT_DEFAULT_DELEGATES",
    "xnnpack": "AUTO",
}
"""Kernel family of a numerics mode -> member of the interpreter's OpResolverType."""

ARM64_PYTHON, ARM64_CORE = "QIMPORT_ARM64_PYTHON", "QIMPORT_ARM64_CORE"
"""Environment variables: what runs ARM modes, and, set by us, the core that it shall be."""

NATIVE, CORE, LITTLE_CORE = "", "neoverse-n1", "cortex-a53"
"""Where a mode is asked: here, or one of the cores that ARM modes mean."""


class OracleError(QimportError):
    """The interpreter cannot be asked, or gives no answer."""

    exit_code = 4


class OracleUnavailable(OracleError):
    """ai-edge-litert is not installed, or its worker does not start."""


class OracleVersion(OracleError):
    """Another ai-edge-litert than :data:`SUPPORTED_VERSION` is installed; its bytes may differ."""


class OracleVersionWarning(UserWarning):
    """As :class:`OracleVersion`, for callers that accept any version."""


class OracleRefused(OracleError):
    """The interpreter refused the model or its inputs, or ended its process (``signal`` then names how)."""

    def __init__(self, message: str, *, signal_name: str | None = None) -> None:
        super().__init__(message)
        self.signal = signal_name


@dataclass(frozen=True)
class TensorDetail:
    """A model input or output as the interpreter describes it."""

    index: int
    name: str
    shape: tuple[int, ...]
    shape_signature: tuple[int, ...]
    dtype: np.dtype[Any]
    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    quantized_dimension: int


@dataclass(frozen=True)
class OracleResult:
    """Outputs of the last invocation, in model order.

    ``tensors`` maps tensor index to value; constants and unused tensors may be among them.
    """

    outputs: list[Array]
    tensors: dict[int, Array] = field(default_factory=dict)


@dataclass(frozen=True)
class OracleMemory:
    """What a prepared interpreter holds; the interpreter itself does not tell, so both are measured.

    ``arena_bytes`` is the span of the activations in the interpreter's arena, taken from tensor addresses
    (None when no input lies there); in ``xnnpack`` mode that leaves out what the delegate keeps for itself.
    ``heap_bytes`` is what allocating the tensors and the first invocation took from the C heap: arena, packed
    weights, delegate; None where the C library cannot say.
    """

    arena_bytes: int | None
    heap_bytes: int | None


class HasShapeAndType(Protocol):
    """What :func:`random_inputs` needs to know of a tensor."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Dimensions, all known."""

    @property
    def dtype(self) -> Any:
        """Anything ``numpy.dtype`` accepts."""


def random_inputs(details: Iterable[HasShapeAndType], seed: int, *, index_limit: int = 1) -> list[Array]:
    """Draw one input per tensor from ``default_rng(seed)``.

    8- and 16-bit integers are uniform over their whole range, floats over [-1, 1), bool over both values;
    wider integers are indices, uniform in [0, index_limit). Raises :class:`ArgumentError` for any other type.
    """
    rng = np.random.default_rng(seed)
    return [_random_tensor(rng, tuple(item.shape), np.dtype(item.dtype), index_limit) for item in details]


def _random_tensor(
    rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any], index_limit: int
) -> Array:
    if dtype.kind in "iu" and dtype.itemsize <= 2:
        limits = np.iinfo(dtype)
        return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    if dtype.kind in "iu":
        return rng.integers(0, index_limit, shape, dtype)
    if dtype.kind == "f":
        drawn = rng.random(shape, np.float32) * np.float32(2) - np.float32(1)
        return np.asarray(drawn, dtype)
    if dtype.kind == "b":
        return np.asarray(rng.integers(0, 2, shape), dtype)
    raise ArgumentError(f"no random values for a tensor of type {dtype}")


class Oracle:
    """The interpreter in a worker process, one for each kind of machine; a context manager.

    Threads may share one; it answers one call at a time. ``timeout`` is in seconds per call. ``any_version``
    turns :class:`OracleVersion` into an :class:`OracleVersionWarning`.
    """

    def __init__(self, *, timeout: float = 300.0, any_version: bool = False) -> None:
        self.timeout = timeout
        self.any_version = any_version
        self._lock = threading.Lock()
        self._workers: dict[str, WorkerProcess] = {}
        self._version: str | None = None

    def __enter__(self) -> Oracle:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def version(self) -> str:
        """Version of the installed ai-edge-litert."""
        with self._lock:
            self._start(NATIVE)
            assert self._version is not None
            return self._version

    def run(
        self,
        model: Model,
        inputs: Sequence[Array],
        mode: str,
        *,
        resize: Resize | None = None,
        invocations: int = 1,
        tensors: bool = False,
    ) -> OracleResult:
        """Run ``model`` on ``inputs`` (in model order) from its initial state.

        Of several ``invocations`` on the same inputs the last one's outputs are returned. ``resize`` maps the
        position of an input to its new shape. ``tensors`` also returns every tensor of the first subgraph
        that has a value; the delegate then takes the same operators one by one instead of in groups.
        Raises :class:`OracleRefused` with the interpreter's own words.
        """
        reply = self._ask(
            "run", model, mode, inputs=list(inputs), resize=resize, invocations=invocations, preserve=tensors
        )
        return OracleResult(**reply)

    def run_sequence(
        self,
        model: Model,
        sequence: Sequence[Sequence[Array]],
        mode: str,
        *,
        resize: Resize | None = None,
    ) -> list[list[Array]]:
        """Outputs of successive invocations from the initial state; what the model remembers carries over.

        Raises :class:`OracleRefused` with the interpreter's own words.
        """
        inputs = [list(arrays) for arrays in sequence]
        outputs = self._ask("run_sequence", model, mode, sequence=inputs, resize=resize)
        return [list(arrays) for arrays in outputs]

    def run_signature(
        self, model: Model, key: str, sequence: Sequence[Mapping[str, Array]], mode: str
    ) -> list[dict[str, Array]]:
        """The same for a signature, with arrays by name of arguments and results."""
        inputs = [dict(arrays) for arrays in sequence]
        outputs = self._ask("run_signature", model, mode, sequence=inputs, key=key)
        return [dict(arrays) for arrays in outputs]

    def memory(
        self, model: Model, inputs: Sequence[Array], mode: str, *, resize: Resize | None = None
    ) -> OracleMemory:
        """Measure a new interpreter from before its allocation to after one invocation.

        It gets a worker of its own: only on an untouched heap do the addresses tell the arena from other
        allocations.
        """
        with Oracle(timeout=self.timeout, any_version=self.any_version) as fresh:
            return OracleMemory(**fresh._ask("memory", model, mode, inputs=list(inputs), resize=resize))

    def details(
        self, model: Model, *, mode: str = "reference", resize: Resize | None = None
    ) -> tuple[list[TensorDetail], list[TensorDetail]]:
        """Inputs and outputs of ``model`` after allocation."""
        inputs, outputs = self._ask("details", model, mode, resize=resize)
        return [TensorDetail(**item) for item in inputs], [TensorDetail(**item) for item in outputs]

    def delegated_ops(self, model: Model, *, resize: Resize | None = None) -> frozenset[int]:
        """Operators (indices in the first subgraph) the delegate takes in ``xnnpack`` mode."""
        return frozenset(self._ask("delegated_ops", model, "xnnpack", resize=resize))

    def time(
        self,
        model: Model,
        inputs: Sequence[Array],
        mode: str,
        *,
        rounds: int = 10,
        threads: int = 1,
        warmup: int = 1,
        resize: Resize | None = None,
    ) -> list[float]:
        """Seconds of each of ``rounds`` invocations, after ``warmup`` untimed ones."""
        seconds = self._ask(
            "time",
            model,
            mode,
            inputs=list(inputs),
            resize=resize,
            rounds=rounds,
            warmup=warmup,
            threads=threads,
        )
        return list(seconds)

    def close(self) -> None:
        """End the workers. A later call starts others."""
        with self._lock:
            for worker in self._workers.values():
                worker.stop()

    def _ask(self, command: str, model: Model, mode: str, **arguments: Any) -> Any:
        wanted = next((meant for name, meant in MODES.items() if name == mode), None)
        if wanted is None:
            raise ArgumentError(f"unknown numerics mode {mode!r}; known are {', '.join(MODES)}")
        content, core = _read(model), _core(wanted)
        digest = hashlib.sha256(content).hexdigest()
        request = {"command": command, "digest": digest, "resolver": RESOLVERS[wanted.family], **arguments}
        with self._lock:
            used = core in self._workers and self._workers[core].running
            try:
                kind, value = self._converse(core, request, content)
            except OracleRefused as error:
                if not used or error.signal is None:
                    raise
                # Perhaps an earlier model damaged the heap of that process: this one deserves a fresh one.
                kind, value = self._converse(core, request, content)
        if kind == "refused":
            raise OracleRefused(f"the TFLite interpreter ({mode}) refuses the model: {value}")
        return value

    def _converse(self, core: str, request: dict[str, Any], content: bytes) -> tuple[str, Any]:
        worker = self._start(core)
        try:
            kind, value = worker.ask(request)
            if kind == "model?":
                kind, value = worker.ask({**request, "content": content})
        except WorkerDied as error:
            raise OracleRefused(str(error), signal_name=error.signal_name) from None
        return kind, value

    def _start(self, core: str) -> WorkerProcess:
        worker = self._workers.get(core) or self._workers.setdefault(core, _worker(core, self.timeout))
        if worker.running:
            return worker
        try:
            kind, value = worker.start()
        except WorkerDied as error:
            raise OracleUnavailable(f"the worker of the TFLite interpreter does not start: {error}") from None
        if kind == "missing":
            worker.stop()
            raise OracleUnavailable(f"the TFLite interpreter is not installed ({value}): {INSTALL}")
        self._version = value
        if value != SUPPORTED_VERSION:
            self._wrong_version(worker, value)
        return worker

    def _wrong_version(self, worker: WorkerProcess, version: str) -> None:
        message = (
            f"ai-edge-litert {version} is installed, but the numerics modes mean {SUPPORTED_VERSION} "
            f"and other releases give other bytes: {INSTALL}"
        )
        if not self.any_version:
            worker.stop()
            raise OracleVersion(message)
        warnings.warn(message, OracleVersionWarning, stacklevel=4)


def _core(mode: Mode) -> str:
    """Where a mode is asked."""
    if not mode.arm64 or (platform.machine() == "aarch64" and ARM64_PYTHON not in os.environ):
        return NATIVE
    return LITTLE_CORE if mode.little else CORE


def _worker(core: str, timeout: float) -> WorkerProcess:
    module, subject = "qimport.oracle_worker", "the TFLite interpreter"
    if core == NATIVE:
        return WorkerProcess(module, subject, timeout)
    if ARM64_PYTHON not in os.environ:
        raise OracleUnavailable(
            f"{ARM64_PYTHON} is unset: to ask for ARM modes it names a Python for 64-bit ARM that runs here"
        )
    return WorkerProcess(
        module, f"{subject} on {core}", timeout, os.environ[ARM64_PYTHON], {ARM64_CORE: core}
    )


def _read(model: Model) -> bytes:
    if isinstance(model, bytes | memoryview):
        return bytes(model)
    try:
        return Path(model).read_bytes()
    except OSError as error:
        raise ArgumentError(f"cannot read {os.fspath(model)}: {error.strerror}") from None
