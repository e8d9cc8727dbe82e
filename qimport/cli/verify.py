"""``qimport verify``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import click

from qimport.cli.files import model_source
from qimport.cli.options import json_option, model_argument, shape_options, target_option, threads_option
from qimport.cli.progress import working
from qimport.cli.text import print_json
from qimport.numerics import NUMERICS, X86_NUMERICS
from qimport.oracle import Oracle
from qimport.verify import Comparison, Report, verify_model

DIFFERENT = 1


@click.command("verify")
@model_argument
@click.option(
    "--numerics",
    type=click.Choice(("all", *NUMERICS)),
    default="all",
    show_default=True,
    help="Which interpreter to equal; all: every configuration of this machine's.",
)
@click.option(
    "--seeds",
    type=click.IntRange(1),
    default=3,
    metavar="N",
    show_default=True,
    help="Number of random inputs.",
)
@click.option("--per-layer", is_flag=True, help="Compare every tensor and name the first that differs.")
@target_option
@threads_option
@shape_options
@json_option
def command(
    model: str,
    numerics: str,
    seeds: int,
    per_layer: bool,
    target: str,
    threads: int,
    batch: int | None,
    shapes: Mapping[str, Sequence[int]],
    signature: str | None,
    as_json: bool,
) -> int:
    """Compare a model's outputs with the TFLite interpreter's.

    All elements of all outputs are compared as bytes, for several random inputs. Exits with 1 if any differs.
    """
    source = model_source(model)
    reports = []
    with Oracle() as oracle:
        version = oracle.version  # a missing interpreter is told before anything is compiled
        for mode in X86_NUMERICS if numerics == "all" else (numerics,):
            with working(f"comparing with ai-edge-litert {version}, {mode}") as progress:
                report = verify_model(
                    source,
                    oracle,
                    numerics=mode,
                    seeds=range(seeds),
                    target=target,
                    batch=batch,
                    shapes=shapes,
                    threads=threads,
                    signature=signature,
                    per_layer=per_layer,
                    progress=progress,
                )
            reports.append(report)
            if not as_json:
                _print_report(report, seeds)
    if as_json:
        print_json([report.as_dict() | {"model": model} for report in reports])
    return 0 if all(report.equal for report in reports) else DIFFERENT


def _print_report(report: Report, seeds: int) -> None:
    subject = f"{report.numerics}: {report.target} code and {report.interpreter}"
    extent = f"{report.elements:,} output elements for {seeds} random input{'s' if seeds > 1 else ''}"
    click.echo(f"{subject} {'agree' if report.equal else 'DIFFER'} on {extent}")
    for comparison in report.comparisons:
        if comparison.differing:
            click.echo(f"  seed {comparison.seed}, output {_difference(comparison)}")
    if report.layer is not None:
        layer = report.layer
        click.echo(
            f"  first in tensor {layer.tensor}, of {layer.operator}, stage {layer.stage}: "
            f"seed {layer.comparison.seed}, {_difference(layer.comparison)}"
        )


def _difference(comparison: Comparison) -> str:
    count = f"{comparison.tensor!r}: {comparison.differing:,} of {comparison.elements:,} elements differ"
    if comparison.index is None:
        return f"{count} in shape or type"
    where = ", ".join(map(str, comparison.index))
    if comparison.units is not None:
        count += f" by at most {comparison.units:,} units in the last place"
    return f"{count}, first [{where}]: {comparison.found}, the interpreter has {comparison.expected}"
