"""Models of one operator on other processors: the bytes are those of this machine.

Usually a few run on a 32-bit target. With QIMPORT_TARGETS (names of targets with commas between them, or
``all``; ``make test-targets``) every generator's first model runs on each of them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from emulator import PLATFORMS
from operator_programs import Calls, run_models

import qimport
from qimport.compiler import trace
from qimport.errors import UnsupportedError
from qimport.numerics import Numerics
from tests.one_operator import GENERATORS, draw_model

CHOSEN = os.environ.get("QIMPORT_TARGETS", "")
"""Targets that run everything."""

TOGETHER = 40
"""Models in one program."""

MODE: Numerics = "reference"


def cases() -> list[tuple[str, list[str]]]:
    """Targets and names of generators whose models are one program."""
    if not CHOSEN:
        return [("armv7", sorted(GENERATORS)[::25])]
    targets = (
        list(PLATFORMS) if CHOSEN == "all" else [name for name in CHOSEN.split(",") if name in PLATFORMS]
    )
    names = sorted(GENERATORS)
    parts = [names[start : start + TOGETHER] for start in range(0, len(names), TOGETHER)]
    return [(target, part) for target in targets for part in parts]


@pytest.mark.parametrize(
    ("target", "names"), cases(), ids=lambda value: value if isinstance(value, str) else value[0]
)
def test_operators_on_a_target(target: str, names: Sequence[str], tmp_path: Path) -> None:
    PLATFORMS[target].skip_if_missing()
    models, expected, ran = [], [], []
    for name in names:
        model = draw_model(name, 0)
        try:
            session = qimport.compile(model.file, numerics=MODE).session()
        except UnsupportedError:
            continue  # the mode has no bytes to equal
        expected.append([[np.array(array) for array in session.call(inputs)] for inputs in model.invocations])
        models.append(Calls(trace(model.file, target, numerics=MODE), model.invocations))
        ran.append(name)
    found = run_models(PLATFORMS[target], models, tmp_path)
    assert [name for name, *pair in zip(ran, found, expected, strict=True) if differ(pair)] == []


def differ(pair: Sequence[Sequence[Sequence[np.ndarray]]]) -> bool:
    """Whether two series of results differ."""
    mine, theirs = ([array.tobytes() for call in calls for array in call] for calls in pair)
    return mine != theirs
