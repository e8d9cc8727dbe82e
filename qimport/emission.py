"""What ``qimport build`` writes: the kinds of files, their content, and how they reach the folder."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from qimport.artefact import Artefact
from qimport.codegen import elf
from qimport.codegen.aot import Translation, translate
from qimport.codegen.archive import archive
from qimport.codegen.backend import Progress, emitted_text, linked_module, object_code
from qimport.codegen.cmake import cmake_text
from qimport.codegen.example import example_text
from qimport.codegen.header import header_text
from qimport.codegen.interface import Interface
from qimport.codegen.levels import system_functions
from qimport.codegen.memory_code import memory_code
from qimport.codegen.note import note_code, sealed
from qimport.codegen.target import MEMORY_FUNCTIONS
from qimport.errors import ArgumentError, unknown_name
from qimport.library import description_text
from qimport.lower.plan import Plan
from qimport.toolchain import require_linker

DEFAULT_KINDS = ("obj", "header", "example")

_WITH_OBJECT = frozenset({"obj", "lib", "shared"})


class Emission:
    """The files of one model, each made when it is first asked for.

    ``separate``: the code does not hold the weights but takes a pointer to the content of their file.
    ``described``: the model without its code, by which :func:`qimport.load` reads the shared library; without
    it only C programs can use that library.
    """

    def __init__(
        self,
        api: Interface,
        plan: Plan,
        kinds: Collection[str] = DEFAULT_KINDS,
        separate: bool = False,
        progress: Progress | None = None,
        described: Artefact | None = None,
    ) -> None:
        check_kinds(kinds, separate, dispatched=bool(api.levels))
        self.kinds = [kind for kind in KINDS if kind in kinds]
        self._source, self._plan, self._separate, self._progress = api, plan, separate, progress
        self._described = described
        if "shared" in kinds:
            require_linker(api.target)

    @cached_property
    def translation(self) -> Translation:
        """The code."""
        return translate(self._source, self._plan, self._separate, self.has_object, self._progress)

    @property
    def has_object(self) -> bool:
        """Whether one of the files holds object code."""
        return not _WITH_OBJECT.isdisjoint(self.kinds)

    @property
    def api(self) -> Interface:
        """The C side."""
        return self.translation.api

    @property
    def object_code(self) -> bytes:
        """The relocatable object."""
        content = self.translation.object_code
        assert content is not None, "compiled for all kinds that hold it"
        return content

    @property
    def library(self) -> bytes:
        """The object as a static library."""
        return archive({f"{self.api.file}.o": (self.object_code, self.api.functions)})

    @property
    def shared_library(self) -> bytes:
        """The object as a shared library, made by a linker of this machine.

        It needs no other library, except that of C where the object asks the system for its level.

        Raises:
            TargetError: there is no linker, or it fails.
        """
        objects, missing = [self.object_code], elf.undefined_symbols(self.object_code)
        if system_functions(self.api.levels):
            return link_shared(objects, self.api, hosted=True)
        if missing:
            objects.append(object_code(memory_code(self.api.target), self.api.target))
        if self._described is not None:
            text = description_text(self._described, self.api, self.translation.program.rows)
            objects.append(object_code(note_code(text, self.api.target), self.api.target))
        library = link_shared(objects, self.api, helped=not missing <= MEMORY_FUNCTIONS)
        return library if self._described is None else sealed(library)

    @cached_property
    def _texts(self) -> tuple[str, str]:
        """LLVM assembly and the processor's."""
        module, machine = linked_module(self.translation.program.modules, self.api.target)
        return str(module), emitted_text(module, machine)

    @property
    def llvm(self) -> str:
        """The optimized code as one LLVM module."""
        return self._texts[0]

    @property
    def assembly(self) -> str:
        """The code in the assembly language of the target."""
        return self._texts[1]

    def contents(self) -> dict[str, bytes]:
        """The files: name -> content. Equal models and options give equal bytes.

        Raises:
            TargetError: the code cannot be made on this machine.
        """
        return {KINDS[kind][0].format(name=self.api.file): KINDS[kind][1](self) for kind in self.kinds}

    def write(self, directory: str | os.PathLike[str]) -> list[Path]:
        """Write the files into ``directory``, which may be new. Each appears complete or not at all.

        Raises:
            ArgumentError: the files cannot be written.
            TargetError: the code cannot be made on this machine.
        """
        check_folder(directory)
        return write_files(Path(directory), self.contents())


