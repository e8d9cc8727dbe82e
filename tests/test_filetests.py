"""Runs tests/filetests/*.qir: each file is a graph whose leading comments say what to do with it.

::

    ; Free text.
    ; test: run                 a command and its arguments; each of several has its own expectations
    ; input: splat(3)           for run: data of the next graph input (default: fill(seed=<its number>))
    ; check: %y = prim.clamp    the output holds this text, behind that of the previous check
    ; expect:                   or: the output is exactly this
    ;   i8[4] dense[1, 2, 3, 4]

Commands are the entries of ``COMMANDS``. With QIMPORT_GOLDEN=1 in the environment the ``expect`` blocks are
rewritten with what came out instead of being compared.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import qimport.prim
import qimport.qnn  # noqa: F401  (registers the operations)
from qimport.errors import ParseError
from qimport.ir.graph import Graph
from qimport.ir.interpret import interpret
from qimport.ir.text import format_array, parse_array, parse_graph, print_graph, random_array
from qimport.numerics import X86_NUMERICS, Numerics

FILES = sorted(Path(__file__).with_name("filetests").glob("*.qir"))
GOLDEN = os.environ.get("QIMPORT_GOLDEN") == "1"


@dataclass
class Section:
    """One ``test:`` line and what belongs to it."""

    command: str
    arguments: list[str]
    inputs: list[str] = field(default_factory=list)
    checks: list[str] = field(default_factory=list)
    expected: list[str] | None = None


def split_header(text: str) -> tuple[list[str], str]:
    """The leading comment lines, and the rest."""
    lines = text.splitlines(keepends=True)
    count = next((i for i, line in enumerate(lines) if not line.startswith(";")), len(lines))
    return [line.rstrip("\n") for line in lines[:count]], "".join(lines[count:])


def read_sections(header: list[str]) -> list[Section]:
    """The sections of a header; lines before the first ``test:`` are free text."""
    sections: list[Section] = []
    for line in header:
        keyword, _, value = line.removeprefix(";").strip().partition(":")
        if keyword == "test":
            command, *arguments = value.split()
            sections.append(Section(command, arguments))
        elif not sections:
            continue
        elif keyword == "input":
            sections[-1].inputs.append(value.strip())
        elif keyword == "check":
            sections[-1].checks.append(value.strip())
        elif keyword == "expect":
            sections[-1].expected = []
        elif sections[-1].expected is not None:
            sections[-1].expected.append(line[4:])
    return sections


def as_numerics(section: Section) -> Numerics:
    """The mode given as the only argument; ``reference`` by default."""
    found = [mode for mode in X86_NUMERICS if section.arguments in ([mode], [])]
    assert found, f"{section.arguments} is no numerics mode"
    return found[0]


def cat(section: Section, text: str) -> str:
    return print_graph(parse_graph(text))


def error(section: Section, text: str) -> str:
    with pytest.raises(ParseError) as caught:
        parse_graph(text)
    return str(caught.value)


def run(section: Section, text: str) -> str:
    graph = parse_graph(text)
    arrays = [random_array(value.type, seed) for seed, value in enumerate(graph.inputs)]
    for number, data in enumerate(section.inputs):
        arrays[number] = parse_array(data, graph.inputs[number].type)
    results = interpret(graph, arrays, as_numerics(section))
    pairs = zip(graph.outputs, results, strict=True)
    return "\n".join(f"{value.type} {format_array(array, 128)}" for value, array in pairs)


def lower(section: Section, text: str) -> str:
    pipeline = importlib.import_module("qimport.lower.pipeline")
    lowered: Graph = pipeline.lower(parse_graph(text), as_numerics(section))
    return print_graph(lowered)


COMMANDS: dict[str, Callable[[Section, str], str]] = {"cat": cat, "error": error, "run": run, "lower": lower}


def assert_in_order(output: str, checks: list[str]) -> None:
    """Every text of ``checks`` occurs behind the previous one."""
    position = 0
    for check in checks:
        found = output.find(check, position)
        assert found >= 0, f"{check!r} is missing in\n{output[position:]}"
        position = found + len(check)


def rewrite(path: Path, outputs: list[str]) -> None:
    """Replace the ``expect`` blocks of a file, given the output of each of its sections."""
    header, rest = split_header(path.read_text(encoding="utf-8"))
    kept: list[str] = []
    remaining = iter(outputs)
    output, in_block = "", False
    for line in header:
        keyword = line.removeprefix(";").strip().partition(":")[0]
        in_block = in_block and (line == ";" or line.startswith(";   "))
        if keyword == "test":
            output = next(remaining)
        if not in_block:
            kept.append(line)
        if keyword == "expect":
            kept.extend(f";   {part}".rstrip() for part in output.rstrip().splitlines())
            in_block = True
    path.write_text("\n".join(kept) + "\n" + rest, encoding="utf-8")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_file(path: Path) -> None:
    header, text = split_header(path.read_text(encoding="utf-8"))
    sections = read_sections(header)
    assert sections, "no test line"
    outputs = [COMMANDS[section.command](section, text) for section in sections]
    if GOLDEN:
        rewrite(path, outputs)
        return
    for section, output in zip(sections, outputs, strict=True):
        assert section.checks or section.expected is not None, f"{section.command} expects nothing"
        assert_in_order(output, section.checks)
        if section.expected is not None:
            assert output.rstrip().splitlines() == section.expected


def test_rewriting_changes_only_expectations(tmp_path: Path) -> None:
    path = tmp_path / "x.qir"
    path.write_text(
        "; why\n; test: cat\n; expect:\n;   old\n;\n;   older\n; test: run\n; check: i8\n\ngraph\n"
    )
    rewrite(path, ["new\n", "other"])
    assert path.read_text() == "; why\n; test: cat\n; expect:\n;   new\n; test: run\n; check: i8\n\ngraph\n"
