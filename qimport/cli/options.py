"""Arguments that several commands take, and how their text becomes values."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import click

from qimport.numerics import NUMERICS

Function = TypeVar("Function", bound=Callable[..., Any])


def parse_shape(text: str) -> tuple[str, tuple[int, ...]]:
    """``NAME=1,224,224,3`` as (name, sizes); the name may itself hold ``=``."""
    name, _, sizes = text.rpartition("=")
    try:
        shape = tuple(int(size) for size in sizes.split(",")) if sizes else ()
    except ValueError:
        name = ""
    if not name:
        raise click.BadParameter(f"{text!r} is no shape; expected for example image=1,224,224,3")
    return name, shape


def parse_names(text: str) -> tuple[str, ...]:
    """``tflite,openvino`` as names."""
    return tuple(name.strip() for name in text.split(","))


def parse_peers(text: str) -> tuple[str, ...]:
    """As :func:`parse_names`, and ``none`` as no name."""
    return () if text == "none" else parse_names(text)


class Amount(click.FloatRange):
    """A finite number of a range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number in ``value``."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is no finite number.", param, ctx)
        return float(number)


model_argument = click.argument("model", metavar="MODEL")
"""A .tflite file, ``-`` for stdin."""

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")

target_option = click.option(
    "--target", default="host", metavar="T", show_default=True, help="See `qimport targets`."
)

threads_option = click.option(
    "--threads",
    type=int,
    default=1,
    metavar="N",
    show_default=True,
    help="How many threads a call may use; the bytes stay the same.",
)

numerics_option = click.option(
    "--numerics",
    type=click.Choice(NUMERICS),
    default="reference",
    show_default=True,
    help="Whose bytes: the interpreter's reference kernels, its builtin kernels, or its default, XNNPACK;"
    " the latter two also as they are on 64-bit ARM, little for Cortex-A53 and A55.",
)


def shape_options(function: Function) -> Function:
    """``--batch``, ``--shape`` and ``--signature``, as the arguments of the importer."""
    batch = click.option(
        "--batch", type=int, metavar="N", help="Size of open leading dimensions (default 1)."
    )
    shape = click.option(
        "--shape",
        "shapes",
        metavar="NAME=N,N,...",
        type=parse_shape,
        multiple=True,
        callback=lambda _context, _parameter, pairs: dict(pairs),
        help="Whole shape of an input; may be repeated.",
    )
    signature = click.option("--signature", metavar="KEY", help="Take the subgraph of this signature.")
    return batch(shape(signature(function)))
