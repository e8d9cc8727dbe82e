"""What commands print: tables and JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Sequence
from typing import Any

import click

from qimport.errors import printable

Row = Sequence[object]

ELLIPSIS = "..."


def print_json(value: Any) -> None:
    """One JSON document on stdout: ASCII, whatever the encoding there, and null for what is no number."""
    click.echo(json.dumps(_finite(value), indent=2, allow_nan=False))


def _finite(value: Any) -> Any:
    """``value`` without infinities and NaN, which JSON does not have."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def print_table(columns: Sequence[str], rows: Sequence[Row], right: Collection[str] = ()) -> None:
    """A table on stdout as aligned text, on a terminal with a bold head.

    Columns of integers are set right, and those named by ``right``.
    """
    cells = [[_cell(value) for value in row] for row in rows]
    numeric = [
        name in right or (bool(rows) and all(isinstance(row[i], int) for row in rows))
        for i, name in enumerate(columns)
    ]
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    for number, line in enumerate([list(columns), *cells]):
        aligned = [
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(line, widths, numeric, strict=True)
        ]
        text = "  ".join(aligned).rstrip()
        click.echo(text if number else click.style(text, bold=True))


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)


def format_shape(shape: Sequence[int]) -> str:
    """``1x8x8x1``, ``scalar`` for no dimensions."""
    return "x".join(map(str, shape)) or "scalar"


def shorten(name: str, limit: int = 40) -> str:
    """A tensor's name on one line, of a long one the end: converters put what is common in front."""
    name = printable(name)
    return name if len(name) <= limit else ELLIPSIS + name[len(name) + len(ELLIPSIS) - limit :]
