"""Checks attribute values against the annotations of an operation's fields."""

from __future__ import annotations

import dataclasses
import difflib
import types
import typing
from collections.abc import Iterable
from typing import Any

from qimport.ir.graph import Operation


def attribute_hints(op: type[Operation]) -> dict[str, Any]:
    """The resolved annotation of every attribute."""
    hints = typing.get_type_hints(op)
    return {field.name: hints[field.name] for field in dataclasses.fields(op)}  # type: ignore[arg-type]


def mandatory_attributes(op: type[Operation]) -> tuple[str, ...]:
    """Names of the attributes without a default."""
    missing = dataclasses.MISSING
    fields = dataclasses.fields(op)  # type: ignore[arg-type]
    return tuple(f.name for f in fields if f.default is missing and f.default_factory is missing)


def coerce(value: object, hint: Any) -> object:
    """``value`` as ``hint`` wants it: an int becomes a float where only a float will do.

    Raises :class:`TypeError` if it does not fit. Hints are int, float, bool, str, None, Literal, unions and
    tuples of those.
    """
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        if value in arguments and isinstance(value, str):
            return value
    elif origin in (typing.Union, types.UnionType):
        return _coerce_union(value, arguments)
    elif origin is tuple:
        if isinstance(value, tuple):
            repeated = len(arguments) == 2 and arguments[1] is Ellipsis
            wanted = arguments[:1] * len(value) if repeated else arguments
            if len(wanted) == len(value):
                return tuple(coerce(part, part_hint) for part, part_hint in zip(value, wanted, strict=True))
    elif hint is float and type(value) is int:
        return float(value)
    elif type(value) is hint:
        return value
    raise TypeError(f"must be {describe(hint)}")


def _coerce_union(value: object, hints: tuple[Any, ...]) -> object:
    """An exact match wins over a conversion, so that ``int | float`` keeps an int."""
    if type(value) in hints:
        return value
    for hint in hints:
        try:
            return coerce(value, hint)
        except TypeError:
            continue
    raise TypeError(f"must be {' or '.join(map(describe, hints))}")


def describe(hint: Any) -> str:
    """An annotation in words, for messages."""
    if typing.get_origin(hint) is typing.Literal:
        return "one of " + ", ".join(f'"{choice}"' for choice in typing.get_args(hint))
    if hint is type(None):
        return "None"
    return str(hint) if typing.get_origin(hint) else str(hint.__name__)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The tail of a message about an unknown name: the closest known one, if any is close."""
    close = difflib.get_close_matches(name, list(known), 1)
    return f"; did you mean {close[0]}?" if close else ""
