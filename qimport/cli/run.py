"""``qimport run``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click
import numpy as np

from qimport.artefact import TensorInfo
from qimport.cli.files import Array, model_source, read_inputs, write_outputs
from qimport.cli.options import (
    json_option,
    model_argument,
    numerics_option,
    shape_options,
    target_option,
    threads_option,
)
from qimport.cli.progress import working
from qimport.cli.text import format_shape, print_json, print_table, shorten
from qimport.compiler import compile as compile_model
from qimport.model import CompiledModel
from qimport.oracle import random_inputs

MOST_ROWS = 16
"""Results of more rows than this are no lists of classes."""


@click.command("run")
@model_argument
@click.option(
    "--input",
    "files",
    metavar="[NAME=]FILE",
    multiple=True,
    help="A .npy, .npz or raw little-endian file, - for stdin; once per input, in order or by name.",
)
@click.option(
    "--random", "seed", type=click.IntRange(0), metavar="SEED", help="Random inputs instead of files."
)
@click.option("--quantize", is_flag=True, help="Accept float inputs: quantize them as the model says.")
@click.option("--dequantize", is_flag=True, help="Give outputs as float32.")
@click.option(
    "--output",
    metavar="PATH",
    help="Write the outputs: X.npy or X.raw (one output), X.npz, a folder, or - for raw bytes on stdout.",
)
@click.option(
    "--top", type=click.IntRange(1), default=5, metavar="K", show_default=True, help="Classes to list."
)
@numerics_option
@target_option
@threads_option
@shape_options
@json_option
def command(
    model: str,
    files: tuple[str, ...],
    seed: int | None,
    quantize: bool,
    dequantize: bool,
    output: str | None,
    top: int,
    numerics: str,
    target: str,
    threads: int,
    batch: int | None,
    shapes: Mapping[str, Sequence[int]],
    signature: str | None,
    as_json: bool,
) -> None:
    """Run a model on this machine.

    Outputs that look like scores of classes are listed from the largest on; of others the range is shown.
    """
    if (seed is None) == (not files):
        raise click.UsageError("give either --input or --random")
    if [model, *files].count("-") > 1:
        raise click.UsageError("only one file can come from stdin")
    if output == "-" and as_json:
        raise click.UsageError("--json and --output - both want stdout")
    with working(f"compiling {model}") as progress:
        compiled = compile_model(
            model_source(model),
            target,
            numerics=numerics,
            batch=batch,
            shapes=shapes,
            threads=threads,
            signature=signature,
            progress=progress,
        )
    if seed is not None:
        inputs = random_inputs(compiled.inputs, seed)
    else:
        inputs = read_inputs(files, compiled.inputs, _input_names(compiled))
    arrays = compiled.run(inputs, quantize=quantize, dequantize=dequantize)
    written = [] if output is None else write_outputs(output, compiled.outputs, arrays)
    if as_json:
        results = [_describe(info, array, top) for info, array in zip(compiled.outputs, arrays, strict=True)]
        print_json({"model": model, "numerics": numerics, "outputs": results, "files": written})
    elif output != "-":
        for info, array in zip(compiled.outputs, arrays, strict=True):
            _print_output(info, array, top)
        for file in written:
            click.echo(f"wrote {file}")


def _input_names(compiled: CompiledModel) -> dict[str, int]:
    """Position of every input by the names of tensors and of signature arguments; the former win."""
    names = {name: place for item in compiled.signatures for name, place in item.inputs.items()}
    return names | {info.name: place for place, info in enumerate(compiled.inputs)}


def _print_output(info: TensorInfo, array: Array, top: int) -> None:
    click.echo(f"{shorten(info.name, 80)}: {array.dtype} {format_shape(array.shape)}")
    if not looks_like_classes(array):
        low, high = array.min(), array.max()
        click.echo(f"  from {low} to {high}, mean {np.mean(array, dtype=np.float64):.6g}")
        return
    ranking = best(info, array, top)
    for number, places in enumerate(ranking):
        if len(ranking) > 1:
            click.echo(f"row {number}")
        print_table(list(places[0]), [list(map(_cell, place.values())) for place in places])


def _cell(value: int | float) -> object:
    return value if isinstance(value, int) else f"{value:.6g}"


def looks_like_classes(array: Array) -> bool:
    """Whether an output is a few rows of scores: [1, N], [1, 1, 1, N] and the like."""
    if (
        array.ndim == 0
        or max(array.shape[1:-1], default=1) > 1
        or array.dtype.kind not in "iuf"
        or array.dtype.itemsize > 4
    ):
        return False
    classes: int = array.shape[-1]
    return classes > 1 and array.size <= classes * MOST_ROWS


def best(info: TensorInfo, array: Array, count: int) -> list[list[dict[str, Any]]]:
    """For each row the largest ``count`` elements: class, code where it is quantized, real value."""
    rows = array.reshape(-1, array.shape[-1])
    codes = info.scale is not None and array.dtype == info.dtype
    found = []
    for row in rows:
        order = np.argsort(-row.astype(np.float64), kind="stable")[:count]
        places = []
        for index in order:
            place: dict[str, Any] = {"class": int(index)}
            value = float(row[index])
            if codes and info.scale is not None and info.zero_point is not None:
                place["code"] = int(row[index])
                value = (int(row[index]) - info.zero_point) * info.scale
            places.append({**place, "value": value})
        found.append(places)
    return found


def _describe(info: TensorInfo, array: Array, top: int) -> dict[str, Any]:
    return {
        "name": info.name,
        "dtype": str(array.dtype),
        "shape": list(array.shape),
        "min": array.min().item(),
        "max": array.max().item(),
        "top": best(info, array, top) if looks_like_classes(array) else None,
    }
