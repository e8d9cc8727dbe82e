"""Files of the command line: models, tensors as .npy, .npz and raw, results; ``-`` is stdin or stdout."""

from __future__ import annotations

import io
import sys
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from qimport.errors import ArgumentError
from qimport.source import Content, read_content

Array = npt.NDArray[Any]

NPY_MAGIC = b"\x93NUMPY"
ARCHIVE_MAGIC = (b"PK\x03\x04", b"PK\x05\x06")
"""How a .npz file begins; the second one is that of an empty archive."""

HEADER_BYTES = 1 << 20
"""Room for the headers of .npy and .npz files."""

WIDEST_ELEMENT = 8
"""Arrays of floats are accepted for narrower inputs."""


class Described(Protocol):
    """What this module needs to know of an input or output."""

    @property
    def name(self) -> str:
        """Name in the file."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Static shape."""

    @property
    def dtype(self) -> Any:
        """Anything ``numpy.dtype`` accepts."""


def read_file(path: str, most: int) -> bytes:
    """The content of a file, or of stdin for ``-``; raises :class:`ArgumentError` beyond ``most`` bytes."""
    with nullcontext(sys.stdin.buffer) if path == "-" else Path(path).open("rb") as stream:
        content = stream.read(most + 1)
    if len(content) > most:
        raise ArgumentError(f"{path} has more than {most} bytes; the inputs of the model need less")
    return content


def model_source(path: str) -> str | Content:
    """What :func:`qimport.compile` takes for a MODEL argument: the path, or what stdin holds."""
    return read_content(sys.stdin.buffer) if path == "-" else path


def read_inputs(paths: Sequence[str], inputs: Sequence[Described], names: Mapping[str, int]) -> list[Array]:
    """One array per model input, in the model's order.

    ``names`` maps every name that an input goes by to its position. Each of ``paths`` may begin with
    ``NAME=``; those without fill the inputs that no name claims, in order. One .npz may give several inputs:
    by the names of its arrays, or a single array to a single input.
    """
    found: dict[int, Array] = {}
    unnamed: list[tuple[str, bytes]] = []
    most = HEADER_BYTES + WIDEST_ELEMENT * sum(int(np.prod(item.shape)) for item in inputs)
    for path in paths:
        name, _, rest = path.partition("=")
        if rest and name in names:
            position, content = names[name], read_file(rest, most)
            if content.startswith(ARCHIVE_MAGIC):
                found[position] = _read_archive(rest, content, {name: 0}, 1)[0]
            else:
                found[position] = _read_tensor(rest, content, inputs[position])
            continue
        content = read_file(path, most)
        if content.startswith(ARCHIVE_MAGIC):
            found.update(_read_archive(path, content, names, len(inputs)))
        else:
            unnamed.append((path, content))
    free = [position for position in range(len(inputs)) if position not in found]
    if len(unnamed) != len(free):
        wanted = ", ".join(repr(item.name) for item in inputs)
        raise ArgumentError(
            f"{len(paths)} file(s) do not give each of the {len(inputs)} input(s) of the model once: {wanted}"
        )
    for position, (path, content) in zip(free, unnamed, strict=True):
        found[position] = _read_tensor(path, content, inputs[position])
    return [found[position] for position in range(len(inputs))]


def _read_archive(path: str, content: bytes, names: Mapping[str, int], count: int) -> dict[int, Array]:
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except Exception as error:  # the readers of archives, compression and headers each raise their own
        raise _unreadable(path, ".npz", error) from None
    if len(arrays) == count == 1:
        return {0: next(iter(arrays.values()))}
    known = {names[name]: array for name, array in arrays.items() if name in names}
    if not arrays:
        raise ArgumentError(f"{path} holds no arrays")
    if not known:
        raise ArgumentError(
            f"{path} holds arrays named {', '.join(arrays)}; inputs of the model are {', '.join(names)}"
        )
    return known


def _read_tensor(path: str, content: bytes, item: Described) -> Array:
    """A .npy file as it is; anything else as the raw little-endian elements of ``item``."""
    if content.startswith(NPY_MAGIC):
        try:
            return np.asarray(np.load(io.BytesIO(content), allow_pickle=False))
        except Exception as error:  # numpy reads the header with Python's own parser
            raise _unreadable(path, ".npy", error) from None
    dtype = np.dtype(item.dtype).newbyteorder("<")
    expected = int(np.prod(item.shape)) * dtype.itemsize
    if len(content) != expected:
        raise ArgumentError(
            f"{path} has {len(content)} bytes; input {item.name!r} of shape {item.shape} and type "
            f"{np.dtype(item.dtype)} has {expected}"
        )
    return np.frombuffer(content, dtype).reshape(item.shape).astype(item.dtype)


def _unreadable(path: str, kind: str, error: Exception) -> ArgumentError:
    reason = (str(error).splitlines() or [type(error).__name__])[0]
    return ArgumentError(f"{path}: not a readable {kind} file ({reason})")


def write_outputs(path: str, outputs: Sequence[Described], arrays: Sequence[Array]) -> list[str]:
    """Write results and return the names of the files.

    ``-`` is the raw bytes of all outputs on stdout, ``X.npz`` all outputs by name, ``X.npy`` and ``X.raw`` a
    single output; anything else is a folder that gets ``output0.npy`` and so on.
    """
    if not path:
        raise ArgumentError("the name of the output is empty; give a file, a folder or -")
    target = Path(path)
    suffix = target.suffix
    if path == "-":
        for array in arrays:
            sys.stdout.buffer.write(_raw(array))
        sys.stdout.buffer.flush()
        return []
    if suffix == ".npz":
        named = {item.name: array for item, array in zip(outputs, arrays, strict=True)}
        if len(named) != len(arrays):
            raise ArgumentError(f"{path}: outputs share a name; give a folder instead")
        # savez takes arrays by keyword, and a tensor may be called "file".
        with zipfile.ZipFile(target, "w") as archive:
            for name, array in named.items():
                archive.writestr(f"{name}.npy", _npy(array))
        return [path]
    if suffix in (".npy", ".raw"):
        if len(arrays) != 1:
            raise ArgumentError(
                f"{path} holds one output, the model has {len(arrays)}; give a .npz or a folder"
            )
        target.write_bytes(_npy(arrays[0]) if suffix == ".npy" else _raw(arrays[0]))
        return [path]
    target.mkdir(parents=True, exist_ok=True)
    files = [target / f"output{number}.npy" for number in range(len(arrays))]
    for file, array in zip(files, arrays, strict=True):
        file.write_bytes(_npy(array))
    return [str(file) for file in files]


def _npy(array: Array) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=False)
    return stream.getvalue()


def _raw(array: Array) -> bytes:
    return array.astype(array.dtype.newbyteorder("<")).tobytes()
