"""Relocatable WebAssembly objects: what one needs from others, and how large its parts are.

LLVM's objects are WebAssembly modules whose memory is imported; a custom section named "linking" lists their
symbols as a linker sees them. Only what LLVM writes for our own code is understood.
"""

from __future__ import annotations

from collections.abc import Iterator

from qimport.errors import CompilerBug

_HEADER = b"\0asm\x01\0\0\0"

_CUSTOM, _IMPORTS, _CODE, _DATA = 0, 2, 10, 11
_FUNCTION, _TABLE, _MEMORY, _GLOBAL = range(4)
_SYMBOL_TABLE, _LINKING_VERSION = 8, 2
_DATA_SYMBOL, _SECTION_SYMBOL = 1, 3
_IMPORTED_AS = {0: _FUNCTION, 2: _GLOBAL, 5: _TABLE}
"""Kind of the other symbols -> kind of import that one without a name of its own is."""

_UNDEFINED, _EXPLICIT_NAME = 0x10, 0x40

SUPPLIED = frozenset({"__stack_pointer"})
"""What every linker for WebAssembly makes."""


class _Reader:
    """A position in bytes."""

    def __init__(self, content: bytes) -> None:
        self._content, self._position = content, 0

    def __len__(self) -> int:
        return len(self._content)

    @property
    def at_end(self) -> bool:
        """Whether all is read."""
        return self._position >= len(self._content)

    def take(self, count: int) -> bytes:
        """The next bytes."""
        self._position += count
        return self._content[self._position - count : self._position]

    def number(self) -> int:
        """An unsigned LEB128 number: seven bits per byte, the low ones first."""
        value = shift = 0
        while True:
            (byte,) = self.take(1)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def text(self) -> str:
        """A string after its length."""
        return self.take(self.number()).decode()

    def parts(self) -> Iterator[tuple[int, _Reader]]:
        """Kind and content of each section from here to the end."""
        while not self.at_end:
            (kind,) = self.take(1)
            yield kind, _Reader(self.take(self.number()))


def check_object(content: bytes) -> None:
    """Raise :class:`CompilerBug` for anything else than a WebAssembly module."""
    if content[: len(_HEADER)] != _HEADER:
        raise CompilerBug("LLVM gave something else than a WebAssembly object")


def undefined_symbols(content: bytes) -> frozenset[str]:
    """Names that an object needs from others, those of :data:`SUPPLIED` left out."""
    check_object(content)
    reader = _Reader(content)
    reader.take(len(_HEADER))
    imports: dict[int, list[str]] = {}
    found: set[str] = set()
    for kind, section in reader.parts():
        if kind == _IMPORTS:
            imports = _imported_names(section)
        elif kind == _CUSTOM and section.text() == "linking":
            assert section.number() == _LINKING_VERSION
            tables = [part for number, part in section.parts() if number == _SYMBOL_TABLE]
            found |= {name for table in tables for name in _undefined(table, imports)}
    return frozenset(found - SUPPLIED)


def code_and_data_bytes(content: bytes) -> tuple[int, int]:
    """Sizes of the sections that hold the functions and the constants."""
    check_object(content)
    reader = _Reader(content)
    reader.take(len(_HEADER))
    sizes = {kind: len(section) for kind, section in reader.parts()}
    return sizes.get(_CODE, 0), sizes.get(_DATA, 0)


def _imported_names(section: _Reader) -> dict[int, list[str]]:
    """Names of imports by kind, in the order by which code counts them."""
    names: dict[int, list[str]] = {}
    for _ in range(section.number()):
        section.text()
        name = section.text()
        (kind,) = section.take(1)
        names.setdefault(kind, []).append(name)
        _skip_type(section, kind)
    return names


def _skip_type(section: _Reader, kind: int) -> None:
    if kind == _FUNCTION:
        section.number()
    elif kind == _GLOBAL:
        section.take(2)
    else:
        if kind == _TABLE:
            section.take(1)
        bounded = section.number() & 1
        for _ in range(1 + bounded):
            section.number()


def _undefined(table: _Reader, imports: dict[int, list[str]]) -> Iterator[str]:
    """Names of the symbols of a table that are defined elsewhere."""
    for _ in range(table.number()):
        (kind,) = table.take(1)
        flags = table.number()
        undefined = flags & _UNDEFINED
        if kind == _SECTION_SYMBOL:
            table.number()
        elif kind == _DATA_SYMBOL:
            name = table.text()
            for _ in range(0 if undefined else 3):  # segment, offset and size
                table.number()
        else:
            index = table.number()
            if not undefined or flags & _EXPLICIT_NAME:
                name = table.text()
            else:
                name = imports[_IMPORTED_AS[kind]][index]
        if undefined:
            yield name
