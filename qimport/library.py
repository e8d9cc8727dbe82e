"""Shared libraries of ``qimport build`` as models of Python: what they say, checked before they run.

The note of such a library (:mod:`qimport.codegen.note`) holds the description that a saved model holds, the
plan, and how its functions are called.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import IO

import numpy as np

from qimport.artefact import Artefact, aligned_bytes, aligned_copy, assemble, check_versions
from qimport.codegen.host import why_not_runnable
from qimport.codegen.interface import API_VERSION, Interface
from qimport.codegen.note import read_note
from qimport.codegen.shared import LibraryCode, load_library
from qimport.errors import ArgumentError, ModelError, QimportError, TargetError

MAGIC = b"\x7fELF"
"""How the files begin."""


@dataclass(frozen=True, eq=False)
class LibraryArtefact(Artefact):
    """A model in a shared library: ``object_code`` is its file, ``entry`` what its functions begin with."""

    def write(self, stream: IO[bytes]) -> None:
        """Write the library itself."""
        stream.write(self.object_code)


def description_text(artefact: Artefact, api: Interface, rows: Sequence[str]) -> bytes:
    """What the note of a library with these functions says of a model; equal models give equal bytes."""
    described = replace(
        artefact,
        name=api.name,
        arena_bytes=api.arena_bytes,
        threads=api.threads,
        rows=tuple(rows),
        entry=api.prefix,
    )
    library = {
        "api_version": API_VERSION,
        "functions": api.functions,
        "state_bytes": api.state_bytes,
        "separate_weights": api.weights is not None,
    }
    return json.dumps({**described.description(), "plan": artefact.plan, "library": library}).encode()


def from_library(content: bytes, source: str) -> tuple[LibraryArtefact, LibraryCode]:
    """The model in the file of a shared library, and its code.

    Nothing of the library is executed before all of it is known to be as it was built, by this version, for
    this machine.

    Raises:
        ModelError: it is no library of ours, damaged, or of another version.
        ArgumentError: its weights are a file of their own.
        TargetError: this machine cannot run or load it.
    """
    artefact, functions, state_bytes = _read(content, source)
    reason = why_not_runnable(artefact.target)
    if reason is not None:
        raise TargetError(f"{source} holds code for {artefact.target.name}: {reason}")
    code = load_library(content, artefact.entry, functions, artefact.threads, source)
    # The initial state is what resetting writes.
    arena = aligned_bytes(artefact.arena_bytes)
    code.prepare(int(arena.ctypes.data))
    return replace(artefact, initial_state=aligned_copy(arena[:state_bytes].tobytes())), code


def _read(content: bytes, source: str) -> tuple[LibraryArtefact, list[str], int]:
    """The model without its initial state, the functions of the library, and how long that state is."""
    try:
        description = json.loads(read_note(content, source))
        check_versions(description, source)
        library = description["library"]
        if library["api_version"] != API_VERSION:
            raise ModelError(
                f"{source} has version {library['api_version']} of the C API, this is {API_VERSION};"
                " build it again"
            )
        if library["separate_weights"]:
            raise ArgumentError(
                f"{source} takes its weights from a file of their own, as C programs can; build it with"
                " --weights embed to load it here"
            )
        state_bytes = int(library["state_bytes"])
        members = {
            "code.o": np.frombuffer(content, np.uint8),
            "constants.bin": aligned_copy(b""),
            "state.bin": aligned_copy(bytes(state_bytes)),
            "plan.txt": np.frombuffer(description["plan"].encode(), np.uint8),
        }
        artefact = assemble(description, members)
    except (ModelError, ArgumentError):
        raise
    except (KeyError, TypeError, ValueError, QimportError) as error:
        raise ModelError(f"{source} is damaged: its description does not fit ({error})") from error
    return LibraryArtefact(**vars(artefact)), list(library["functions"]), state_bytes


def is_library(path: str | os.PathLike[str]) -> bool:
    """Whether a file begins as a shared library.

    Raises:
        OSError: the system refuses.
    """
    with open(path, "rb") as file:
        return file.read(len(MAGIC)) == MAGIC
