"""Operator options: from the tables of the schema to plain mappings, after ``catalogue.OPTION_TABLES``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from qimport.frontend import catalogue
from qimport.frontend.flatbuffer import Layout, Table

_ZEROS: dict[str, Any] = {"bool": False, "float32": 0.0, "string": None, "[uint8]": b""}


@dataclass(frozen=True)
class OptionField:
    """One field of an option table: ``kind`` is its type in the file, ``names`` an enumeration's members.

    ``default`` holds where a present table leaves the field out; ``zero`` where the table itself is missing.
    """

    name: str
    slot: int
    kind: str
    names: tuple[str, ...]
    default: Any
    zero: Any


@dataclass(frozen=True)
class OptionTable:
    """The option table of one or more operators; ``union`` is the operator's field that holds it."""

    name: str
    fields: tuple[OptionField, ...]
    union: str

    @property
    def layout(self) -> Layout:
        """The slots of the fields."""
        return {field.name: field.slot for field in self.fields}


def read_options(operator: Table, builtin: str) -> Mapping[str, Any]:
    """Return the options of an operator: field name -> value, enumerations by name, vectors as tuples.

    A table that is absent, or belongs to another kind of operator, reads as zeros: the interpreter then
    leaves its parameters zeroed instead of applying the defaults of the schema. An operator without known
    options reads empty.
    """
    table = TABLE_OF.get(builtin)
    if table is None or not table.fields:
        return MappingProxyType({})
    union = catalogue.OPTIONS_UNION_2 if table.union == "builtin_options_2" else catalogue.OPTIONS_UNION
    code: int = operator.scalar(f"{table.union}_type", "uint8", 0)
    found = operator.table(table.union, table.layout) if code == union.index(table.name) else None
    if found is None:
        return MappingProxyType({field.name: field.zero for field in table.fields})
    return MappingProxyType({field.name: _read_field(found, field) for field in table.fields})


def _read_field(table: Table, field: OptionField) -> Any:
    if field.kind == "string":
        return table.string(field.name)
    if field.kind == "[uint8]":
        return table.blob(field.name) or b""
    if field.kind.startswith("["):
        return table.numbers(field.name, field.kind[1:-1]) or ()
    if not field.names:
        return table.scalar(field.name, field.kind, field.default)
    code: int = table.scalar(field.name, field.kind, field.names.index(field.default))
    return name_of(table, field.name, field.names, code)


def name_of(table: Table, field: str, names: tuple[str, ...], code: int) -> str:
    """Return the name of member ``code`` of an enumeration, or raise ``ModelError`` about ``field``."""
    if not 0 <= code < len(names):
        table.fail(
            field,
            f"the value {code} is none of the {len(names)} known ones ({', '.join(names[:4])}, ...);"
            " the file is damaged or newer than this version of qimport",
        )
    return names[code]


def operator_name(code: int) -> str:
    """Return the schema's name of a builtin operator; codes newer than the schema give ``UNKNOWN_<code>``."""
    return catalogue.OPERATORS[code] if code < len(catalogue.OPERATORS) else f"UNKNOWN_{code}"


def _parse_field(text: str, slot: int) -> OptionField:
    name, _, rest = text.partition(":")
    kind, _, default = rest.partition("=")
    names = catalogue.ENUMS.get(kind, ())
    if names:
        return OptionField(
            name, slot, catalogue.WIDE_ENUMS.get(kind, "int8"), names, default or names[0], names[0]
        )
    zero = _ZEROS.get(kind, () if kind.startswith("[") else 0)
    if not default:
        return OptionField(name, slot, kind, (), zero, zero)
    return OptionField(name, slot, kind, (), True if default == "true" else int(default), zero)


def _parse_tables(text: str) -> Iterator[OptionTable]:
    for paragraph in text.strip().replace("\n    ", " ").splitlines():
        name, _, fields = paragraph.partition(":")
        union = "builtin_options" if name in catalogue.OPTIONS_UNION else "builtin_options_2"
        parsed = (_parse_field(field, slot) for slot, field in enumerate(fields.split()) if field != "-")
        yield OptionTable(name, tuple(parsed), union)


def _assign_tables() -> dict[str, OptionTable]:
    tables = {table.name: table for table in _parse_tables(catalogue.OPTION_TABLES)}
    by_key = {name.lower(): table for name, table in tables.items()}
    result = {op: by_key[key] for op in catalogue.OPERATORS if (key := op.replace("_", "").lower()) in by_key}
    for name, operators in catalogue.SHARED_OPTIONS.items():
        result.update(dict.fromkeys(operators, tables[name]))
    return result


TABLE_OF: Mapping[str, OptionTable] = MappingProxyType(_assign_tables())
"""Operator name -> the option table it uses; operators without options are absent."""
