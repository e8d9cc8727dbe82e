"""Relocatable ELF objects: several made into one, as a linker does it with ``-r``, and what one needs.

LLVM compiles every kernel as a module of its own, in parallel. Sections of the same kind are laid one after
the other; symbols become offsets into these; what nobody outside shall see becomes local. Only what LLVM
writes for our own code is understood: little-endian ELF64 with explicit addends, without section groups.
Symbols can be read from little-endian ELF32, too.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from qimport.errors import CompilerBug

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")

_IDENT = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")

_HEADER_32 = struct.Struct("<16sHHIIIIIHHHHHH")
_SECTION_32 = struct.Struct("<10I")
_SYMBOL_32 = struct.Struct("<IIIBBH")
IDENT_32 = b"\x7fELF\x01\x01"
IDENT_64 = _IDENT[:6]
"""How little-endian ELF files begin."""
_RELOCATABLE = 1

_NULL, _SYMTAB, _STRTAB, _RELA, _NOBITS, _REL, _GROUP = 0, 2, 3, 4, 8, 9, 17
_ADDRESS_SIGNIFICANCE = 0x6FFF4C03
_INFO_LINK = 0x40
_LOCAL = 0
_SECTION_SYMBOL = 3

_Kind = tuple[str, int, int, int]
"""Name, type, flags and entry size: what sections that become one have in common."""


@dataclass(frozen=True)
class Section:
    """A section header and the content behind it."""

    name: str
    kind: int
    flags: int
    link: int
    info: int
    align: int
    entry_size: int
    content: bytes


@dataclass(frozen=True)
class Symbol:
    """An entry of a symbol table; ``section`` 0 is a symbol that is defined elsewhere."""

    name: str
    info: int
    other: int
    section: int
    value: int
    size: int

    @property
    def is_global(self) -> bool:
        """Whether other objects see it."""
        return self.info >> 4 != _LOCAL

    @property
    def type(self) -> int:
        """Function, object, section and so on."""
        return self.info & 15


@dataclass
class _Merged:
    """A section of the result while it grows. ``relocations`` are (offset, type, symbol, addend)."""

    align: int = 1
    content: bytearray = field(default_factory=bytearray)
    relocations: list[tuple[int, int, Symbol, int]] = field(default_factory=list)

    def append(self, content: bytes, align: int) -> int:
        """The offset at which ``content`` now lies."""
        self.align = max(self.align, align)
        self.content += bytes(-len(self.content) % max(align, 1))
        start = len(self.content)
        self.content += content
        return start


def read_machine(content: bytes) -> int:
    """The machine number of a little-endian ELF file; raises :class:`CompilerBug` for anything else."""
    if content[:6] not in (IDENT_64, IDENT_32):
        raise CompilerBug("LLVM gave something else than a little-endian ELF object")
    machine: int = _HEADER.unpack_from(content)[2]
    return machine


def read_sections(content: bytes) -> list[Section]:
    """All sections, in the order of the file."""
    read_machine(content)
    headers, names = _section_headers(content)
    return [
        Section(
            _text(content, names + name),
            kind,
            flags,
            link,
            info,
            align,
            entry_size,
            bytes(nbytes) if kind == _NOBITS else content[offset : offset + nbytes],
        )
        for name, kind, flags, _, offset, nbytes, link, info, align, entry_size in headers
    ]


def place_of(content: bytes, name: str) -> int | None:
    """Where the content of the first section with this name begins in a file of any kind and source.

    Raises:
        struct.error, ValueError, IndexError: the section headers are damaged.
    """
    headers, names = _section_headers(content)
    wanted = name.encode() + b"\0"
    for header in headers:
        if content.startswith(wanted, names + header[0]):
            return int(header[4])
    return None


def _section_headers(content: bytes) -> tuple[list[tuple[int, ...]], int]:
    """The headers as they are in the file, and where the names of sections begin."""
    header, section = (_HEADER_32, _SECTION_32) if _is_32(content) else (_HEADER, _SECTION)
    fields = header.unpack_from(content)
    start, size, count, names_index = fields[6], fields[11], fields[12], fields[13]
    headers = [section.unpack_from(content, start + number * size) for number in range(count)]
    return headers, headers[names_index][4]


def read_symbols(sections: Sequence[Section]) -> list[Symbol]:
    """The symbol table, with its empty first entry."""
    for section in sections:
        if section.kind == _SYMTAB:
            names = sections[section.link].content
            return [
                Symbol(_text(names, name), info, other, home, value, size)
                for name, info, other, home, value, size in _symbol_fields(section)
            ]
    return []


def _symbol_fields(table: Section) -> Iterator[tuple[int, int, int, int, int, int]]:
    """Name, info, other, section, value and size of each symbol."""
    if table.entry_size == _SYMBOL.size:
        yield from _SYMBOL.iter_unpack(table.content)
    else:
        for name, value, size, info, other, home in _SYMBOL_32.iter_unpack(table.content):
            yield name, info, other, home, value, size


def undefined_symbols(content: bytes) -> frozenset[str]:
    """Names that an object needs from others."""
    symbols = read_symbols(read_sections(content))
    return frozenset(symbol.name for symbol in symbols if symbol.name and not symbol.section)


def link(objects: Sequence[bytes], exported: Collection[str]) -> bytes:
    """One object of several, in which only the symbols ``exported`` stay visible.

    The result depends on the order of ``objects`` and on nothing else.

    Raises:
        CompilerBug: two objects define the same symbol, or hold what LLVM does not write for our code.
    """
    linker = _Linker(frozenset(exported))
    for content in objects:
        linker.add(content)
    return linker.write()


class _Linker:
    """Sections and symbols of all objects so far."""

    def __init__(self, exported: frozenset[str]) -> None:
        self.exported = exported
        self.machine = self.flags = 0
        self.merged: dict[_Kind, _Merged] = {}
        self.locals: list[Symbol] = []
        self.names: set[str] = set()
        self.defined: dict[str, Symbol] = {}
        self.undefined: dict[str, Symbol] = {}

    def add(self, content: bytes) -> None:
        """Lay the sections of an object behind those that are there, and take its symbols and relocations."""
        if _is_32(content):
            raise CompilerBug("objects of ELF32 are not linked here")
        fields = _HEADER.unpack_from(content)
        sections = read_sections(content)
        self.machine, self.flags = fields[2], fields[7]
        places = {number: self._place(section) for number, section in enumerate(sections) if _kept(section)}
        symbols = [self._symbol(symbol, places) for symbol in read_symbols(sections)]
        for section in sections:
            if section.kind == _RELA and section.info in places:
                home, base = places[section.info]
                relocations = list(self.merged.values())[home].relocations
                for offset, info, addend in _RELOCATION.iter_unpack(section.content):
                    symbol = symbols[info >> 32]
                    # An anonymous symbol stands for a section: what it means moves with the content.
                    moved = symbol.value if symbol.type == _SECTION_SYMBOL else 0
                    relocations.append((base + offset, info & 0xFFFFFFFF, symbol, addend + moved))

    def _place(self, section: Section) -> tuple[int, int]:
        """Which merged section a section became a part of, and where it begins there."""
        kind = (section.name, section.kind, section.flags, section.entry_size)
        merged = self.merged.setdefault(kind, _Merged())
        return list(self.merged).index(kind), merged.append(section.content, section.align)

    def _symbol(self, symbol: Symbol, places: Mapping[int, tuple[int, int]]) -> Symbol:
        """The symbol in terms of the result."""
        if symbol.name and not symbol.section:
            return self.undefined.setdefault(symbol.name, symbol)
        if symbol.section not in places:
            return symbol  # the empty first one, of a file, or of a section that is not kept
        home, base = places[symbol.section]
        moved = Symbol(symbol.name, symbol.info, symbol.other, home + 1, base + symbol.value, symbol.size)
        if symbol.is_global:
            self._define(moved)
        elif symbol.type != _SECTION_SYMBOL:
            moved = replace(moved, name=self._unique(symbol.name))
            self.locals.append(moved)
        return moved

    def _unique(self, name: str) -> str:
        """``name``, with a number where it is taken: LLVM's loader tells even local symbols by name."""
        number, candidate = 0, name
        while candidate in self.names:
            number += 1
            candidate = f"{name}.{number}"
        self.names.add(candidate)
        return candidate

    def _define(self, symbol: Symbol) -> None:
        if symbol.name in self.defined:
            raise CompilerBug(f"two objects define {symbol.name}")
        self.defined[symbol.name] = symbol

    def write(self) -> bytes:
        """The ELF file."""
        numbers, symbols, first_global = self._symbol_table()
        names = _Strings()
        table = b"".join(_pack_symbol(symbol, names) for symbol in symbols)
        place = 1 + len(self.merged) + sum(bool(part.relocations) for part in self.merged.values())
        sections = [
            Section(name, kind, flags, 0, 0, part.align, size, bytes(part.content))
            for (name, kind, flags, size), part in self.merged.items()
        ]
        for target, ((name, *_), part) in enumerate(self.merged.items(), 1):
            if part.relocations:
                content = b"".join(
                    _RELOCATION.pack(offset, numbers[_identity(symbol)] << 32 | kind, addend)
                    for offset, kind, symbol, addend in part.relocations
                )
                shape = (_INFO_LINK, place, target, 8, _RELOCATION.size)
                sections.append(Section(f".rela{name}", _RELA, *shape, content))
        sections += [
            Section(".symtab", _SYMTAB, 0, place + 1, first_global, 8, _SYMBOL.size, table),
            Section(".strtab", _STRTAB, 0, 0, 0, 1, 0, names.content()),
        ]
        return _write_file(self.machine, self.flags, sections)

    def _symbol_table(self) -> tuple[dict[Any, int], list[Symbol], int]:
        """The number of every symbol by its identity, the symbols, and the number of the first global one."""
        local: list[tuple[Any, Symbol]] = [(None, Symbol("", 0, 0, 0, 0, 0))]
        for number in range(1, len(self.merged) + 1):
            local.append((number, Symbol("", _SECTION_SYMBOL, 0, number, 0, 0)))
        local += [(symbol, symbol) for symbol in self.locals]
        visible: list[tuple[Any, Symbol]] = []
        for name, symbol in self.defined.items():
            if name in self.exported:
                visible.append((name, symbol))
            else:
                local.append((name, replace(symbol, info=symbol.type, other=0)))
        visible += [(name, symbol) for name, symbol in self.undefined.items() if name not in self.defined]
        entries = local + visible
        numbers = {identity: number for number, (identity, _) in enumerate(entries)}
        return numbers, [symbol for _, symbol in entries], len(local)


