"""``qimport inspect``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from qimport.cli.files import model_source
from qimport.cli.listing import describe_model, listing
from qimport.cli.memory import show
from qimport.cli.options import json_option, model_argument, numerics_option, shape_options, target_option
from qimport.cli.progress import working
from qimport.cli.text import format_shape, print_json, print_table, shorten
from qimport.compiler import STAGES, Compilation, trace
from qimport.errors import ArgumentError
from qimport.report import summarize


@click.command("inspect")
@model_argument
@click.option(
    "--stage",
    type=click.Choice(("tflite", *STAGES)),
    help="Print this stage of the compilation instead of a table.",
)
@click.option("--memory", is_flag=True, help="Compile, and print flash, RAM and the arena over time.")
@click.option(
    "-o", "--output", metavar="FILE", help="With --memory: draw the arena to a file, .svg or .png, too."
)
@numerics_option
@target_option
@shape_options
@json_option
def command(
    model: str,
    stage: str | None,
    memory: bool,
    output: str | None,
    numerics: str,
    target: str,
    batch: int | None,
    shapes: Mapping[str, Sequence[int]],
    signature: str | None,
    as_json: bool,
) -> None:
    """Show what a model consists of: operators, shapes, multiply-accumulates, weights, arena.

    The stages are tflite (the file as it is, also of unsupported models), qnn (quantized operators), prim
    (integer operations), plan (kernels and memory), llvm and asm (code for the target).
    """
    if stage is not None and memory:
        raise ArgumentError("--stage and --memory print different things; choose one")
    if output is not None and not memory:
        raise ArgumentError("only --memory draws to a file; add it, or leave out --output")
    stages = trace(
        model_source(model), target, numerics=numerics, batch=batch, shapes=shapes, signature=signature
    )
    if memory:
        show(stages, model, output, as_json)
    elif stage is None:
        summary = _summarize(stages) | {"file": model}
        if as_json:
            print_json(summary)
        else:
            _print_summary(summary)
    elif stage == "tflite":
        if as_json:
            print_json(describe_model(stages.model))
        else:
            click.echo(listing(stages.model))
    else:
        with working("compiling"):
            text = stages.text(stage)
        if as_json:
            print_json({"file": model, "stage": stage, "numerics": numerics, "target": target, "text": text})
        else:
            click.echo(text.rstrip("\n"))


def _summarize(stages: Compilation) -> dict[str, Any]:
    return summarize(stages.imported.graph) | {
        "numerics": stages.options.numerics,
        "arena_bytes": stages.plan.arena_bytes,
        "state_bytes": stages.plan.state_bytes,
        "kernel_calls": len(stages.plan.calls),
    }


def _print_summary(summary: dict[str, Any]) -> None:
    for side in ("inputs", "outputs"):
        for tensor in summary[side]:
            click.echo(f"{side[:-1]:7} {_tensor(tensor)}")
    click.echo()
    rows = [
        (
            row["index"],
            row["operator"].removeprefix("qnn."),
            shorten(row["name"]),
            format_shape(row["shape"]),
            row["type"],
            row["macs"],
            row["weight_bytes"],
        )
        for row in summary["operators"]
    ]
    print_table(("#", "operator", "result", "shape", "type", "MACs", "weights"), rows)
    click.echo()
    state = f", of which {summary['state_bytes']:,} are state" if summary["state_bytes"] else ""
    click.echo(
        f"{len(rows)} operators in {summary['kernel_calls']} kernel calls, {summary['macs']:,} MACs, "
        f"{summary['weight_bytes']:,} bytes of weights, {summary['arena_bytes']:,} bytes of arena{state} "
        f"(numerics {summary['numerics']})"
    )


def _tensor(tensor: dict[str, Any]) -> str:
    text = f"{shorten(tensor['name'], 80)}: {tensor['dtype']} {format_shape(tensor['shape'])}"
    quantization = tensor["quantization"]
    if quantization is None:
        return text
    if len(quantization["scales"]) > 1:
        return f"{text}, {len(quantization['scales'])} scales along axis {quantization['axis']}"
    return f"{text}, scale {quantization['scales'][0]:.9g}, zero point {quantization['zero_points'][0]}"
