"""Compiled models timed beside other run-times, in turns, on the same inputs.

Times on a shared machine drift by a factor of two, so only ratios taken in one run mean anything: in every
round each contestant has a turn of a few successive calls, the first of which is not timed. A neighbour can
only slow things down, so the shortest call is the figure; the median says how quiet it was.
"""

from __future__ import annotations

import math
import platform
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from qimport.arrays import Array
from qimport.cache import user_cache
from qimport.codegen.target import Target
from qimport.compiler import Progress, trace
from qimport.model import CompiledModel
from qimport.oracle import OracleError, random_inputs
from qimport.peers import Bound, Contestant, PeerRefused, Peers
from qimport.profile import CallTime, by_kind, profile
from qimport.source import ModelSource
from qimport.verify import compare

OURS = "qimport"

TURN_SECONDS, FEWEST_CALLS, MOST_CALLS = 0.01, 3, 200
"""About how long a turn lasts, and how many calls it has at least and at most."""

PROFILED_CALLS = 30
"""Runs of the program in which every kernel call is timed."""


@dataclass(frozen=True)
class Timing:
    """Times of one contestant in seconds; where it cannot run the model, ``error`` says why.

    ``differing`` counts the elements of all outputs whose bytes are not those of the interpreter in the
    numerics mode of the model; None where they were not compared.
    """

    name: str
    minimum: float = math.nan
    median: float = math.nan
    calls: int = 0
    differing: int | None = None
    error: str | None = None


@dataclass(frozen=True)
class Benchmark:
    """One model: what was measured, and how."""

    model: str
    target: str
    features: tuple[str, ...]
    numerics: str
    threads: int
    rounds: int
    compile_seconds: float
    arena_bytes: int
    output_elements: int
    timings: tuple[Timing, ...]
    layers: tuple[CallTime, ...] = field(default=())

    @property
    def ours(self) -> Timing:
        """The compiled model."""
        return self.timings[0]

    @property
    def exact(self) -> bool:
        """Whether no byte of our outputs is known to be wrong."""
        return not self.ours.differing

    def ratio(self, peer: str) -> float:
        """How many times the shortest call of ``peer`` takes as long as ours; NaN where it does not run."""
        found = [timing.minimum for timing in self.timings if timing.name == peer]
        return found[0] / self.ours.minimum if found else math.nan

    def as_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON; docs/performance.md describes the keys."""
        timings = [
            asdict(timing)
            | {
                "ratio": timing.minimum / self.ours.minimum,
                "median_ratio": timing.median / self.ours.median,
            }
            for timing in self.timings
        ]
        layers = [
            asdict(layer) | {"kind": layer.kind, "fraction_of_peak": layer.fraction_of_peak}
            for layer in self.layers
        ]
        kinds = [asdict(kind) for kind in by_kind(self.layers)]
        return asdict(self) | {"timings": timings, "layers": layers, "kinds": kinds, "exact": self.exact}


def measure(
    model: ModelSource,
    peers: Peers,
    *,
    target: str | Target = "host",
    numerics: str = "reference",
    batch: int | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    rounds: int | None = None,
    seconds: float = 3.0,
    verify: bool = True,
    per_layer: bool = False,
    progress: Progress | None = None,
) -> Benchmark:
    """Compile ``model`` for the threads of ``peers``, compare its bytes once, then time all contestants.

    Args:
        model: a path, or the content of a .tflite file.
        peers: who is timed beside it.
        target: as in :func:`qimport.compile`, like ``numerics``, ``batch`` and ``shapes``.
        rounds: how many turns each contestant has; by default as many as ``seconds`` allow, at least three.
        verify: compare outputs with the interpreter's in the numerics mode before anything is timed.
        per_layer: also time every kernel call.
        progress: as in :func:`qimport.compile`.

    Raises:
        OracleError: the outputs cannot be compared.
        QimportError: as :func:`qimport.compile`.
    """
    started = time.perf_counter()
    compilation = trace(model, target, numerics=numerics, batch=batch, shapes=shapes, threads=peers.threads)
    compiled = CompiledModel(compilation.artefact(user_cache(), progress))
    compile_seconds = time.perf_counter() - started
    content, inputs = bytes(compilation.content), random_inputs(compiled.inputs, 0)
    session = compiled.session(inputs)
    contestants: dict[str, Contestant] = {OURS: Bound(session.run, session.outputs)}
    contestants |= peers.contestants(content, inputs)
    resize = {position: array.shape for position, array in enumerate(inputs)}
    wanted = peers.oracle.run(content, inputs, compiled.numerics, resize=resize).outputs if verify else None
    timings, done = contest(contestants, wanted, rounds, seconds)
    layers = profile(compilation, inputs, PROFILED_CALLS) if per_layer else []
    return Benchmark(
        model=compiled.name,
        target=compiled.target.name,
        features=tuple(sorted(compiled.target.features)),
        numerics=compiled.numerics,
        threads=peers.threads,
        rounds=done,
        compile_seconds=compile_seconds,
        arena_bytes=compiled.arena_bytes,
        output_elements=sum(array.size for array in session.outputs),
        timings=timings,
        layers=tuple(layers),
    )


def contest(
    contestants: Mapping[str, Contestant],
    wanted: Sequence[Array] | None,
    rounds: int | None = None,
    seconds: float = 3.0,
) -> tuple[tuple[Timing, ...], int]:
    """Time contestants in turns; also how many rounds there were.

    Who refuses the model, now or in a later turn, has an error instead of times; the first is ours and must
    not.
    """
    errors: dict[str, str] = {}
    differing: dict[str, int | None] = {}
    calls: dict[str, int] = {}
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for name, contestant in contestants.items():
        try:
            differing[name] = _differing(contestant.first(), wanted)
            shortest = min(contestant.turn(FEWEST_CALLS))
            calls[name] = min(max(int(TURN_SECONDS / max(shortest, 1e-9)), FEWEST_CALLS), MOST_CALLS)
        except (OracleError, PeerRefused) as error:
            errors[name] = str(error)
    end, done = time.perf_counter() + seconds, 0
    while done < rounds if rounds is not None else done < 3 or time.perf_counter() < end:
        for name in calls:
            if name in errors:
                continue
            try:
                times[name] += contestants[name].turn(calls[name])
            except (OracleError, PeerRefused) as error:
                errors[name] = str(error)
        done += 1
    timings = (
        Timing(name, error=errors[name])
        if name in errors
        else Timing(name, min(found), statistics.median(found), len(found), differing[name])
        for name, found in times.items()
    )
    return tuple(timings), done


def _differing(found: Sequence[Array], wanted: Sequence[Array] | None) -> int | None:
    """How many elements differ as bytes; None where there is nothing to compare with."""
    if wanted is None:
        return None
    if len(found) != len(wanted):
        return sum(array.size for array in wanted)
    return sum(compare(0, "", *pair).differing for pair in zip(found, wanted, strict=True))


def geometric_mean(ratios: Sequence[float]) -> float:
    """The mean that fits ratios, of those that are numbers; NaN where none is."""
    known = [math.log(ratio) for ratio in ratios if ratio > 0]
    return math.exp(math.fsum(known) / len(known)) if known else math.nan


def cpu_name() -> str:
    """What the processor calls itself."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
