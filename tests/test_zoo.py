"""Real files: in every numerics mode all outputs are the interpreter's, over successive invocations.

Large files are invoked once, unless QIMPORT_ZOO_INVOCATIONS says how often, and in one mode, unless
QIMPORT_ZOO_MODES=all; which one depends on the file, so that each mode has its share of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import qimport
from qimport.errors import QimportError
from qimport.ir.graph import Array
from qimport.numerics import Numerics
from qimport.oracle import Oracle, OracleRefused, random_inputs
from tests.single_op import expect_same
from tests.zoo_list import LARGE, REFUSED, UNTRUSTED

Record = Callable[[str, object], None]
Expected = tuple[list[list[Array]], list[list[Array]]]

INVOCATIONS = os.environ.get("QIMPORT_ZOO_INVOCATIONS")


@pytest.mark.slow
def test_a_real_file(zoo_model: Path, numerics: Numerics, oracle: Oracle, record_property: Record) -> None:
    """What the interpreter runs must match, or be on the list of refusals; nothing may crash."""
    listed = zoo_model.stem in (REFUSED | UNTRUSTED)
    usual = 1 if zoo_model.stem in LARGE else 3
    expected = None if listed else ask(oracle, zoo_model, numerics, usual)
    record_property("zoo", f"{numerics}: {check(zoo_model, numerics, expected)}")


def check(file: Path, numerics: Numerics, expected: Expected | None) -> str:
    """What became of a file, in a few words."""
    name = file.stem
    if name in REFUSED:
        with pytest.raises(QimportError, match=REFUSED[name]):
            qimport.compile(file, numerics=numerics)
        return "refused by name"
    if expected is None:
        try:
            qimport.compile(file, numerics=numerics)
        except QimportError:
            return "refused by both"
        return "compiled though the interpreter does not run it"
    compare(file, numerics, expected)
    return "exact"


@pytest.mark.slow
def test_a_benchmark_network(bench_model: Path, numerics: Numerics, oracle: Oracle) -> None:
    expected = ask(oracle, bench_model, numerics, 1)
    assert expected is not None
    compare(bench_model, numerics, expected)


def ask(oracle: Oracle, file: Path, numerics: Numerics, usual: int) -> Expected | None:
    """Random inputs and the interpreter's outputs of each invocation; None where it refuses."""
    count = int(INVOCATIONS or usual)
    try:
        details, _ = oracle.details(file, mode=numerics)
        sequence = [random_inputs(details, seed) for seed in range(count)]
        return sequence, oracle.run_sequence(file, sequence, numerics)
    except OracleRefused:
        return None


def compare(file: Path, numerics: Numerics, expected: Expected) -> None:
    """Fail at the first output that differs."""
    sequence, wanted = expected
    session = qimport.compile(file, numerics=numerics).session()
    for number, inputs in enumerate(sequence):
        found = session.call(inputs)
        for index, (ours, theirs) in enumerate(zip(found, wanted[number], strict=True)):
            expect_same(ours, theirs, f"{file.name}, {numerics}, invocation {number}, output {index}")


def test_few_files_are_refused(zoo: Path) -> None:
    """A list of refusals that grows is no list of exceptions."""
    assert len(REFUSED) + len(UNTRUSTED) <= 8
    present = {path.stem for folder in ("zoo", "bench") for path in (zoo / folder).glob("*.tflite")}
    assert {*REFUSED, *UNTRUSTED, *LARGE} <= present
