"""Compiled models and sessions: what runs."""

from __future__ import annotations

import ctypes
import os
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from qimport import artefact as files
from qimport.arrays import Array, Inputs, checked, in_order, to_floats
from qimport.artefact import Artefact, SignatureInfo, StateInfo, TensorInfo, aligned_bytes
from qimport.codegen.forking import LOADING
from qimport.codegen.host import why_not_runnable
from qimport.codegen.jit import LoadedCode, load_object
from qimport.codegen.shared import LibraryCode
from qimport.codegen.target import Target
from qimport.errors import ArgumentError, TargetError
from qimport.ir.types import DTYPES
from qimport.library import MAGIC, from_library, is_library
from qimport.numerics import Numerics

StageText = Callable[[str], str]
Code = LoadedCode | LibraryCode


class _Workspace:
    """An arena and two arrays of addresses: what one call at a time needs.

    :attr:`run` computes from where :meth:`point_to` has pointed to; it makes no object.
    """

    def __init__(self, artefact: Artefact, code: Code) -> None:
        self._initial_state = artefact.initial_state
        self._arena = aligned_bytes(artefact.arena_bytes)
        self._inputs = (ctypes.c_void_p * len(artefact.inputs))()
        self._outputs = (ctypes.c_void_p * len(artefact.outputs))()
        self.states = tuple(_state(self._arena, info) for info in artefact.states)
        self.run = code.bound(
            self._inputs, self._outputs, self._arena.ctypes.data, artefact.constants.ctypes.data
        )
        code.prepare(int(self._arena.ctypes.data))
        self.reset()

    def reset(self) -> None:
        """Forget all calls."""
        if self._initial_state.size:
            self._arena[: self._initial_state.size] = self._initial_state

    def point_to(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Choose contiguous arrays of the right types, at any addresses, which the caller keeps."""
        for position, array in enumerate(inputs):
            self._inputs[position] = _address(array)
        for position, array in enumerate(outputs):
            self._outputs[position] = _address(array)


class CompiledModel:
    """A model as native code: an immutable value that any number of threads may call and pickle can carry.

    Make one with :func:`qimport.compile` or :func:`qimport.load`. Code for another kind of machine can be
    saved, not run.
    """

    def __init__(
        self, artefact: Artefact, stage_text: StageText | None = None, code: Code | None = None
    ) -> None:
        self._artefact = artefact
        self._stage_text = stage_text
        self._code = code
        self._idle: deque[_Workspace] = deque()

    @property
    def name(self) -> str:
        """Name of the file without its suffix, or of the graph."""
        return self._artefact.name

    @property
    def numerics(self) -> Numerics:
        """Whose bytes the outputs equal."""
        return self._artefact.numerics

    @property
    def target(self) -> Target:
        """What the code is for."""
        return self._artefact.target

    @property
    def threads(self) -> int:
        """How many threads a call can use; 1 where no kernel is worth splitting."""
        return self._artefact.threads

    @property
    def inputs(self) -> tuple[TensorInfo, ...]:
        """The inputs in the order of the file."""
        return self._artefact.inputs

    @property
    def outputs(self) -> tuple[TensorInfo, ...]:
        """The outputs in the order of the file."""
        return self._artefact.outputs

    @property
    def signatures(self) -> tuple[SignatureInfo, ...]:
        """Named ways to call the model."""
        return self._artefact.signatures

    @property
    def arena_bytes(self) -> int:
        """Memory of one call in flight, or of a session: state and scratch."""
        return self._artefact.arena_bytes

    @property
    def state_bytes(self) -> int:
        """How much of :attr:`arena_bytes` a session keeps from call to call; 0 for most models."""
        return self._artefact.initial_state.size

    @property
    def states(self) -> tuple[StateInfo, ...]:
        """What a session remembers: variable tensors and resource variables of the file."""
        return self._artefact.states

    @property
    def plan(self) -> str:
        """The kernel plan as text: one line per kernel call."""
        return self._artefact.plan

    @property
    def rows(self) -> tuple[str, ...]:
        """Which row of the kernel table computes each call of the plan."""
        return self._artefact.rows

    def __repr__(self) -> str:
        arguments = ", ".join(f"{info.name!r}: {info.type}" for info in self.inputs)
        results = ", ".join(f"{info.name!r}: {info.type}" for info in self.outputs)
        return (
            f"<CompiledModel {self.name!r} ({arguments}) -> ({results}),"
            f" numerics {self.numerics}, target {self.target.name}>"
        )

    def run(self, inputs: Inputs, *, quantize: bool = False, dequantize: bool = False) -> list[Array]:
        """Run once and return new arrays, one per output; a model with state starts from its initial one.

        Args:
            inputs: arrays in the order of :attr:`inputs`, a mapping from names (of tensors or of a
                signature's arguments), or a single array. Read-only, unaligned and non-contiguous ones are
                fine; the last are copied.
            quantize: turn float arrays into codes for quantized inputs, as a QUANTIZE operator would.
            dequantize: return the real values of quantized outputs, as a DEQUANTIZE operator would.

        Raises:
            ArgumentError: number, name, shape or element type of an array is wrong.
            TargetError: the code is for another machine.
        """
        arrays = in_order(inputs, self.inputs, self.signatures)
        ready = [
            checked(array, info, self.numerics, quantize)
            for array, info in zip(arrays, self.inputs, strict=True)
        ]
        outputs: list[Array] = [np.empty(info.shape, info.dtype) for info in self.outputs]
        code = self._load()
        try:
            workspace = self._idle.pop()
            workspace.reset()
        except IndexError:
            workspace = _Workspace(self._artefact, code)
        workspace.point_to(ready, outputs)
        workspace.run()
        self._idle.append(workspace)
        if not dequantize:
            return outputs
        return [
            to_floats(array, info, self.numerics) for array, info in zip(outputs, self.outputs, strict=True)
        ]

    __call__ = run

    def session(
        self, inputs: Sequence[Array] | None = None, outputs: Sequence[Array] | None = None
    ) -> Session:
        """An arena with bound buffers, for calls without any copy or allocation, and with state of its own.

        Args:
            inputs: C-contiguous arrays to read from, at any address; by default the session has its own.
            outputs: writable C-contiguous arrays to write to; by default the session has its own.

        Raises:
            ArgumentError: an array cannot be bound.
            TargetError: the code is for another machine.
        """
        return Session(
            self._artefact,
            self._load(),
            _bind(self.inputs, inputs, "input"),
            _bind(self.outputs, outputs, "output"),
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a file that :func:`qimport.load` reads; of a loaded shared library, the library again.

        Raises:
            ArgumentError: the system refuses.
        """
        files.write_file(self._artefact, path)

    def stage(self, name: str) -> str:
        """A stage of the compilation as text: ``qnn``, ``prim``, ``plan``, ``llvm`` or ``asm``.

        Stages are not kept: all but the plan are computed again.

        Raises:
            ArgumentError: an unknown stage, or the model was loaded and has only its ``plan``.
        """
        if name == "plan":
            return self.plan
        if self._stage_text is None:
            raise ArgumentError(
                f"a loaded model holds no stage {name!r}, only its plan; compile the .tflite file again"
            )
        return self._stage_text(name)

    def _load(self) -> Code:
        """The code, loaded at its first use."""
        if self._code is None:
            with LOADING:
                if self._code is None:
                    self._code = load_object(
                        self._artefact.object_code, self._artefact.entry, self.target, self.threads
                    )
        return self._code

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle, (self._artefact.to_bytes(),)


class Session:
    """One arena with bound buffers: fill :attr:`inputs`, call :meth:`run`, read :attr:`outputs`.

    What the model remembers carries over from one :meth:`run` to the next. A session is for one thread at a
    time; several sessions of one model run side by side.
    """

    def __init__(
        self, artefact: Artefact, code: Code, inputs: tuple[Array, ...], outputs: tuple[Array, ...]
    ) -> None:
        self._artefact = artefact  # keeps the constants
        self._code = code
        self._workspace = _Workspace(artefact, code)
        self._workspace.point_to(inputs, outputs)
        self._run = self._workspace.run
        self._inputs = inputs
        self._outputs = outputs

    @property
    def inputs(self) -> tuple[Array, ...]:
        """Arrays of the model's shapes and types, to be written in place."""
        return self._inputs

    @property
    def outputs(self) -> tuple[Array, ...]:
        """Arrays that :meth:`run` overwrites."""
        return self._outputs

    @property
    def states(self) -> tuple[Array, ...]:
        """What the model remembers now, in the order of :attr:`CompiledModel.states`; may be overwritten."""
        return self._workspace.states

    def run(self) -> None:
        """Compute the outputs from what the input buffers hold."""
        self._run()

    def call(self, inputs: Sequence[Array]) -> list[Array]:
        """Copy arrays of the right shapes and types to the inputs, run, and return copies of the outputs."""
        for place, array in zip(self._inputs, inputs, strict=True):
            place[...] = array
        self.run()
        return [array.copy() for array in self._outputs]

    def reset(self) -> None:
        """Forget all runs: the next one is again the first."""
        self._workspace.reset()


def _address(array: Array) -> int:
    """Where a contiguous array begins; of writable ones in a third of the time of ``array.ctypes.data``."""
    if array.size and array.flags.writeable:
        return ctypes.addressof(ctypes.c_char.from_buffer(array.data))
    return int(array.ctypes.data)


def _state(arena: Array, info: StateInfo) -> Array:
    """The part of an arena that is a state."""
    part: Array = arena[info.offset : info.end]
    return part.view(DTYPES[info.dtype][1]).reshape(info.shape)


def _bind(infos: Sequence[TensorInfo], arrays: Sequence[Array] | None, side: str) -> tuple[Array, ...]:
    """The caller's arrays after a check, or new ones at aligned addresses."""
    if arrays is None:
        return tuple(aligned_bytes(info.type.nbytes).view(info.dtype).reshape(info.shape) for info in infos)
    if len(arrays) != len(infos):
        raise ArgumentError(f"{len(arrays)} {side} arrays given, the model has {len(infos)}")
    for info, array in zip(infos, arrays, strict=True):
        fits = isinstance(array, np.ndarray) and (array.dtype, array.shape) == (info.dtype, info.shape)
        if not fits or not array.flags.c_contiguous or not (side == "input" or array.flags.writeable):
            raise ArgumentError(
                f"{side} {info.name!r} needs a C-contiguous{' writable' * (side == 'output')} array of"
                f" {info.dtype} {list(info.shape)}"
            )
    return tuple(arrays)


def _unpickle(content: bytes) -> CompiledModel:
    source = "the pickled model"
    return (
        _of_library(content, source)
        if content.startswith(MAGIC)
        else CompiledModel(files.from_bytes(content, source))
    )


def _of_library(content: bytes, source: str) -> CompiledModel:
    artefact, code = from_library(content, source)
    return CompiledModel(artefact, code=code)


def load(path: str | os.PathLike[str]) -> CompiledModel:
    """Read a model that :meth:`CompiledModel.save` wrote, or a shared library that ``qimport build`` made.

    It is native code: load only what you trust. Checksums, versions and the processor are checked before any
    of it runs. Later changes of the file do not reach the model, which also pickles as a whole.

    Raises:
        ArgumentError: the file cannot be read, or is a library that does not hold its weights.
        ModelError: it is not such a file, damaged, or written by another version of qimport.
        TargetError: this machine cannot run the code.
    """
    source = os.fspath(path)
    try:
        if is_library(path):
            with open(path, "rb") as file:
                return _of_library(file.read(), source)
    except OSError as error:
        raise ArgumentError(f"cannot read {source}: {error.strerror or error}") from error
    artefact = files.read_file(path)
    reason = why_not_runnable(artefact.target)
    if reason is not None:
        raise TargetError(f"{source} holds code for {artefact.target.name}: {reason}")
    return CompiledModel(artefact)
