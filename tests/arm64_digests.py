"""Writes tests/arm64_digests.json: what the interpreter for 64-bit ARM gives, so that tests need no emulator.

Run it as ``QIMPORT_ARM64_PYTHON=... python tests/arm64_digests.py`` (see tests/arm64_python.sh). Of every
generator of one-operator models it keeps the first whose bytes differ from those of the same kernels on
x86-64, as far as the mode is able to compile it.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from qimport.errors import UnsupportedError  # noqa: E402
from qimport.ir.graph import Array  # noqa: E402
from qimport.lower.supported import require_supported  # noqa: E402
from qimport.numerics import ARM64_NUMERICS, MODES, Numerics  # noqa: E402
from qimport.oracle import Oracle, OracleRefused, random_inputs  # noqa: E402
from tests.one_operator import GENERATORS, OneOperator, draw_model  # noqa: E402

FILE = ROOT / "tests" / "arm64_digests.json"

SEEDS = range(4)
"""Of random inputs of a network, and of one-operator models."""

DIGITS = 16
"""Of a digest: enough to tell that bytes changed."""


def digest(invocations: Iterable[Sequence[Array]]) -> str:
    """Of all outputs of successive invocations."""
    total = hashlib.sha256()
    for outputs in invocations:
        for array in outputs:
            total.update(array.tobytes())
    return total.hexdigest()[:DIGITS]


def networks(oracle: Oracle) -> dict[str, dict[str, str]]:
    """Mode -> digest, for each of the project's models."""
    found: dict[str, dict[str, str]] = {}
    for file in sorted((ROOT / "models").glob("*.tflite")):
        details, _ = oracle.details(file)
        sequence = [random_inputs(details, seed) for seed in SEEDS]
        found[file.stem] = {
            mode: digest(oracle.run_sequence(file, sequence, mode)) for mode in ARM64_NUMERICS
        }
    return found


def operators(oracle: Oracle) -> dict[str, dict[str, tuple[int, str]]]:
    """Mode -> seed and digest, for each generator whose models differ."""
    found: dict[str, dict[str, tuple[int, str]]] = {}
    for name in sorted(GENERATORS):
        for seed in SEEDS:
            model = draw_model(name, seed)
            for mode in ARM64_NUMERICS:
                wanted = differing(oracle, model, mode)
                if wanted is not None and mode not in found.get(name, {}):
                    found.setdefault(name, {})[mode] = (seed, wanted)
    return found


def differing(oracle: Oracle, model: OneOperator, mode: Numerics) -> str | None:
    """The digest on ARM, if it differs and we claim to give it."""
    family = MODES[mode].family
    if family not in model.modes:
        return None
    try:
        require_supported(model.graph, mode)
        here, there = (digest(oracle.run_sequence(model.file, model.invocations, m)) for m in (family, mode))
    except (OracleRefused, UnsupportedError):
        return None
    return None if here == there or model.bound(mode) else there


def main() -> None:
    """Ask both interpreters and write the file."""
    with Oracle() as oracle:
        content = {"networks": networks(oracle), "operators": operators(oracle)}
    FILE.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    print(f"{FILE.relative_to(ROOT)}: {', '.join(f'{len(part)} {name}' for name, part in content.items())}")


if __name__ == "__main__":
    main()
