"""Random models of one operator, compiled, against the interpreter in every numerics mode.

QIMPORT_FUZZ sets how many models each generator draws; QIMPORT_FUZZ_FIRST is the first seed.
"""

from __future__ import annotations

import os

import pytest

import qimport
from qimport.errors import UnsupportedError
from qimport.numerics import Numerics
from qimport.oracle import Oracle, OracleRefused
from tests.one_operator import GENERATORS, OneOperator, draw_model
from tests.single_op import expect_close, expect_same

FIRST = int(os.environ.get("QIMPORT_FUZZ_FIRST", "0"))
MODELS = int(os.environ.get("QIMPORT_FUZZ", "1"))


@pytest.mark.parametrize("name", sorted(GENERATORS))
@pytest.mark.parametrize("seed", range(FIRST, FIRST + MODELS))
def test_one_operator(name: str, seed: int, oracle: Oracle) -> None:
    model = draw_model(name, seed)
    ran = [compare(model, mode, oracle, f"{name} {seed}") for mode in model.modes]
    assert any(ran), f"{name} {seed} runs in no mode"


def compare(model: OneOperator, mode: Numerics, oracle: Oracle, label: str) -> bool:
    """Compare all invocations; False where the interpreter refuses. Only a mode may refuse these models."""
    try:
        expected = oracle.run_sequence(model.file, model.invocations, mode)
    except OracleRefused:
        expected = None
    try:
        compiled = qimport.compile(model.file, numerics=mode)
    except UnsupportedError as error:
        if expected is not None:
            pytest.fail(f"{label} in {mode}: {model.text}: {error}")
        return False
    session, bound = compiled.session(), model.bound(mode)
    for number, inputs in enumerate(model.invocations):
        found = session.call(inputs)
        for index, array in enumerate(found if expected is not None else ()):
            assert expected is not None
            what = f"{label}, invocation {number}, output {index} of {model.text} in {mode}"
            if bound and array.dtype.kind in "fc":
                expect_close(array, expected[number][index], bound, what)
            else:
                expect_same(array, expected[number][index], what)
    return expected is not None
