"""What compiling gives, as a plain record, and the file it is kept in.

The file is a ZIP archive of five members, none compressed: ``model.json`` (everything small, readable),
``code.o`` (a position-independent ELF object), ``constants.bin`` (weights and tables, packed for that code),
``state.bin`` (what the model remembers before the first call), ``plan.txt``.
"""

from __future__ import annotations

import errno
import functools
import io
import json
import os
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
import numpy.typing as npt

from qimport.codegen.target import ARCHITECTURES, Target
from qimport.errors import ArgumentError, ModelError, QimportError
from qimport.ir.types import ALIGNMENT, DTYPES, Quantization, TensorType
from qimport.numerics import NUMERICS, Numerics
from qimport.version import INTERPRETER, VERSION

FORMAT = "qimport compiled model"

_MEMBERS = ("code.o", "constants.bin", "state.bin", "plan.txt")

Bytes = npt.NDArray[np.uint8]
BinaryFile = io.BufferedReader | io.BytesIO


@dataclass(frozen=True)
class TensorInfo:
    """An input or output: name and tensor index in the file, and its type.

    ``shape_signature`` is the shape as the file leaves it open, -1 where a dimension may change.
    """

    name: str
    index: int
    type: TensorType
    shape_signature: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Static shape."""
        return self.type.shape

    @functools.cached_property
    def dtype(self) -> np.dtype[Any]:
        """NumPy element type."""
        return self.type.numpy

    @property
    def scales(self) -> tuple[float, ...]:
        """float32 values, one per tensor or one per channel; empty where the tensor is not quantized."""
        return self.type.quantization.scales if self.type.quantization else ()

    @property
    def zero_points(self) -> tuple[int, ...]:
        """As many as ``scales``."""
        return self.type.quantization.zero_points if self.type.quantization else ()

    @property
    def axis(self) -> int | None:
        """The dimension that several scales belong to."""
        return self.type.quantization.axis if self.type.quantization else None

    @property
    def scale(self) -> float | None:
        """The only scale, None where there are none or several."""
        return self.scales[0] if len(self.scales) == 1 else None

    @property
    def zero_point(self) -> int | None:
        """The only zero point, None where there are none or several."""
        return self.zero_points[0] if len(self.scales) == 1 else None


@dataclass(frozen=True)
class SignatureInfo:
    """A named way to call the model: argument names -> positions of inputs, result names -> of outputs."""

    key: str
    inputs: Mapping[str, int]
    outputs: Mapping[str, int]


@dataclass(frozen=True)
class StateInfo:
    """Something the model remembers from call to call, at ``offset`` of the arena."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int

    @property
    def end(self) -> int:
        """Offset behind its last byte."""
        return self.offset + TensorType(self.dtype, self.shape).nbytes


