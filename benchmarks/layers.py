"""Where the time of two networks goes: by kind of kernel, and the longest calls beside their peak."""

from __future__ import annotations

from common import markdown, networks

from qimport.compiler import trace
from qimport.oracle import random_inputs
from qimport.profile import CallTime, KindTime, by_kind, profile

SHOWN = ("ResNet-50", "MobileNet V1 1.0 224")
LONGEST = 12
ROUNDS = 50


def table() -> str:
    """Two tables per network."""
    parts = []
    for network in SHOWN:
        compilation = trace(networks()[network])
        times = profile(compilation, random_inputs(compilation.inputs, 0), ROUNDS)
        whole = sum(item.seconds for item in times)
        kinds = [[item.kind, item.calls, *_cells(item, whole)] for item in by_kind(times)]
        calls = [
            [item.kernel, item.row, *_cells(item, whole), _percent(item.fraction_of_peak)]
            for item in sorted(times, key=lambda item: -item.seconds)[:LONGEST]
        ]
        parts += [
            f"{network}, {whole * 1e3:.2f} ms in {len(times)} calls; by kind, then the longest {LONGEST}:",
            markdown(["kind", "calls", "us", "share", "GMAC/s"], kinds),
            markdown(["kernel", "row", "us", "share", "GMAC/s", "of peak"], calls),
        ]
    return "\n\n".join(parts)


def _cells(item: CallTime | KindTime, whole: float) -> list[str]:
    """Microseconds, share of the whole, GMAC/s."""
    rate = f"{item.macs / item.seconds / 1e9:.0f}" if item.macs else ""
    return [f"{item.seconds * 1e6:.0f}", _percent(item.seconds / whole), rate]


def _percent(part: float | None) -> str:
    return "" if part is None else f"{part:.0%}"


if __name__ == "__main__":
    print(table())
