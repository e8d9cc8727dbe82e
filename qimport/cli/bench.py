"""``qimport bench``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import click

from qimport.benchmark import OURS, Benchmark, Timing, cpu_name, geometric_mean, measure
from qimport.cli.failures import describe, say
from qimport.cli.files import model_source
from qimport.cli.options import (
    Amount,
    json_option,
    numerics_option,
    parse_peers,
    shape_options,
    target_option,
    threads_option,
)
from qimport.cli.progress import working
from qimport.cli.text import print_json, print_table, shorten
from qimport.errors import ArgumentError, QimportError
from qimport.peers import PEERS, Peers
from qimport.profile import CallTime, by_kind

DIFFERENT = 1

MICROSECONDS, MILLISECONDS, GIGA = 1e6, 1e3, 1e-9


@click.command("bench")
@click.argument("models", metavar="MODEL...", nargs=-1, required=True)
@click.option(
    "--vs",
    "peers",
    default="tflite",
    show_default=True,
    callback=lambda _context, _parameter, text: parse_peers(text),
    metavar="NAME,...",
    help=f"Peers: {', '.join(PEERS)}; or none.",
)
@threads_option
@numerics_option
@target_option
@click.option("--rounds", type=click.IntRange(1), metavar="N", help="Turns of each contestant.")
@click.option(
    "--seconds",
    type=Amount(0, min_open=True),
    default=3.0,
    metavar="S",
    show_default=True,
    help="Without --rounds: how long a model is timed.",
)
@click.option("--per-layer", is_flag=True, help="Also time every kernel call.")
@click.option(
    "--verify/--no-verify",
    default=True,
    show_default=True,
    help="First compare outputs with the interpreter's.",
)
@shape_options
@json_option
def command(
    models: tuple[str, ...],
    peers: tuple[str, ...],
    threads: int,
    numerics: str,
    target: str,
    rounds: int | None,
    seconds: float,
    per_layer: bool,
    verify: bool,
    batch: int | None,
    shapes: Mapping[str, Sequence[int]],
    signature: str | None,
    as_json: bool,
) -> int:
    """Time models beside other run-times.

    Contestants take turns on the same random inputs; the shortest call of each is compared, because a
    neighbour on the machine can only slow things down. Ratios above 1 mean that the peer takes longer.
    Exits with 1 if an output differs from the interpreter's in the numerics mode.
    """
    if signature is not None:
        raise ArgumentError("signatures are not timed; leave --signature out")
    found: list[Benchmark] = []
    code = 0
    with Peers(peers, threads) as running:
        if verify:
            _ = running.oracle.version  # a missing interpreter is told before anything is compiled
        for model in models:
            try:
                with working(f"timing {model}") as progress:
                    result = measure(
                        model_source(model),
                        running,
                        target=target,
                        numerics=numerics,
                        batch=batch,
                        shapes=shapes,
                        rounds=rounds,
                        seconds=seconds,
                        verify=verify,
                        per_layer=per_layer,
                        progress=progress,
                    )
            except (QimportError, OSError, MemoryError) as error:
                code = max(code, _failure(error))
                continue
            code = max(code, 0 if result.exact else DIFFERENT)
            found.append(result)
    if as_json:
        print_json(_as_dict(found, running))
    elif found:
        _print_results(found, running)
    return code


def _failure(error: BaseException) -> int:
    """Tell it and return its exit code; a bug of ours is raised again."""
    described = describe(error)
    if described is None:
        raise error
    say(described[1])
    return described[0]


def _as_dict(found: Sequence[Benchmark], peers: Peers) -> dict[str, Any]:
    return {
        "cpu": cpu_name(),
        "peers": peers.versions,
        "models": [result.as_dict() for result in found],
        "geometric_means": _means(found, peers.names),
    }


def _means(found: Sequence[Benchmark], names: Sequence[str]) -> dict[str, float]:
    """Geometric means of peer / qimport; ``best`` takes the fastest peer of every model."""
    ratios = {name: [result.ratio(name) for result in found] for name in names}
    if len(names) > 1:
        every = zip(*ratios.values(), strict=True)
        ratios["best"] = [min((r for r in row if not math.isnan(r)), default=math.nan) for row in every]
    return {name: geometric_mean(values) for name, values in ratios.items()}


def _print_results(found: Sequence[Benchmark], peers: Peers) -> None:
    first = found[0]
    threads = f"{first.threads} thread{'s' if first.threads > 1 else ''}"
    click.echo(f"{cpu_name()}; code for {first.target}: {' '.join(first.features) or 'baseline'}")
    click.echo(f"numerics {first.numerics}, {threads}, {first.rounds} rounds")
    for name, version in peers.versions.items():
        click.echo(f"{name}: {PEERS[name]} ({version})")
    click.echo()
    rows = [
        (shorten(result.model) if timing.name == OURS else "", *_row(result, timing))
        for result in found
        for timing in result.timings
    ]
    columns = ("model", "contestant", "min ms", "median ms", "ratio", "outputs")
    print_table(columns, rows, right=columns[2:5])
    if len(found) > 1 and peers.names:
        means = ", ".join(f"{name} {mean:.2f}" for name, mean in _means(found, peers.names).items())
        click.echo(f"\ngeometric mean of peer / qimport: {means}")
    for result in found:
        if result.layers:
            click.echo(f"\n{result.model}, every kernel call")
            _print_layers(result.layers)


def _row(result: Benchmark, timing: Timing) -> tuple[object, ...]:
    if timing.error is not None:
        return timing.name, "-", "-", "-", shorten(timing.error, 100)
    ratio = "" if timing.name == OURS else f"{timing.minimum / result.ours.minimum:.2f}"
    times = (f"{value * MILLISECONDS:.3f}" for value in (timing.minimum, timing.median))
    return timing.name, *times, ratio, _outputs(timing, result.output_elements)


def _outputs(timing: Timing, elements: int) -> str:
    if timing.differing is None:
        return "not compared"
    return f"{timing.differing:,} of {elements:,} differ" if timing.differing else "equal"


def _print_layers(layers: Sequence[CallTime]) -> None:
    whole = sum(layer.seconds for layer in layers)
    rows = [
        (
            number,
            f"{layer.seconds * MICROSECONDS:.1f}",
            f"{layer.seconds / whole:.1%}",
            _rate(layer.macs, layer.seconds),
            "" if layer.fraction_of_peak is None else f"{layer.fraction_of_peak:.0%}",
            _rate(layer.bytes_moved, layer.seconds),
            layer.row,
            layer.kernel,
        )
        for number, layer in enumerate(layers)
    ]
    columns = ("#", "us", "share", "GMAC/s", "of peak", "GB/s", "row", "kernel")
    print_table(columns, rows, right=columns[:-2])
    click.echo()
    sums = [
        (
            kind.calls,
            f"{kind.seconds * MICROSECONDS:.1f}",
            f"{kind.seconds / whole:.1%}",
            _rate(kind.macs, kind.seconds),
            _rate(kind.bytes_moved, kind.seconds),
            kind.kind,
        )
        for kind in by_kind(layers)
    ]
    heads = ("calls", "us", "share", "GMAC/s", "GB/s", "kind")
    print_table(heads, sums, right=heads[:-1])
    peaks = {layer.row: layer.peak for layer in layers if layer.peak}
    for row, peak in sorted(peaks.items()):
        click.echo(f"peak of {row}: {peak * GIGA:,.0f} GMAC/s")


def _rate(amount: int, seconds: float) -> str:
    """Thousands of millions per second."""
    return f"{amount / seconds * GIGA:.1f}" if amount and seconds else ""
