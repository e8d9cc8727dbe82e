"""Fixtures, markers and skips shared by all tests. Every skip says what is missing."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from qimport.oracle import Oracle, OracleUnavailable
from tests.zoo_list import modes_of

ROOT = Path(__file__).resolve().parents[1]
NO_ZOO = "QIMPORT_ZOO is unset: it names the folder that holds zoo/ and bench/"

# Compiled code of an earlier run must not hide a change.
os.environ["QIMPORT_CACHE"] = "0"

# Times vary too much on a shared machine for a deadline per example.
hypothesis.settings.register_profile("project", deadline=None, print_blob=True)
hypothesis.settings.load_profile("project")


def zoo_folder() -> Path | None:
    """The model zoo, or None where QIMPORT_ZOO is unset; a wrong path is an error, not a skip."""
    named = os.environ.get("QIMPORT_ZOO")
    if not named:
        return None
    folder = Path(named)
    if not (folder / "zoo").is_dir():
        raise pytest.UsageError(f"QIMPORT_ZOO={named} holds no folder zoo/")
    return folder


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test with an argument ``zoo_model`` or ``bench_model`` once per file of zoo/ or bench/.

    With another argument ``numerics``, once per file and mode in which it is tested.
    """
    for argument, subfolder in (("zoo_model", "zoo"), ("bench_model", "bench")):
        if argument not in metafunc.fixturenames:
            continue
        folder = zoo_folder()
        if folder is None:
            skipped = pytest.param(None, marks=pytest.mark.skip(reason=NO_ZOO), id="no-zoo")
            metafunc.parametrize(argument, [skipped])
            if "numerics" in metafunc.fixturenames:
                metafunc.parametrize("numerics", ["any"])
        else:
            files = sorted((folder / subfolder).glob("*.tflite"))
            if "numerics" in metafunc.fixturenames:
                pairs = [(file, mode) for file in files for mode in modes_of(file.stem)]
                names = [f"{file.stem}-{mode}" for file, mode in pairs]
                metafunc.parametrize((argument, "numerics"), pairs, ids=names)
            else:
                metafunc.parametrize(argument, files, ids=[file.stem for file in files])


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test whose marker ``needs(program, ...)`` names a program that is not installed."""
    wanted = [program for marker in item.iter_markers("needs") for program in marker.args]
    missing = [program for program in wanted if shutil.which(program) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")


SUMMARIES = {"zoo": "model zoo", "target": "networks on targets"}
"""Property that tests record -> heading under which its values are counted."""


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Count what became of networks."""
    reports = [report for kind in ("passed", "failed") for report in terminalreporter.getreports(kind)]
    for property_, heading in SUMMARIES.items():
        found = Counter(
            str(value)
            for report in reports
            if isinstance(report, pytest.TestReport) and report.when == "call"
            for name, value in report.user_properties
            if name == property_
        )
        if found:
            terminalreporter.section(heading)
            for outcome, count in sorted(found.items()):
                terminalreporter.line(f"{outcome}: {count} files")


@pytest.fixture(scope="session")
def oracle() -> Iterator[Oracle]:
    """The TFLite interpreter; another release than the supported one is an error, its absence a skip."""
    with Oracle() as running:
        try:
            _ = running.version
        except OracleUnavailable as error:
            pytest.skip(str(error))
        yield running


@pytest.fixture(scope="session")
def zoo() -> Path:
    """The folder that holds zoo/ and bench/."""
    folder = zoo_folder()
    if folder is None:
        pytest.skip(NO_ZOO)
    return folder


@pytest.fixture(scope="session")
def models() -> Path:
    """The project's own models."""
    return ROOT / "models"
