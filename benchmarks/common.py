"""What the scripts share: where networks are, how tables are written, what machine this is."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from qimport.benchmark import Benchmark, cpu_name, geometric_mean
from qimport.codegen.host import host_target

NETWORKS = {
    "mobilenet_v1": "MobileNet V1 1.0 224",
    "mobilenet_v2": "MobileNet V2 1.0 224",
    "mobilenet_v3": "MobileNet V3-small",
    "efficientnet": "EfficientNet-B0",
    "inception": "Inception V3",
    "resnet50": "ResNet-50",
}
"""How file names in bench/ begin -> what the tables call them."""

SECONDS = 4.0
"""How long one network is timed."""


def zoo() -> Path:
    """The folder that ``QIMPORT_ZOO`` names, with bench/ and zoo/ in it."""
    named = os.environ.get("QIMPORT_ZOO")
    if not named:
        raise SystemExit("QIMPORT_ZOO is unset: it names the folder that holds bench/ and zoo/")
    return Path(named)


def networks() -> dict[str, Path]:
    """Name -> file of the networks of bench/, in the order of :data:`NETWORKS`."""
    files = sorted(zoo().glob("bench/*.tflite"))
    return {name: file for begin, name in NETWORKS.items() for file in files if file.stem.startswith(begin)}


def markdown(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def machine() -> str:
    """One line about the processor."""
    return f"{cpu_name()} ({os.cpu_count()} CPUs) with {' '.join(sorted(host_target().features))}"


def milliseconds(seconds: float) -> str:
    """Three figures or so."""
    return f"{seconds * 1e3:.2f}"


def shortest(result: Benchmark, name: str) -> float:
    """The shortest call of a contestant in seconds."""
    return next(timing.minimum for timing in result.timings if timing.name == name)


def mean(ratios: Sequence[float]) -> str:
    """The geometric mean as a cell."""
    return f"**{geometric_mean(ratios):.2f}**"
