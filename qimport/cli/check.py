"""``qimport check``."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import click

from qimport.cli.failures import describe, say
from qimport.cli.files import model_source
from qimport.cli.options import json_option, numerics_option, shape_options
from qimport.cli.text import print_json
from qimport.errors import QimportError, UnsupportedError
from qimport.frontend.importer import import_model
from qimport.frontend.schema import read_model
from qimport.lower.supported import require_supported
from qimport.numerics import Numerics
from qimport.source import read_source


@click.command("check")
@click.argument("models", metavar="MODEL...", nargs=-1, required=True)
@numerics_option
@shape_options
@json_option
def command(
    models: tuple[str, ...],
    numerics: Numerics,
    batch: int | None,
    shapes: Mapping[str, Sequence[int]],
    signature: str | None,
    as_json: bool,
) -> int:
    """Say whether models can be compiled; every reason if not.

    The exit code is the largest of all files: 0 supported, 2 malformed, 3 unsupported.
    """
    reports = [_check(path, numerics, batch, shapes, signature) for path in models]
    if as_json:
        print_json(reports)
    for report in () if as_json else reports:
        if report["error"] is None:
            count = report["operators"]
            click.echo(f"{report['file']}: supported, {count} operator{'' if count == 1 else 's'}")
        else:
            say(report["error"])
    return max(int(report["exit_code"]) for report in reports)


def _check(
    path: str,
    numerics: Numerics,
    batch: int | None,
    shapes: Mapping[str, Sequence[int]],
    signature: str | None,
) -> dict[str, Any]:
    """The verdict on one file, ready for JSON."""
    try:
        content, _ = read_source(model_source(path))
        model = read_model(content, source=path)
        graph = import_model(model, batch=batch, shapes=shapes, signature=signature).graph
        require_supported(graph, numerics)
    except (QimportError, MemoryError) as error:
        found = describe(error)
        if found is None:
            raise
        code, sentence = found
        named = sentence.startswith((f"{path}: ", f"cannot read {path!r}: "))
        reasons = error.reasons if isinstance(error, UnsupportedError) else ()
        return {
            "file": path,
            "exit_code": code,
            "operators": None,
            "error": sentence if named else f"{path}: {sentence}",
            "reasons": [dataclasses.asdict(reason) for reason in reasons],
        }
    return {"file": path, "exit_code": 0, "operators": len(graph.nodes), "error": None, "reasons": []}
