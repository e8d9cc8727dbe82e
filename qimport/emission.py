"""What ``qimport build`` writes: the kinds of files, their content, and how they reach the folder."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Collection, Mapping
from functools import cached_property
from pathlib import Path

from qimport.codegen.aot import object_file
from qimport.codegen.backend import Progress
from qimport.codegen.example import example_text
from qimport.codegen.header import header_text
from qimport.codegen.interface import Interface
from qimport.errors import ArgumentError, unknown_name
from qimport.lower.plan import Plan

DEFAULT_KINDS = ("obj", "header", "example")


class Emission:
    """The files of one model, each made when it is first asked for."""

    def __init__(self, api: Interface, plan: Plan, progress: Progress | None = None) -> None:
        self.api, self.plan, self._progress = api, plan, progress

    @cached_property
    def object_code(self) -> bytes:
        """The relocatable object."""
        return object_file(self.api, self.plan, self._progress)

    def write(self, directory: str | os.PathLike[str], kinds: Collection[str] = DEFAULT_KINDS) -> list[Path]:
        """Write files of these kinds, :data:`KINDS`, into ``directory``, which may be new.

        Equal models and options give equal bytes. Each file appears complete or not at all.

        Raises:
            ArgumentError: there is no such kind, or the files cannot be written.
            TargetError: the code cannot be made on this machine.
        """
        check_kinds(kinds)
        chosen = [kind for kind in KINDS if kind in kinds]
        contents = {KINDS[kind][0].format(name=self.api.file): KINDS[kind][1](self) for kind in chosen}
        return write_files(Path(directory), contents)


KINDS: dict[str, tuple[str, Callable[[Emission], bytes]]] = {
    "obj": ("{name}.o", lambda files: files.object_code),
    "header": ("{name}.h", lambda files: header_text(files.api).encode()),
    "example": ("{name}_example.c", lambda files: example_text(files.api).encode()),
}
"""What can be written, in this order: the name of the file and its content."""


def check_kinds(kinds: Collection[str]) -> None:
    """Raise :class:`ArgumentError` with the nearest kind if one is not of :data:`KINDS`."""
    for kind in kinds:
        if kind not in KINDS:
            raise ArgumentError(unknown_name("kind of file", kind, KINDS))


def write_files(directory: Path, contents: Mapping[str, bytes]) -> list[Path]:
    """Write every file beside its place, then rename all: none is ever seen half written.

    Raises:
        ArgumentError: the system refuses.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".qimport-", dir=directory) as scratch:
            for name, content in contents.items():
                Path(scratch, name).write_bytes(content)
            for name in contents:
                os.replace(Path(scratch, name), directory / name)
    except OSError as error:
        raise ArgumentError(f"cannot write to {directory}: {error.strerror or error}") from error
    return [directory / name for name in contents]
