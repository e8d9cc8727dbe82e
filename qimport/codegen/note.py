"""What a shared library says of itself: an ELF note with a text, and a seal over the whole file.

A note is a section that linkers keep and nothing executes. Its owner is ``qimport``; its content is a SHA-256
of the file, with zeros in the place of the digest itself, and a text.
"""

from __future__ import annotations

import hashlib
import struct

from qimport.codegen.elf import IDENT_32, IDENT_64, place_of
from qimport.codegen.target import Target
from qimport.errors import ModelError, TargetError

SECTION = ".note.qimport"

_KIND = 1
_HEADER = struct.Struct("<III8s")
_DIGEST_BYTES = 32


def note_code(text: bytes, target: Target) -> str:
    """An LLVM module of nothing but the note, not sealed yet."""
    content = bytes(_DIGEST_BYTES) + text
    note = _HEADER.pack(len(b"qimport\0"), len(content), _KIND, b"qimport\0") + content
    note += bytes(-len(note) % 4)
    escaped = "\\" + note.hex("\\")
    return (
        f'target triple = "{target.triple}"\n'
        f'@qimport_note = hidden constant [{len(note)} x i8] c"{escaped}", section "{SECTION}", align 4\n'
    )


def sealed(library: bytes) -> bytes:
    """The library with the digest of its content in its note.

    Raises:
        TargetError: the linker has dropped the note.
    """
    try:
        start, _ = _note(library, "the library")
    except ModelError as error:
        raise TargetError(f"the linker does not keep the section {SECTION}") from error
    return library[:start] + _digest(library, start) + library[start + _DIGEST_BYTES :]


def read_note(library: bytes, source: str) -> str:
    """The text of a library whose bytes are all as they were sealed; ``source`` names it in errors.

    Raises:
        ModelError: it is no ELF library with a note, damaged, or changed after it was built.
    """
    start, end = _note(library, source)
    if library[start : start + _DIGEST_BYTES] != _digest(library, start):
        raise ModelError(
            f"{source} is damaged, or was changed after qimport built it (its checksum is wrong)"
        )
    return library[start + _DIGEST_BYTES : end].decode()


def _digest(library: bytes, start: int) -> bytes:
    digest = hashlib.sha256(memoryview(library)[:start])
    digest.update(bytes(_DIGEST_BYTES))
    digest.update(memoryview(library)[start + _DIGEST_BYTES :])
    return digest.digest()


def _note(library: bytes, source: str) -> tuple[int, int]:
    """Where the content of the note begins and ends in the file."""
    if not library.startswith((IDENT_32, IDENT_64)):
        raise ModelError(f"{source} is no little-endian ELF library")
    try:
        place = place_of(library, SECTION)
        header = None if place is None else _HEADER.unpack_from(library, place)
    except (struct.error, ValueError, IndexError) as error:
        raise ModelError(f"{source} is damaged or cut off: its ELF sections cannot be read") from error
    if place is None or header is None:
        raise ModelError(f"{source} is no shared library that `qimport build` made to be loaded")
    owner_bytes, size, kind, owner = header
    start = place + _HEADER.size
    expected = (len(b"qimport\0"), _KIND, b"qimport\0")
    if (owner_bytes, kind, owner) != expected or not _DIGEST_BYTES <= size <= len(library) - start:
        raise ModelError(f"{source} is damaged: its note cannot be read")
    return start, start + size
