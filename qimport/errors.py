"""The errors qimport raises: one tree, each with the exit code of the command line."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar


def printable(text: str) -> str:
    """``text`` from a file as one harmless line: control characters, which a terminal obeys, are escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


class QimportError(Exception):
    """Base of everything raised on purpose; the message is one sentence for the user."""

    exit_code: ClassVar[int] = 70


class ModelError(QimportError, ValueError):
    """The file is malformed. ``offset`` is the byte position, ``field`` the path of the damaged field."""

    exit_code = 2

    def __init__(self, message: str, *, offset: int | None = None, field: str | None = None) -> None:
        place = [part for part in (field, None if offset is None else f"byte {offset}") if part]
        super().__init__(f"{message} ({', '.join(place)})" if place else message)
        self.offset = offset
        self.field = field


@dataclass(frozen=True)
class Reason:
    """Why one operator of a file cannot be compiled."""

    op_index: int | None
    op: str
    tensor: str | None
    sentence: str

    def __str__(self) -> str:
        name = printable(self.op)
        where = name if self.op_index is None else f"operator {self.op_index} ({name})"
        return f"{where}{f', tensor {self.tensor!r}' if self.tensor else ''}: {self.sentence}"


class UnsupportedError(QimportError, NotImplementedError):
    """The file is valid but holds things qimport does not compile; ``reasons`` lists every one of them."""

    exit_code = 3

    def __init__(self, reasons: Sequence[Reason]) -> None:
        self.reasons = tuple(reasons)
        lines = "\n".join(f"  {reason}" for reason in self.reasons)
        count = len(self.reasons)
        super().__init__(f"{count} unsupported thing{'s' if count != 1 else ''} in the model:\n{lines}")


class TargetError(QimportError):
    """An unknown or impossible compilation target."""

    exit_code = 4


class ArgumentError(QimportError, ValueError):
    """A wrong argument: shapes, element types, file names, option values."""

    exit_code = 4


class ParseError(QimportError):
    """Textual IR that does not parse; the message shows the line with a caret."""

    exit_code = 2

    def __init__(self, message: str, line: int, column: int, text: str) -> None:
        super().__init__(f"line {line}, column {column}: {message}\n  {text}\n  {' ' * (column - 1)}^")
        self.line = line
        self.column = column


class VerifyError(QimportError):
    """A graph breaks a rule of its dialect."""

    exit_code = 70


class CompilerBug(QimportError):
    """A mistake of ours, never the user's."""

    exit_code = 70


def unknown_name(what: str, name: str, known: Iterable[str]) -> str:
    """A sentence about a name that is none of ``known``, with the nearest one or all of them."""
    names = list(known)
    near = difflib.get_close_matches(str(name), names, 1, 0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names)}"
    return f"unknown {what} {name!r}; {hint}"


def unknown_input(name: str, known: Iterable[str]) -> ArgumentError:
    """The error for a name that no input of a model has."""
    names = list(known)
    near = difflib.get_close_matches(str(name), names, 1)
    hint = f"did you mean {near[0]!r}?" if near else f"inputs are {', '.join(map(repr, names))}"
    return ArgumentError(f"the model has no input {name!r}; {hint}")
