"""What commands print: tables, JSON, and a sign of life on a terminal's stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

Row = Sequence[object]


def print_json(value: Any) -> None:
    """One JSON document on stdout."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def print_table(columns: Sequence[str], rows: Sequence[Row]) -> None:
    """A table on stdout: with colours on a terminal, as aligned text elsewhere. Numbers are set right."""
    cells = [[_cell(value) for value in row] for row in rows]
    numeric = [all(isinstance(row[i], int) for row in rows) and bool(rows) for i in range(len(columns))]
    if sys.stdout.isatty():
        _print_rich(columns, cells, numeric)
        return
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    for line in [list(columns), *cells]:
        aligned = [
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(line, widths, numeric, strict=True)
        ]
        click.echo("  ".join(aligned).rstrip())


def _print_rich(columns: Sequence[str], cells: list[list[str]], numeric: list[bool]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", pad_edge=False)
    for name, right in zip(columns, numeric, strict=True):
        table.add_column(name, justify="right" if right else "left", overflow="fold")
    for row in cells:
        table.add_row(*map(Text, row))
    Console().print(table)


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)


@contextmanager
def working(sentence: str) -> Iterator[None]:
    """Show ``sentence`` beside a spinner on stderr while the block runs; nothing when that is no terminal."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(sentence):
        yield


def format_shape(shape: Sequence[int]) -> str:
    """``1x8x8x1``, ``scalar`` for no dimensions."""
    return "x".join(map(str, shape)) or "scalar"


def shorten(name: str, limit: int = 48) -> str:
    """The end of a long tensor name: converters put what is common in front."""
    return name if len(name) <= limit else f"...{name[3 - limit :]}"
