"""Bounds-checked reading of flexbuffer maps of numbers: the options of custom operators."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from qimport.errors import ModelError

Scalar = int | float | bool | None

NULL, INT, UINT, FLOAT, INDIRECT_INT, INDIRECT_UINT, INDIRECT_FLOAT, MAP, BOOL = 0, 1, 2, 3, 6, 7, 8, 9, 26

_FORMATS = {
    "signed": {1: "<b", 2: "<h", 4: "<i", 8: "<q"},
    "unsigned": {1: "<B", 2: "<H", 4: "<I", 8: "<Q"},
    "float": {4: "<f", 8: "<d"},
}
_KINDS = {INT: "signed", UINT: "unsigned", FLOAT: "float", BOOL: "unsigned"}
_INDIRECT = {INDIRECT_INT: INT, INDIRECT_UINT: UINT, INDIRECT_FLOAT: FLOAT}


def read_map(data: bytes, label: str) -> dict[str, Scalar]:
    """The entries of a flexbuffer whose root is a map of numbers; ``label`` begins the message of an error.

    Raises:
        ModelError: the bytes are no such map, or an offset leaves them.
    """
    return _Reader(bytes(data), label).root()


@dataclass(frozen=True)
class _Reader:
    """The bytes; every access is checked."""

    data: bytes
    label: str

    def root(self) -> dict[str, Scalar]:
        """The root is stored at the end: value, packed type, width in bytes."""
        if len(self.data) < 3:
            raise self._damaged(f"{len(self.data)} bytes hold no options")
        width = self._width(self.data[-1])
        packed = self.data[-2]
        if packed >> 2 != MAP:
            raise self._damaged(f"its options are of flexbuffer type {packed >> 2}; expected a map")
        return self._map(self._target(len(self.data) - 2 - width, width), 1 << (packed & 3))

    def _map(self, place: int, width: int) -> dict[str, Scalar]:
        """Before the values: offset of the keys, their width, the size; behind them: a packed type each."""
        size = self._number("unsigned", place - width, width)
        keys = self._target(place - 3 * width, width)
        key_width = self._width(self._number("unsigned", place - 2 * width, width))
        if size > len(self.data):
            raise self._damaged(f"its options have {size} entries in {len(self.data)} bytes")
        found: dict[str, Scalar] = {}
        for index in range(size):
            key = self._string(self._target(keys + index * key_width, key_width))
            packed = self._number("unsigned", place + size * width + index, 1)
            found[key] = self._scalar(key, place + index * width, width, packed)
        return found

    def _scalar(self, key: str, place: int, width: int, packed: int) -> Scalar:
        type_ = packed >> 2
        if type_ == NULL:
            return None
        if type_ in _INDIRECT:
            place, width, type_ = self._target(place, width), 1 << (packed & 3), _INDIRECT[type_]
        if type_ not in _KINDS:
            raise self._damaged(f"option {key!r} is of flexbuffer type {type_}; expected a number")
        value = self._number(_KINDS[type_], place, width)
        return bool(value) if type_ == BOOL else value

    def _number(self, kind: str, place: int, width: int) -> int:
        if width not in _FORMATS[kind]:
            raise self._damaged(f"a number of its options has {width} bytes")
        if not 0 <= place <= len(self.data) - width:
            raise self._damaged(f"byte {place} of its options lies outside their {len(self.data)} bytes")
        value: int = struct.unpack_from(_FORMATS[kind][width], self.data, place)[0]
        return value

    def _target(self, place: int, width: int) -> int:
        """Where the offset at ``place`` leads: offsets count backwards."""
        return place - self._number("unsigned", place, width)

    def _width(self, width: int) -> int:
        if width not in (1, 2, 4, 8):
            raise self._damaged(f"its options state a width of {width} bytes")
        return width

    def _string(self, place: int) -> str:
        end = self.data.find(b"\0", place) if 0 <= place < len(self.data) else -1
        if end < 0:
            raise self._damaged(f"a name at byte {place} of its options has no end")
        return self.data[place:end].decode("utf-8", "replace")

    def _damaged(self, sentence: str) -> ModelError:
        return ModelError(f"{self.label}: {sentence}")
