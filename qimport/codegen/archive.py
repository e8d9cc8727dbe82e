"""Static libraries: ``ar`` archives in the format of GNU and LLVM, with a symbol index and without dates."""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping

_MAGIC = b"!<arch>\n"
_HEADER = "{name:<16}{date:<12}{user:<6}{group:<6}{mode:<8}{size:<10}`\n"
_LONGEST_NAME = 15
"""Longer names stand in a member of their own."""


def archive(members: Mapping[str, tuple[bytes, Collection[str]]]) -> bytes:
    """The library of these members: file name -> content and the symbols that others may ask for.

    Equal members give equal bytes: dates and owners are zero, as with ``ar -D``.
    """
    names, references = _name_table(list(members))
    symbols = [(symbol, number) for number, (_, found) in enumerate(members.values()) for symbol in found]
    index_bytes = 4 * (1 + len(symbols)) + sum(len(symbol) + 1 for symbol, _ in symbols)
    beginning = _MAGIC + bytes(_padded_size(index_bytes)) + (_member("//", names) if names else b"")
    offsets, parts = [], []
    size = len(beginning)
    for reference, (content, _) in zip(references, members.values(), strict=True):
        offsets.append(size)
        parts.append(_member(reference, content))
        size += len(parts[-1])
    index = struct.pack(f">{1 + len(symbols)}I", len(symbols), *(offsets[number] for _, number in symbols))
    index += b"".join(symbol.encode() + b"\0" for symbol, _ in symbols)
    return b"".join([_MAGIC, _member("/", index), _member("//", names) if names else b"", *parts])


def _name_table(names: list[str]) -> tuple[bytes, list[str]]:
    """The table of long names, and how headers refer to each name."""
    table, references = b"", []
    for name in names:
        if len(name) <= _LONGEST_NAME:
            references.append(f"{name}/")
        else:
            references.append(f"/{len(table)}")
            table += f"{name}/\n".encode()
    return table, references


def _padded_size(nbytes: int) -> int:
    """Of a member with its header: members begin at even offsets."""
    return 60 + nbytes + nbytes % 2


def _member(reference: str, content: bytes) -> bytes:
    owner = dict.fromkeys(("date", "user", "group"), "" if reference == "//" else "0")
    mode = "" if reference == "//" else "644"
    header = _HEADER.format(name=reference, mode=mode, size=len(content), **owner).encode()
    return header + content + b"\n" * (len(content) % 2)
