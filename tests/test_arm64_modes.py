"""The modes of 64-bit ARM: bytes of that interpreter, computed by code for this machine.

``tests/arm64_digests.json`` holds what the interpreter gave; where QIMPORT_ARM64_PYTHON names a Python for
that machine (``tests/arm64_python.sh`` makes one), it is asked again.
"""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
from arm64_digests import FILE, ROOT, SEEDS, digest

import qimport
from qimport.ir.interpret import interpret
from qimport.lower.pipeline import lower
from qimport.numerics import ARM64_NUMERICS, MODES, Numerics, without_delegate
from qimport.oracle import ARM64_PYTHON, Oracle, OracleUnavailable, random_inputs
from tests.one_operator import draw_model

DIGESTS = json.loads(FILE.read_text(encoding="utf-8"))

OPERATORS = [(name, mode) for name, modes in DIGESTS["operators"].items() for mode in modes]


@pytest.mark.parametrize("numerics", ARM64_NUMERICS)
@pytest.mark.parametrize("name", sorted(DIGESTS["networks"]))
def test_networks_give_the_recorded_bytes(name: str, numerics: Numerics) -> None:
    model = qimport.compile(ROOT / "models" / f"{name}.tflite", numerics=numerics)
    found = [model.run(random_inputs(model.inputs, seed)) for seed in SEEDS]
    assert digest(found) == DIGESTS["networks"][name][numerics]


@pytest.mark.parametrize(("name", "numerics"), OPERATORS)
def test_operators_give_the_recorded_bytes(name: str, numerics: Numerics) -> None:
    """Specification, primitives and code; of a model with state only the code."""
    seed, wanted = DIGESTS["operators"][name][numerics]
    model = draw_model(name, seed)
    session = qimport.compile(model.file, numerics=numerics).session()
    found = [[array.copy() for array in session.call(inputs)] for inputs in model.invocations]
    assert digest(found) == wanted, model.text
    if not model.graph.states:
        for graph in (model.graph, lower(model.graph, numerics)):
            assert digest(interpret(graph, inputs, numerics) for inputs in model.invocations) == wanted


@pytest.mark.skipif(ARM64_PYTHON not in os.environ, reason=f"{ARM64_PYTHON} is unset")
@pytest.mark.parametrize("numerics", ARM64_NUMERICS)
def test_the_recorded_bytes_are_the_interpreters(numerics: Numerics, oracle: Oracle) -> None:
    for name, wanted in DIGESTS["networks"].items():
        file = ROOT / "models" / f"{name}.tflite"
        details, _ = oracle.details(file)
        sequence = [random_inputs(details, seed) for seed in SEEDS]
        assert digest(oracle.run_sequence(file, sequence, numerics)) == wanted[numerics]


def test_without_a_python_for_arm_the_oracle_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ARM64_PYTHON, raising=False)
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    file = ROOT / "models" / "digits_uint8.tflite"
    with Oracle() as oracle, pytest.raises(OracleUnavailable, match=ARM64_PYTHON):
        oracle.run(file, [np.zeros((1, 8, 8, 1), np.uint8)], "xnnpack-arm64")


def test_what_the_delegate_leaves_runs_on_the_same_machine() -> None:
    for numerics in ARM64_NUMERICS:
        assert without_delegate(numerics, "builtin") == "builtin-arm64"
        assert without_delegate(numerics, MODES[numerics].family) == numerics
    assert without_delegate("xnnpack", "builtin") == "builtin"
