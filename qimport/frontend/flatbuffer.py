"""Reading untrusted flatbuffers: no byte is read, and nothing allocated, before its range is checked.

A flatbuffer is a graph of tables. A table starts with a signed offset back to its vtable, which says for
every field where in the table it lies (0 = absent, the schema's default holds). Strings, vectors and other
tables are reached through unsigned forward offsets. All numbers are little-endian. Nothing here relies on
alignment, and no length found in the file is believed before it is compared with the bytes that are left.

Offsets may share their targets, so a small file can describe a huge graph. Every read is charged against a
budget proportional to the file, which an honest file cannot exceed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from qimport.errors import ModelError

# Enough for 50 000 operators; a hostile file that shares its parts is given up after a few seconds.
MAX_TABLES = 250_000
# Bytes charged for a table: the offset that leads to it and the offset it starts with.
TABLE_COST = 8
# An honest file uses each byte once; writers may share strings and vectors, so a small factor is allowed.
BUDGET_FACTOR, BUDGET_BASE = 4, 1 << 16

ADVICE = "the file is damaged: download or export it again"

Layout = Mapping[str, int]
"""Field name -> slot number of one table of the schema."""

_FORMATS: dict[str, struct.Struct] = {
    "bool": struct.Struct("<?"),
    "int8": struct.Struct("<b"),
    "uint8": struct.Struct("<B"),
    "uint16": struct.Struct("<H"),
    "int32": struct.Struct("<i"),
    "uint32": struct.Struct("<I"),
    "int64": struct.Struct("<q"),
    "uint64": struct.Struct("<Q"),
    "float32": struct.Struct("<f"),
}
_UINT16, _INT32, _UINT32 = _FORMATS["uint16"], _FORMATS["int32"], _FORMATS["uint32"]


def layout(fields: str) -> Layout:
    """Return the layout of a table whose fields, in the order of the schema, are named in ``fields``.

    A union takes two slots: the schema's ``options:Options`` is written ``options_type options``.
    """
    return {name: slot for slot, name in enumerate(fields.split())}


class Reader:
    """Range-checked access to the bytes of one flatbuffer; ``source`` names it in error messages."""

    def __init__(self, data: memoryview, source: str) -> None:
        self.data = data
        self.size = len(data)
        self.source = source
        self._tables_left = MAX_TABLES
        self._bytes_left = BUDGET_FACTOR * self.size + BUDGET_BASE

    def fail(self, message: str, offset: int | None = None, field: str | None = None) -> NoReturn:
        """Raise the ``ModelError`` that says what is wrong at ``offset``, in ``field``."""
        raise ModelError(f"{self.source}: {message}", offset=offset, field=field)

    def root(self, identifier: bytes, fields: Layout) -> Table:
        """Return the root table of a file that carries the four-byte ``identifier``."""
        if self.size < 8:
            what = "is empty" if self.size == 0 else f"has {self.size} bytes, too few for a flatbuffer"
            self.fail(f"the file {what}; pass a complete .tflite file", 0)
        found = bytes(self.data[4:8])
        if found != identifier:
            self.fail(f"the file identifier is {found!r}, expected {identifier!r}; pass a .tflite file", 4)
        return Table(self, self.follow(0, "model"), fields, "")

    def number(self, kind: str, offset: int, field: str) -> Any:
        """Return the scalar of type ``kind`` at ``offset``."""
        form = _FORMATS[kind]
        self.check(offset, form.size, field)
        return form.unpack_from(self.data, offset)[0]

    def follow(self, offset: int, field: str) -> int:
        """Return the position the unsigned forward offset stored at ``offset`` leads to."""
        self.check(offset, 4, field)
        distance: int = _UINT32.unpack_from(self.data, offset)[0]
        target = offset + distance
        if distance == 0 or target + 4 > self.size:
            self.fail(f"an offset leads to byte {target} of {self.size}; {ADVICE}", offset, field)
        return target

    def vector(self, offset: int, item_bytes: int, field: str) -> tuple[int, int]:
        """Return (position of the first item, count) of the vector whose offset is stored at ``offset``."""
        position = self.follow(offset, field)
        count: int = _UINT32.unpack_from(self.data, position)[0]
        left = self.size - position - 4
        if count * item_bytes > left:
            self.fail(
                f"{count} items of {item_bytes} bytes do not fit in the {left} bytes left; {ADVICE}",
                position,
                field,
            )
        return position + 4, count

    def charge(self, cost: int, offset: int, field: str) -> None:
        """Take ``cost`` bytes from the budget; a file whose parts are shared absurdly often is refused."""
        self._bytes_left -= cost
        if self._bytes_left < 0:
            self.fail(
                f"the parts of the file add up to far more than its {self.size} bytes; {ADVICE}",
                offset,
                field,
            )

    def charge_table(self, offset: int, field: str) -> None:
        """Take one table from the budget."""
        self._tables_left -= 1
        if self._tables_left < 0:
            self.fail(f"the file has more than {MAX_TABLES} tables; {ADVICE}", offset, field)
        self.charge(TABLE_COST, offset, field)

    def check(self, offset: int, count: int, field: str) -> None:
        """Raise unless the ``count`` bytes at ``offset`` lie in the file."""
        if offset < 0 or offset + count > self.size:
            self.fail(
                f"the file ends at byte {self.size}, {count} bytes were expected here; {ADVICE}",
                offset,
                field,
            )


class Table:
    """One table: named fields at checked positions; ``path`` is its place, such as ``subgraphs[0]``."""

    __slots__ = ("_end", "_fields", "_vtable", "_vtable_end", "path", "position", "reader")

    def __init__(self, reader: Reader, position: int, fields: Layout, path: str) -> None:
        where = path or "model"
        reader.charge_table(position, where)
        vtable = position - int(reader.number("int32", position, where))
        length = int(reader.number("uint16", vtable, where))
        extent = int(reader.number("uint16", vtable + 2, where))
        if length < 4 or length % 2 or extent < 4:
            reader.fail(
                f"a table has a vtable of {length} and a body of {extent} bytes; {ADVICE}", position, where
            )
        reader.check(vtable, length, where)
        reader.check(position, extent, where)
        self.reader, self.position, self.path = reader, position, path
        self._fields, self._vtable, self._vtable_end, self._end = (
            fields,
            vtable,
            vtable + length,
            position + extent,
        )

    def locate(self, name: str, width: int) -> int | None:
        """Return the position of the ``width`` bytes of field ``name``, None when the field is absent."""
        entry = self._vtable + 4 + 2 * self._fields[name]
        if entry + 2 > self._vtable_end:
            return None
        distance: int = _UINT16.unpack_from(self.reader.data, entry)[0]
        if distance == 0:
            return None
        offset = self.position + distance
        if distance < 4 or offset + width > self._end:
            self.fail(name, f"the field lies outside its table; {ADVICE}", entry)
        return offset

    def scalar(self, name: str, kind: str, default: Any) -> Any:
        """Return the number in field ``name``, ``default`` when it is absent."""
        form = _FORMATS[kind]
        offset = self.locate(name, form.size)
        return default if offset is None else form.unpack_from(self.reader.data, offset)[0]

    def string(self, name: str) -> str | None:
        """Return the text in field ``name``; bytes that are not UTF-8 become the replacement character."""
        found = self.blob(name)
        return None if found is None else found.decode("utf-8", errors="replace")

    def blob(self, name: str) -> bytes | None:
        """Return a copy of the byte vector or string in field ``name``."""
        found = self.raw(name)
        if found is None:
            return None
        self.reader.charge(len(found), self.position, self.field(name))
        return bytes(found)

    def raw(self, name: str) -> memoryview | None:
        """Return a view, not a copy, of the byte vector or string in field ``name``."""
        offset = self.locate(name, 4)
        if offset is None:
            return None
        start, count = self.reader.vector(offset, 1, self.field(name))
        return self.reader.data[start : start + count]

    def array(self, name: str, kind: str) -> npt.NDArray[Any] | None:
        """Return the vector of ``kind`` in field ``name`` as a new read-only array."""
        offset = self.locate(name, 4)
        if offset is None:
            return None
        dtype = np.dtype(kind).newbyteorder("<")
        start, count = self.reader.vector(offset, dtype.itemsize, self.field(name))
        self.reader.charge(count * dtype.itemsize, start, self.field(name))
        view = np.frombuffer(self.reader.data, dtype, count, start) if count else np.empty(0, dtype)
        result = view.astype(kind)
        result.flags.writeable = False
        return result

    def numbers(self, name: str, kind: str) -> tuple[Any, ...] | None:
        """Return the vector of ``kind`` in field ``name`` as Python numbers."""
        found = self.array(name, kind)
        return None if found is None else tuple(found.tolist())

    def table(self, name: str, fields: Layout) -> Table | None:
        """Return the table in field ``name``."""
        offset = self.locate(name, 4)
        if offset is None:
            return None
        path = self.field(name)
        return Table(self.reader, self.reader.follow(offset, path), fields, path)

    def tables(self, name: str, fields: Layout) -> Iterator[Table]:
        """Yield the tables of the vector in field ``name``."""
        offset = self.locate(name, 4)
        if offset is None:
            return
        path = self.field(name)
        start, count = self.reader.vector(offset, 4, path)
        for index in range(count):
            item = f"{path}[{index}]"
            yield Table(self.reader, self.reader.follow(start + 4 * index, item), fields, item)

    def field(self, name: str) -> str:
        """Return the path of field ``name``."""
        return f"{self.path}.{name}" if self.path else name

    def fail(self, name: str, message: str, offset: int | None = None) -> NoReturn:
        """Raise the ``ModelError`` about field ``name``, at ``offset`` or else where the field lies."""
        place = offset if offset is not None else self.locate(name, 1)
        self.reader.fail(message, self.position if place is None else place, self.field(name))
