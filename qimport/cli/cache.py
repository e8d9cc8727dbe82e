"""``qimport cache``."""

from __future__ import annotations

import time
from collections.abc import Sequence

import click

from qimport.cache import FOLDER, Cache, Entry, cache_folder, cache_limit, switched_on
from qimport.cli.options import Amount, json_option
from qimport.cli.text import print_json, print_table, shorten
from qimport.errors import ArgumentError

SECONDS_PER_DAY = 86400
COLUMNS = ("model", "target", "numerics", "bytes", "created", "last used")


@click.group("cache", invoke_without_command=True)
@json_option
@click.pass_context
def command(context: click.Context, as_json: bool) -> None:
    """Show the compiled models that are kept on disk, or remove them.

    `run`, `verify` and `bench` keep what they compile; QIMPORT_CACHE=0 switches that off.
    """
    if context.invoked_subcommand is not None:
        return
    cache, state = _cache(), "" if switched_on() else "; switched off"
    entries = cache.entries()
    if as_json:
        print_json(_report(cache, entries))
        return
    if entries:
        print_table(COLUMNS, list(map(_row, entries)))
    click.echo(f"{cache.folder}: {_total(entries)}, at most {cache.limit:,}{state}")


@command.command("clear")
@click.option(
    "--older-than",
    "days",
    type=Amount(0),
    default=0.0,
    metavar="DAYS",
    help="Only what was not used for so many days.",
)
@json_option
def clear(days: float, as_json: bool) -> None:
    """Remove compiled models."""
    cache = _cache()
    removed = cache.clear(days * SECONDS_PER_DAY)
    if as_json:
        print_json({"folder": str(cache.folder), "removed": len(removed), "bytes": _size(removed)})
    else:
        click.echo(f"removed {_total(removed)} from {cache.folder}")


def _cache() -> Cache:
    folder = cache_folder()
    if folder is None:
        raise ArgumentError(f"this user has no cache folder; {FOLDER} can name one")
    return Cache(folder, cache_limit())


def _report(cache: Cache, entries: Sequence[Entry]) -> dict[str, object]:
    models = [
        {
            **entry.describe(),
            "file": entry.path.name,
            "bytes": entry.nbytes,
            "created": entry.created,
            "used": entry.used,
        }
        for entry in entries
    ]
    return {
        "folder": str(cache.folder),
        "on": switched_on(),
        "limit": cache.limit,
        "bytes": _size(entries),
        "models": models,
    }


def _row(entry: Entry) -> list[object]:
    about = entry.describe()
    if not about:
        return ["(damaged)", "", "", entry.nbytes, _age(entry.created), _age(entry.used)]
    name, target, numerics = about["name"], about["target"]["name"], about["numerics"]
    return [shorten(name), target, numerics, entry.nbytes, _age(entry.created), _age(entry.used)]


def _age(moment: float) -> str:
    """How long ago, in the largest unit that is not zero."""
    seconds = max(int(time.time() - moment), 0)
    for size, unit in ((SECONDS_PER_DAY, "day"), (3600, "hour"), (60, "minute")):
        count = seconds // size
        if count:
            return f"{count} {unit}{'s' if count > 1 else ''} ago"
    return "now"


def _size(entries: Sequence[Entry]) -> int:
    return sum(entry.nbytes for entry in entries)


def _total(entries: Sequence[Entry]) -> str:
    return f"{len(entries)} model{'' if len(entries) == 1 else 's'}, {_size(entries):,} bytes"
