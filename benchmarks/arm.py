"""Instructions per inference on AArch64 beside XNNPACK's, under the same emulator; code size."""

from __future__ import annotations

import tempfile
from pathlib import Path

from common import NETWORKS, markdown, mean, networks
from emulation import CORES, NAME, count_interpreter, count_model, emulator_version, section_bytes

import qimport
from qimport.oracle import random_inputs
from qimport.version import INTERPRETER_VERSION

SHOWN = [
    NETWORKS[begin] for begin in ("mobilenet_v1", "mobilenet_v2", "mobilenet_v3", "efficientnet", "resnet50")
]


def table() -> str:
    """A table per core: million instructions, ratios to XNNPACK, kilobytes."""
    return "\n\n".join(f"{_title(core)}:\n\n{_core_table(core)}" for core in CORES)


def tools() -> str:
    """What counted, and whose instructions."""
    return f"with {emulator_version()}, ai-edge-litert {INTERPRETER_VERSION}"


def _title(core: str) -> str:
    return f"`{CORES[core].target}` on {core}"


def _core_table(core: str) -> str:
    modes = ("reference", CORES[core].numerics)
    rows = []
    ratios: dict[str, list[float]] = {mode: [] for mode in modes}
    for network in SHOWN:
        file = networks()[network]
        inputs = random_inputs(qimport.compile(file).inputs, 0)
        peer, wanted = count_interpreter(file, core, inputs)
        cells = [network, millions(peer)]
        for mode in modes:
            with tempfile.TemporaryDirectory() as folder:
                ours = count_model(file, core, mode, inputs, Path(folder))
                sizes = section_bytes(Path(folder) / f"{NAME}.o")
            ratios[mode].append(ours.instructions / peer)
            cells += [millions(ours.instructions), f"{ratios[mode][-1]:.2f}"]
        cells.append("equal" if ours.output == wanted else "DIFFER")
        rows.append([*cells, *(f"{size / 1e3:,.0f}" for size in sizes)])
    means = [cell for mode in modes for cell in ("", mean(ratios[mode]))]
    rows.append(["geometric mean", "", *means, "", "", ""])
    heads = [cell for mode in modes for cell in (f"`{mode}`", "of XNNPACK's")]
    return markdown(["network", "XNNPACK", *heads, "our outputs", "code, kB", "constants, kB"], rows)


def millions(count: int) -> str:
    """Three figures."""
    return f"{count / 1e6:.0f}" if count >= 1e8 else f"{count / 1e6:.1f}"


if __name__ == "__main__":
    print(table())
