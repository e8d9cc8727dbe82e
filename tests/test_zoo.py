"""Real files: every output byte of every numerics mode is the interpreter's.

QIMPORT_ZOO_SEEDS is the number of random inputs per file and mode, 1 by default.
"""

from __future__ import annotations

import csv
import os
from pathlib import Path

import pytest
from zoo_list import EXACT, OPERATORS, REFUSED

import qimport
from qimport.errors import ModelError
from qimport.ir.graph import NUMERICS
from qimport.oracle import Oracle, OracleRefused
from qimport.verify import verify_model

SEEDS = range(int(os.environ.get("QIMPORT_ZOO_SEEDS", "1")))


def assert_exact(file: Path, oracle: Oracle) -> None:
    for numerics in NUMERICS:
        report = verify_model(file, oracle, numerics=numerics, seeds=SEEDS)
        differing = [item for item in report.comparisons if item.differing]
        assert not differing, f"{file.name}, {numerics}: {differing[0]}"
        assert report.elements > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", EXACT)
def test_a_real_file_gives_the_bytes_of_the_interpreter(name: str, zoo: Path, oracle: Oracle) -> None:
    assert_exact(zoo / "zoo" / f"{name}.tflite", oracle)


@pytest.mark.slow
def test_a_benchmark_network_gives_the_bytes_of_the_interpreter(bench_model: Path, oracle: Oracle) -> None:
    assert_exact(bench_model, oracle)


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_file_is_refused_by_the_interpreter_as_well(name: str, zoo: Path, oracle: Oracle) -> None:
    file = zoo / "zoo" / f"{name}.tflite"
    with pytest.raises(ModelError, match=REFUSED[name]):
        qimport.compile(file)
    with pytest.raises(OracleRefused):
        oracle.details(file)


def test_the_list_is_complete(zoo: Path) -> None:
    with (zoo / "INDEX.tsv").open(newline="") as index:
        rows = list(csv.DictReader(index, delimiter="\t"))
    found = {
        Path(row["file"]).stem
        for row in rows
        if row["class"] != "bad-input"
        and row["kind"].startswith(("int8", "uint8"))
        and {item.strip().rpartition(":")[0] for item in row["ops"].split(",")} <= OPERATORS
    }
    assert found == {*EXACT, *REFUSED}
    assert len(EXACT) >= 60