KINDS: dict[str, tuple[str, Callable[[Emission], bytes]]] = {
    "obj": ("{name}.o", lambda files: files.object_code),
    "header": ("{name}.h", lambda files: header_text(files.api).encode()),
    "lib": ("lib{name}.a", lambda files: files.library),
    "shared": ("lib{name}.so", lambda files: files.shared_library),
    "asm": ("{name}.s", lambda files: files.assembly.encode()),
    "llvm": ("{name}.ll", lambda files: files.llvm.encode()),
    "example": ("{name}_example.c", lambda files: example_text(files.api).encode()),
    "weights": ("{name}_weights.bin", lambda files: files.translation.program.constants),
    "cmake": ("{name}Config.cmake", lambda files: cmake_text(files.api, files.kinds).encode()),
}
"""What can be written, in this order: the name of the file and its content."""


def check_kinds(kinds: Collection[str], separate: bool, dispatched: bool = False) -> None:
    """Refuse kinds that are not of :data:`KINDS` or do not go together.

    Raises:
        ArgumentError: with the nearest kind, or with what is missing.
    """
    for kind in kinds:
        if kind not in KINDS:
            raise ArgumentError(unknown_name("kind of file", kind, KINDS))
    if "weights" in kinds and not separate:
        raise ArgumentError("a file of weights belongs to --weights separate; the code holds them otherwise")
    if "cmake" in kinds and _WITH_OBJECT.isdisjoint(kinds):
        raise ArgumentError("a CMake package needs one of obj, lib and shared beside it")
    if dispatched and separate:
        raise ArgumentError("each level has weights of its own: --dispatch goes with --weights embed only")
    if dispatched and not {"asm", "llvm"}.isdisjoint(kinds):
        raise ArgumentError("asm and llvm are text for one target: build them without --dispatch")


def link_shared(
    objects: Sequence[bytes], api: Interface, helped: bool = False, hosted: bool = False
) -> bytes:
    """A shared library that needs no other; only ``api.functions`` can be seen from outside.

    ``helped``: the objects call helpers, which compilers have in a library of their own. ``hosted``: the
    library needs that of C, or, without a compiler that knows where this is, leaves its functions open.

    Raises:
        TargetError: there is no linker, or it fails.
    """
    linker = require_linker(api.target)
    options: list[str] = []
    for words in (
        ("-soname", f"lib{api.file}.so"),
        *([] if hosted and not linker.is_driver else [("-z", "defs")]),
        ("-z", "noexecstack"),
        ("--build-id=none",),
        ("--hash-style=gnu",),
    ):
        options += linker.linker_option(*words)
    with tempfile.TemporaryDirectory(prefix="qimport-") as scratch:
        folder = Path(scratch)
        names = [f"{number}.o" for number in range(len(objects))]
        for name, content in zip(names, objects, strict=True):
            (folder / name).write_bytes(content)
        if linker.is_driver:
            options.append("-nostartfiles" if hosted else "-nostdlib")
            names += ["-lgcc"] if helped else []
        linker.run("-shared", *options, "-o", "code.so", *names, directory=folder)
        return (folder / "code.so").read_bytes()


def check_folder(directory: str | os.PathLike[str]) -> None:
    """Refuse a folder that cannot be written to, before any work is done.

    Raises:
        ArgumentError: it, or a part of its path that exists, is a file or read-only.
    """
    place = Path(directory).absolute()
    present = next(path for path in (place, *place.parents) if path.exists())
    if not present.is_dir():
        raise ArgumentError(f"cannot write to {directory}: {present} is a file, not a folder")
    if not os.access(present, os.W_OK | os.X_OK):
        raise ArgumentError(f"cannot write to {directory}: {present} is read-only for this user")


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