class _Strings:
    """A string table under construction."""

    def __init__(self) -> None:
        self._parts = [""]
        self._size = 1
        self._known = {"": 0}

    def offset(self, text: str) -> int:
        """Where ``text`` stands."""
        if text not in self._known:
            self._known[text] = self._size
            self._parts.append(text)
            self._size += len(text.encode()) + 1
        return self._known[text]

    def content(self) -> bytes:
        """The table."""
        return "\0".join([*self._parts, ""]).encode()


def _write_file(machine: int, flags: int, sections: Sequence[Section]) -> bytes:
    """Header, contents at their alignment, and section headers; adds the empty section and the names."""
    names = _Strings()
    naming = Section(".shstrtab", _STRTAB, 0, 0, 0, 1, 0, b"")
    offsets = [names.offset(section.name) for section in (*sections, naming)]
    sections = [*sections, replace(naming, content=names.content())]
    body = bytearray(_HEADER.size)
    headers = [bytes(_SECTION.size)]
    for name, section in zip(offsets, sections, strict=True):
        body += bytes(-len(body) % max(section.align, 1))
        rest = (section.link, section.info, section.align, section.entry_size)
        size = len(section.content)
        headers.append(_SECTION.pack(name, section.kind, section.flags, 0, len(body), size, *rest))
        body += section.content
    body += bytes(-len(body) % 8)
    numbers = (_HEADER.size, 0, 0, _SECTION.size, len(headers), len(headers) - 1)
    _HEADER.pack_into(body, 0, _IDENT, _RELOCATABLE, machine, 1, 0, 0, len(body), flags, *numbers)
    return bytes(body + b"".join(headers))


def _pack_symbol(symbol: Symbol, names: _Strings) -> bytes:
    name = names.offset(symbol.name)
    return _SYMBOL.pack(name, symbol.info, symbol.other, symbol.section, symbol.value, symbol.size)


def _identity(symbol: Symbol) -> Any:
    """What tells symbols apart: sections by number, global ones by name, local ones by all they are."""
    if symbol.type == _SECTION_SYMBOL:
        return symbol.section
    return symbol.name if symbol.is_global else symbol


def _kept(section: Section) -> bool:
    """Whether a section has a place in the result; tables are written anew, hints are left out."""
    if section.kind in (_REL, _GROUP) or (section.kind == _NOBITS and section.content):
        raise CompilerBug(f"the object code has a section {section.name} of type {section.kind}")
    return section.kind not in (_NULL, _SYMTAB, _STRTAB, _RELA, _ADDRESS_SIGNIFICANCE)


def _is_32(content: bytes) -> bool:
    return content[:6] == IDENT_32


def _text(content: bytes, start: int) -> str:
    return content[start : content.index(b"\0", start)].decode()
