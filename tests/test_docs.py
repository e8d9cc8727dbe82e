"""The documents say what is there: generated pages are current, links and commands exist, examples run."""

from __future__ import annotations

import dataclasses
import importlib.util
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import qimport.lower  # noqa: F401  (registers the rules)
from qimport.benchmark import Benchmark, Timing
from qimport.cli.app import COMMANDS, app
from qimport.frontend.custom import CUSTOM_IMPORTERS
from qimport.frontend.ops import IMPORTERS
from qimport.ir.graph import OPERATIONS
from qimport.lower.rule import RULES
from qimport.profile import CallTime, KindTime
from qimport.qnn.base import QnnOperation
from tests.one_operator import GENERATORS, draw_model

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("models/*.md")])
QNN = {name: op for name, op in OPERATIONS.items() if issubclass(op, QnnOperation)}


def load_generator() -> ModuleType:
    """docs/generate.py, which lies outside of the package."""
    spec = importlib.util.spec_from_file_location("docs_generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


GENERATOR = load_generator()


def blocks(text: str, language: str) -> list[str]:
    """The fenced code blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def shell_lines() -> Iterator[list[str]]:
    """Every command of a ``sh`` block in the documents, split into words, without comments."""
    for document in DOCUMENTS:
        for block in blocks(document.read_text(), "sh"):
            for line in block.splitlines():
                words = shlex.split(line, comments=True)
                if words:
                    yield words


@pytest.mark.parametrize("page", sorted(GENERATOR.PAGES))
def test_generated_pages_are_current(page: str) -> None:
    written = (ROOT / "docs" / page).read_text(encoding="utf-8")
    assert written == GENERATOR.PAGES[page](), f"docs/{page} is out of date; run `make docs`"


def test_links_between_documents_lead_somewhere() -> None:
    broken = [
        f"{document.name}: {link}"
        for document in DOCUMENTS
        for link in re.findall(r"\]\(([^)#]+)\)", document.read_text())
        if not link.startswith("http") and not (document.parent / link).exists()
    ]
    assert not broken


def test_anchors_of_generated_pages_exist() -> None:
    for page in GENERATOR.PAGES:
        text = (ROOT / "docs" / page).read_text()
        headings = {GENERATOR.anchor(heading) for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE)}
        assert set(re.findall(r"\]\(#([^)]+)\)", text)) <= headings


def test_commands_of_the_documents_exist() -> None:
    lines = [words[1:] for words in shell_lines() if words[0] == "qimport"]
    assert lines
    for name, *arguments in lines:
        command = app.get_command(app.make_context("qimport", ["--help"], resilient_parsing=True), name)
        assert command is not None, f"qimport {name}"
        options = {option for parameter in command.params for option in parameter.opts}
        unknown = {word for word in arguments if word.startswith("--")} - options
        assert not unknown, f"qimport {name}: {unknown}"


def test_every_command_is_in_the_readme() -> None:
    shown = {words[1] for words in shell_lines() if words[0] == "qimport"}
    assert shown == set(COMMANDS)


def test_make_targets_of_the_documents_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([\w-]+):", makefile, re.MULTILINE))
    named = {words[1] for words in shell_lines() if words[0] == "make"}
    assert {"demo", "test"} <= named <= targets


def test_files_of_the_contributing_guide_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    paths = re.findall(r"`([\w./-]+/[\w./-]+\.(?:py|md|qir))`", text)
    assert paths
    missing = [path for path in paths if not (ROOT / path).exists()]
    assert not missing


def test_the_python_example_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = blocks((ROOT / "README.md").read_text(), "python")
    monkeypatch.chdir(ROOT)
    exec(compile(example, "README.md", "exec"), {})
    predicted, true = capsys.readouterr().out.split()
    assert predicted == true


def test_the_exit_codes_of_the_readme_are_those_of_the_help() -> None:
    table = re.findall(r"^\| (\d+) \|", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert app.help is not None
    assert re.findall(r"\b\d+\b", app.help) == table


IMPORTED_AT_ONCE = {"VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE", "CALL_ONCE", "WHERE"}
"""Operators that leave no operation: variables are values, positions of constants are constants."""


@pytest.mark.parametrize("builtin", sorted({*IMPORTERS} - IMPORTED_AT_ONCE))
def test_every_importer_has_an_operation(builtin: str) -> None:
    assert any(builtin in op.TFLITE for op in QNN.values()), f"no qnn operation lists {builtin} in TFLITE"


@pytest.fixture(scope="session")
def drawn() -> set[str]:
    """Names of the operations that random one-operator models import as."""
    models = [draw_model(name, seed) for name in GENERATORS for seed in range(2)]
    return {node.op.NAME for model in models for node in model.graph.nodes}


@pytest.fixture(scope="session")
def tests() -> str:
    """The text of every module of tests."""
    return "".join(path.read_text() for path in (ROOT / "tests").glob("test_*.py"))


@pytest.mark.parametrize("name", sorted(QNN))
def test_every_operation_is_complete(name: str, drawn: set[str], tests: str) -> None:
    op = QNN[name]
    missing = []
    if not op.TFLITE or not set(op.TFLITE) <= {*IMPORTERS, *CUSTOM_IMPORTERS}:
        missing.append(f"an importer in qimport/frontend/ops for one of {op.TFLITE}")
    if op not in RULES:
        missing.append("a lowering rule in qimport/lower")
    specification = "".join(cls.__doc__ or "" for cls in op.__mro__ if issubclass(cls, QnnOperation))
    if not re.search(r"\bC1\b", specification):
        missing.append("constraints C1, C2, ... in its docstring")
    if name not in drawn and not re.search(rf"\b{op.__name__}\b", tests):
        missing.append("a generator in tests/one_operator, or a test")
    assert not missing, f"{name} lacks {'; '.join(missing)}"


def test_every_measured_table_has_its_script() -> None:
    page = (ROOT / "docs" / "performance.md").read_text()
    begins, ends = (re.findall(rf"<!-- {word} (\w+) -->", page) for word in ("begin", "end"))
    scripts = {path.stem for path in (ROOT / "benchmarks").glob("*.py")} - {"common", "emulation", "report"}
    assert begins == ends
    assert set(begins) == scripts


def test_the_keys_of_measurements_are_documented() -> None:
    page = (ROOT / "docs" / "performance.md").read_text()
    table = page[page.index("## The JSON") :]
    documented = set(re.findall(r"`(\w+)`", table))
    records = (Benchmark, Timing, CallTime, KindTime)
    assert {field.name for record in records for field in dataclasses.fields(record)} <= documented
