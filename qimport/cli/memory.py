"""``qimport inspect --memory``: flash and RAM on a target, and the arena over time."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from qimport.cli.progress import working
from qimport.cli.text import print_json, print_table, shorten
from qimport.codegen.aot import interface_of, translate
from qimport.codegen.footprint import Footprint, footprint
from qimport.compiler import Compilation
from qimport.emission import write_files
from qimport.errors import ArgumentError
from qimport.memory import Timeline

COLUMNS = 48
"""Characters of the picture of an arena."""

DRAWINGS = {".svg": lambda timeline: timeline.svg().encode(), ".png": Timeline.png}
"""How a file with this ending is drawn."""


def show(stages: Compilation, model: str, output: str | None, as_json: bool) -> None:
    """Print the memory of a compiled model, or draw its arena to the file ``output``.

    Raises:
        ArgumentError: ``output`` is of no known kind or cannot be written.
    """
    if output is not None and Path(output).suffix.lower() not in DRAWINGS:
        raise ArgumentError(f"cannot draw to {output}; its name must end in {' or '.join(DRAWINGS)}")
    timeline = Timeline.of(stages.plan)
    if output is not None:
        place = Path(output)
        write_files(place.parent, {place.name: DRAWINGS[place.suffix.lower()](timeline)})
    found = _measure(stages)
    facts: dict[str, Any] = {
        "file": model,
        "target": stages.options.target.name,
        "numerics": stages.options.numerics,
        "footprint": found.as_dict(),
        **timeline.as_dict(),
    }
    if as_json:
        print_json(facts)
        return
    if timeline.arena:
        rows = [
            (moment.step, moment.nbytes, picture, shorten(moment.kernel, 36), _operators(moment.origin))
            for moment, picture in zip(timeline.moments, timeline.maps(COLUMNS), strict=True)
        ]
        print_table(("step", "in use", f"arena of {timeline.arena:,} bytes", "kernel", "operator"), rows)
        click.echo()
    for line in summary(found, timeline, stages.options.target.name):
        click.echo(line)
    if output is not None:
        click.echo(f"arena drawn to {os.fspath(output)}")


def _measure(stages: Compilation) -> Footprint:
    with working("compiling") as progress:
        api = interface_of(
            stages.name,
            stages.inputs,
            stages.outputs,
            stages.plan,
            stages.options.target,
            stages.options.numerics,
        )
        return footprint(translate(api, stages.plan, progress=progress), stages.plan)


def summary(found: Footprint, timeline: Timeline, target: str) -> list[str]:
    """Flash, RAM and the layer at the peak, a line each."""
    peak = timeline.peak
    lines = [f"{target}: {found}"]
    if peak is not None and timeline.arena:
        lines.append(
            f"peak: {peak.nbytes:,} bytes in step {peak.step}, {_operators(peak.origin) or peak.kernel}"
        )
    return lines


def _operators(origin: str) -> str:
    """Numbers and kinds of the file's operators, without the names of their results."""
    return "; ".join(operator.partition(" '")[0] for operator in origin.split("; "))