@dataclass(frozen=True, eq=False)
class Artefact:
    """A compiled model without anything of this process in it.

    ``entry`` is the symbol of ``void entry(inputs, outputs, arena, constants)`` in ``object_code``; where
    ``threads``, as many as work at a time, are more than one, it also takes a ``parallel_for`` and a pool;
    ``constants`` lies at a 64-byte aligned address and is read-only; ``initial_state`` is what the begin of
    the arena holds before the first call; ``plan`` is the kernel plan as text and ``rows`` the kernel row of
    every call.
    """

    name: str
    numerics: Numerics
    target: Target
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    signatures: tuple[SignatureInfo, ...]
    states: tuple[StateInfo, ...]
    arena_bytes: int
    threads: int
    plan: str
    rows: tuple[str, ...]
    entry: str
    object_code: bytes
    constants: Bytes
    initial_state: Bytes

    def to_bytes(self) -> bytes:
        """The content of a file; equal artefacts give equal bytes."""
        stream = io.BytesIO()
        self.write(stream)
        return stream.getvalue()

    def write(self, stream: IO[bytes]) -> None:
        """Write :meth:`to_bytes` to a file without a copy in memory."""
        members: dict[str, bytes | memoryview] = {
            "model.json": json.dumps(self.description(), indent=1).encode(),
            "code.o": self.object_code,
            "constants.bin": self.constants.data,
            "state.bin": self.initial_state.data,
            "plan.txt": self.plan.encode(),
        }
        with zipfile.ZipFile(stream, "w") as archive:
            for name, content in members.items():
                archive.writestr(zipfile.ZipInfo(name), content)

    def description(self) -> dict[str, Any]:
        """Everything small, as JSON holds it."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "interpreter": INTERPRETER,
            "name": self.name,
            "numerics": self.numerics,
            "target": {
                "name": self.target.name,
                "architecture": self.target.architecture.name,
                "features": sorted(self.target.features),
                "llvm": self.target.feature_string,
            },
            "inputs": [_describe(info) for info in self.inputs],
            "outputs": [_describe(info) for info in self.outputs],
            "signatures": [
                {"key": item.key, "inputs": dict(item.inputs), "outputs": dict(item.outputs)}
                for item in self.signatures
            ],
            "states": [asdict(state) | {"shape": list(state.shape)} for state in self.states],
            "arena_bytes": self.arena_bytes,
            "threads": self.threads,
            "rows": list(self.rows),
            "entry": self.entry,
        }


def aligned_bytes(size: int) -> Bytes:
    """``size`` zero bytes at a 64-byte aligned address; the address is valid also for a size of 0."""
    room = np.zeros(size + ALIGNMENT, np.uint8)
    start = -int(room.ctypes.data) % ALIGNMENT
    return room[start : start + size]


def aligned_copy(content: bytes) -> Bytes:
    """A read-only copy at a 64-byte aligned address."""
    copy = aligned_bytes(len(content))
    copy[:] = np.frombuffer(content, np.uint8)
    copy.flags.writeable = False
    return copy


def write_file(artefact: Artefact, path: str | os.PathLike[str]) -> None:
    """Write the file beside its place and rename it: it is never seen half written.

    Raises:
        ArgumentError: the system refuses.
    """
    place = Path(path)
    scratch = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        with open(scratch, "wb") as file:
            artefact.write(file)
        os.replace(scratch, place)
    except OSError as error:
        scratch.unlink(missing_ok=True)
        raise ArgumentError(f"cannot write {place}: {error.strerror or error}") from error


def read_file(path: str | os.PathLike[str]) -> Artefact:
    """Read what :func:`write_file` wrote.

    Raises:
        ArgumentError: the file cannot be read.
        ModelError: it is no such file, damaged, or of another version.
    """
    try:
        with open(path, "rb") as file:
            return read(file, os.fspath(path))
    except OSError as error:
        raise ArgumentError(f"cannot read {os.fspath(path)}: {error.strerror or error}") from error


def from_bytes(content: bytes, source: str = "compiled model") -> Artefact:
    """The inverse of :meth:`Artefact.to_bytes`; ``source`` names it in errors.

    Raises:
        ModelError: as :func:`read_file`.
    """
    return read(io.BytesIO(content), source)


def read(file: BinaryFile, source: str) -> Artefact:
    """As :func:`from_bytes`, from a file that can seek; constants are read straight to their place.

    Raises:
        ModelError: as :func:`read_file`.
        OSError: the system refuses.
    """
    description, members = _read_members(file, source, _MEMBERS)
    check_versions(description, source)
    try:
        return assemble(description, members)
    except (KeyError, TypeError, ValueError, QimportError) as error:
        raise ModelError(f"{source} is damaged: its description does not fit ({error})") from error


def read_description(file: BinaryFile, source: str) -> dict[str, Any]:
    """Only ``model.json`` of such a file, of this version or another.

    Raises:
        ModelError: it is no such file, or damaged.
        OSError: the system refuses.
    """
    description, _ = _read_members(file, source, ())
    if not isinstance(description, dict) or description.get("format") != FORMAT:
        raise ModelError(f"{source} is no compiled model of qimport")
    return description


def _read_members(file: BinaryFile, source: str, names: Sequence[str]) -> tuple[Any, dict[str, Bytes]]:
    """``model.json``, and the members with these names."""
    try:
        with zipfile.ZipFile(file) as archive:
            size = file.seek(0, os.SEEK_END)
            description = json.loads(bytes(_read_member(file, archive.getinfo("model.json"), size)))
            return description, {name: _read_member(file, archive.getinfo(name), size) for name in names}
    except OSError as error:
        if error.errno != errno.EINVAL:  # which the system says of places before the beginning of a file
            raise
        raise ModelError(f"{source} is damaged: its directory points out of it") from error
    except (zipfile.BadZipFile, KeyError, ValueError, EOFError, NotImplementedError, RuntimeError) as error:
        raise ModelError(f"{source} is no compiled model of qimport, or it is damaged ({error})") from error


def _read_member(file: BinaryFile, member: zipfile.ZipInfo, size: int) -> Bytes:
    """A member of an archive of ``size`` bytes at an aligned address.

    :class:`zipfile.ZipFile` would copy it three times on the way.
    """
    file.seek(member.header_offset + 26)
    start = member.header_offset + 30 + sum(np.frombuffer(file.read(4), "<u2").tolist())
    if member.compress_type != zipfile.ZIP_STORED or start + member.file_size > size:
        raise zipfile.BadZipFile(f"{member.filename} is compressed or cut off")
    content = aligned_bytes(member.file_size)
    file.seek(start)
    file.readinto(content.data)
    if zlib.crc32(content.data) != member.CRC:
        raise zipfile.BadZipFile(f"the checksum of {member.filename} is wrong")
    content.flags.writeable = False
    return content


def check_versions(description: Any, source: str) -> None:
    """Refuse a description that this version did not write.

    Raises:
        ModelError: with what to do.
    """
    if not isinstance(description, dict) or description.get("format") != FORMAT:
        raise ModelError(f"{source} is no compiled model of qimport")
    wanted = {"version": ("qimport", VERSION), "interpreter": ("numerics of", INTERPRETER)}
    for key, (what, present) in wanted.items():
        if description.get(key) != present:
            raise ModelError(
                f"{source} was compiled with {what} {description.get(key)}, this is {present};"
                " compile the model again"
            )


def assemble(description: Mapping[str, Any], members: Mapping[str, Bytes]) -> Artefact:
    """The artefact of :meth:`Artefact.description` and the other members of its file.

    Raises:
        KeyError, TypeError, ValueError, QimportError: the description does not fit.
    """
    states = tuple(map(_state_info, description["states"]))
    _check_states(states, members["state.bin"].size, int(description["arena_bytes"]))
    target = description["target"]
    architecture = ARCHITECTURES[target["architecture"]]
    if description["numerics"] not in NUMERICS:
        raise ValueError(f"unknown numerics {description['numerics']!r}")
    return Artefact(
        name=str(description["name"]),
        numerics=cast(Numerics, description["numerics"]),
        target=Target(target["name"], architecture, architecture.closure(target["features"])),
        inputs=tuple(map(_tensor_info, description["inputs"])),
        outputs=tuple(map(_tensor_info, description["outputs"])),
        signatures=tuple(
            SignatureInfo(item["key"], dict(item["inputs"]), dict(item["outputs"]))
            for item in description["signatures"]
        ),
        states=states,
        arena_bytes=int(description["arena_bytes"]),
        threads=int(description["threads"]),
        plan=bytes(members["plan.txt"]).decode(),
        rows=tuple(description["rows"]),
        entry=str(description["entry"]),
        object_code=bytes(members["code.o"]),
        constants=members["constants.bin"],
        initial_state=members["state.bin"],
    )


def _describe(info: TensorInfo) -> dict[str, Any]:
    """JSON keeps every float exactly, as its shortest text that reads back the same."""
    return {
        "name": info.name,
        "index": info.index,
        "dtype": info.type.dtype,
        "shape": list(info.shape),
        "shape_signature": list(info.shape_signature),
        "scales": list(info.scales),
        "zero_points": list(info.zero_points),
        "axis": info.axis,
    }


def _state_info(item: Mapping[str, Any]) -> StateInfo:
    if item["dtype"] not in DTYPES:
        raise ValueError(f"unknown element type {item['dtype']!r}")
    return StateInfo(str(item["name"]), item["dtype"], tuple(map(int, item["shape"])), int(item["offset"]))


def _check_states(states: Sequence[StateInfo], state_bytes: int, arena_bytes: int) -> None:
    for state in states:
        if not 0 <= state.offset <= state.end <= state_bytes <= arena_bytes:
            raise ValueError(f"state {state.name!r} does not lie in {state_bytes} bytes")


def _tensor_info(item: Mapping[str, Any]) -> TensorInfo:
    def numbers(values: Sequence[Any]) -> tuple[int, ...]:
        return tuple(int(value) for value in values)

    if item["dtype"] not in DTYPES:
        raise ValueError(f"unknown element type {item['dtype']!r}")
    quantization = None
    if item["scales"]:
        scales = tuple(float(scale) for scale in item["scales"])
        quantization = Quantization(scales, numbers(item["zero_points"]), item["axis"])
    type_ = TensorType(item["dtype"], numbers(item["shape"]), quantization)
    return TensorInfo(str(item["name"]), int(item["index"]), type_, numbers(item["shape_signature"]))
