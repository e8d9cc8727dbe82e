"""``qimport build``."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import click

from qimport.cli.files import model_source
from qimport.cli.options import (
    json_option,
    model_argument,
    numerics_option,
    parse_names,
    shape_options,
    target_option,
    threads_option,
)
from qimport.cli.progress import working
from qimport.cli.text import print_json
from qimport.codegen.aot import interface_of
from qimport.codegen.footprint import Footprint, footprint
from qimport.codegen.host import resolve_target
from qimport.codegen.interface import Interface
from qimport.codegen.levels import levels_of
from qimport.compiler import trace
from qimport.emission import DEFAULT_KINDS, KINDS, Emission, check_folder, check_kinds

EXAMPLES = """\b
Examples:
  qimport build digits.tflite --target arm64-dotprod -o generated
  qimport build digits.tflite --emit lib,header,cmake --prefix ocr -o generated
  qimport build digits.tflite --emit obj,header,weights --weights separate
  qimport build digits.tflite --emit shared --numerics xnnpack
  qimport build digits.tflite --target x86-64 --dispatch
"""


@click.command("build", epilog=EXAMPLES)
@model_argument
@target_option
@click.option(
    "-o", "--output", metavar="DIR", default=".", show_default=True, help="Folder; made if missing."
)
@click.option(
    "--emit",
    "kinds",
    metavar="KIND,...",
    default=",".join(DEFAULT_KINDS),
    show_default=True,
    callback=lambda _context, _parameter, text: parse_names(text),
    help=f"Files to write: {', '.join(KINDS)}.",
)
@click.option(
    "--weights",
    type=click.Choice(("embed", "separate")),
    default="embed",
    show_default=True,
    help="In the code, or as a file of their own, whose content NAME_run takes a pointer to.",
)
@click.option(
    "--dispatch",
    is_flag=True,
    help="Put all usual levels of the processor family above the target into one object, which chooses at"
    " run-time. Each adds code and weights of its own.",
)
@click.option(
    "--dispatch-levels",
    metavar="T,...",
    default=None,
    callback=lambda _context, _parameter, text: () if text is None else parse_names(text),
    help="The same with these targets as levels.",
)
@click.option("--name", help="Name of the files (default: the model's).")
@click.option("--prefix", help="Begin of every C symbol (default: the name).")
@numerics_option
@threads_option
@shape_options
@json_option
def command(
    model: str,
    target: str,
    output: str,
    kinds: Sequence[str],
    weights: str,
    dispatch: bool,
    dispatch_levels: Sequence[str],
    name: str | None,
    prefix: str | None,
    numerics: str,
    threads: int,
    batch: int | None,
    shapes: Mapping[str, Sequence[int]],
    signature: str | None,
    as_json: bool,
) -> None:
    """Write an object file, its C header and an example program.

    NAME.o is position independent and calls nothing but memcpy, memmove and memset (for 32-bit ARM also
    helpers of the compiler's library); NAME.h documents the function NAME_run and every tensor;
    NAME_example.c is a complete program around it. With --threads there is NAME_run_parallel, too, which
    hands the work of heavy layers to the caller's threads. With --dispatch NAME_reset chooses the level; for
    arm64 it calls getauxval of the C library. Equal files, options and versions of qimport give equal bytes.

    Other kinds: lib is libNAME.a and shared libNAME.so, asm NAME.s and llvm NAME.ll, cmake NAMEConfig.cmake
    for find_package, weights NAME_weights.bin.
    """
    separate = weights == "separate"
    levels = levels_of(resolve_target(target), dispatch_levels) if dispatch or dispatch_levels else ()
    check_kinds(kinds, separate, dispatched=bool(levels))
    check_folder(output)
    stages = trace(
        model_source(model),
        target,
        numerics=numerics,
        batch=batch,
        shapes=shapes,
        threads=threads,
        signature=signature,
    )
    chosen = stages.options
    with working(f"compiling {model}") as progress:
        api = interface_of(
            name or stages.name,
            stages.inputs,
            stages.outputs,
            stages.plan,
            chosen.target,
            chosen.numerics,
            prefix,
            hashlib.sha256(stages.content).hexdigest(),
            levels,
        )
        emission = Emission(api, stages.plan, kinds, separate, progress, stages.without_code)
        found = footprint(emission.translation, stages.plan) if emission.has_object else None
        files = emission.write(output)
    if as_json:
        print_json(
            {
                "files": [{"path": str(file), "bytes": file.stat().st_size} for file in files],
                "target": chosen.target.name,
                "levels": [level.name for level in levels],
                "numerics": chosen.numerics,
                "arena_bytes": api.arena_bytes,
                "state_bytes": stages.plan.state_bytes,
                "threads": stages.plan.threads,
                "footprint": None if found is None else found.as_dict(),
            }
        )
        return
    for file in files:
        click.echo(f"{file}  {file.stat().st_size:,} bytes")
    _describe(api, found, threads)


def _describe(api: Interface, found: Footprint | None, threads: int) -> None:
    """What the object is for and what it takes."""
    names = " or ".join(level.name for level in api.levels or (api.target,))
    click.echo(f"target {names}, numerics {api.numerics}, arena {api.arena_bytes:,} bytes")
    if found is not None:
        click.echo(str(found))
    if api.threads < threads:
        text = f"no layer is worth being split, so there is no {api.prefix}_run_parallel"
        click.echo(f"threads {api.threads}: {text}")
