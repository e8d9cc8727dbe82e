"""Where a model comes from: a path, a stream or memory."""

from __future__ import annotations

import os
from typing import IO

import numpy as np

from qimport.errors import ArgumentError
from qimport.frontend.model import HEAD_BYTES, IDENTIFIER

ModelSource = str | os.PathLike[str] | bytes | bytearray | memoryview
"""A path, or the content of a file."""

Content = bytes | memoryview
"""The content of a file that nobody changes."""


def read_source(model: ModelSource) -> tuple[Content, str]:
    """The content of a model and its path, empty where only the content is given.

    Raises:
        ArgumentError: the file cannot be read.
    """
    if isinstance(model, bytes | bytearray | memoryview):
        return bytes(model), ""
    if not isinstance(model, str | os.PathLike):
        raise ArgumentError(f"a model is a path or the content of a file, not {type(model).__name__}")
    path = os.fspath(model)
    try:
        with open(path, "rb") as file:
            return read_content(file), path
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ArgumentError(f"cannot read {path!r}: {reason.lower()}") from error


def read_content(file: IO[bytes]) -> Content:
    """All of ``file``, or only its head where that is no model's: a device may have no end."""
    head = file.read(HEAD_BYTES)
    if not head.endswith(IDENTIFIER):
        return head
    if not file.seekable():
        return head + file.read()
    # NumPy's memory has large pages: a new bytes object would take four times as long to fill.
    room = np.empty(file.seek(0, os.SEEK_END), np.uint8)
    file.seek(0)
    content = room.data[: file.readinto(room)].toreadonly()  # type: ignore[attr-defined] # IO has no readinto
    rest = file.read()  # where the system does not know the size
    return bytes(content) + rest if rest else content
