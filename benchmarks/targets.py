"""The networks of bench/ for lesser targets and in the other numerics modes, beside XNNPACK at its best."""

from __future__ import annotations

from common import SECONDS, markdown, mean, milliseconds, networks

import qimport
from qimport.benchmark import contest
from qimport.codegen.host import why_not_runnable
from qimport.codegen.target import target_named
from qimport.oracle import random_inputs
from qimport.peers import Bound, Contestant, Peers

VARIANTS = [
    ("host", "reference"),
    ("host", "builtin"),
    ("host", "xnnpack"),
    ("x86-64-vnni", "reference"),
    ("x86-64-avxvnni", "reference"),
    ("x86-64-v3", "reference"),
    ("x86-64", "reference"),
]
"""Target and numerics mode of each column."""


def table() -> str:
    """Milliseconds, and the geometric means of XNNPACK / qimport."""
    variants = {
        f"{target}, {mode}": (target, mode)
        for target, mode in VARIANTS
        if target == "host" or why_not_runnable(target_named(target)) is None
    }
    rows: list[list[str]] = []
    ratios: dict[str, list[float]] = {name: [] for name in variants}
    with Peers(["tflite"]) as peers:
        for network, file in networks().items():
            contestants: dict[str, Contestant] = {}
            for name, (target, mode) in variants.items():
                model = qimport.compile(file, target, numerics=mode)
                inputs = random_inputs(model.inputs, 0)
                session = model.session(inputs)
                contestants[name] = Bound(session.run, session.outputs)
            contestants |= peers.contestants(file.read_bytes(), inputs)
            timings, _ = contest(contestants, None, seconds=2 * SECONDS)
            times = {timing.name: timing.minimum for timing in timings}
            rows.append([network, *map(milliseconds, times.values())])
            for name in variants:
                ratios[name].append(times["tflite"] / times[name])
    rows.append(["XNNPACK / qimport", *(mean(ratios[name]) for name in variants), ""])
    return markdown(["network", *variants, "XNNPACK"], rows)


if __name__ == "__main__":
    print(table())
