"""What may import what, how long files and functions may be: ARCHITECTURE.md as a test."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "qimport"
SOURCES = sorted(path.relative_to(ROOT) for path in PACKAGE.rglob("*.py"))

LONGEST_FILE = 500
LONGEST_FUNCTION = 80
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX)\b")

# Layer -> layers it may import, by the longest matching prefix of the module's name below qimport.
# A layer always may import itself and errors. A module without a row may import everything but cli.
ARROWS: dict[str, set[str]] = {
    "errors": set(),
    "elements": set(),
    "fixedpoint": set(),
    "numerics": set(),
    "summation": set(),
    "fourier": set(),
    "overlap": set(),
    "real": {"summation"},
    "worker": set(),
    "oracle": {"numerics", "version", "worker"},
    "oracle_worker": {"oracle", "worker"},
    "openvino_worker": {"worker"},
    "ir": {"numerics"},
    "qnn": {"ir", "numerics", "fixedpoint", "elements", "overlap", "real", "summation", "fourier"},
    "prim": {"ir", "numerics", "fixedpoint", "elements", "overlap", "real", "summation", "fourier"},
    "frontend": {"ir", "numerics", "qnn", "elements", "fixedpoint", "fourier"},
    "lower": {"ir", "numerics", "qnn", "prim", "fixedpoint", "elements", "real", "summation", "fourier"},
    # Of lower only what the plan is made of.
    "codegen": {
        "ir",
        "numerics",
        "prim",
        "fixedpoint",
        "elements",
        "real",
        "summation",
        "version",
        "lower.plan",
        "lower.kernel",
    },
}

# Package of others -> the only modules that may import it.
GATES: dict[str, tuple[str, ...]] = {
    "tflite": ("frontend.schema",),
    "flatbuffers": ("frontend.schema",),
    "llvmlite": ("codegen",),
    "ai_edge_litert": ("oracle_worker",),
    "openvino": ("openvino_worker",),
}


def module_name(source: Path) -> str:
    """``qimport/ir/graph.py`` -> ``ir.graph``, ``qimport/__init__.py`` -> the empty string."""
    parts = source.with_suffix("").parts[1:]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def within(module: str, layer: str) -> bool:
    """Whether ``module`` is ``layer`` or lies in it."""
    return module == layer or module.startswith(f"{layer}.")


def imports(source: Path, tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and absolute name of every imported module; ``from package import module`` names the module."""
    package = ".".join(source.parts[:-1])
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(source.parts) - node.level] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                path = ROOT / inner.replace(".", "/")
                yield node.lineno, inner if path.is_dir() or path.with_suffix(".py").is_file() else base


def forbidden(importer: str, imported: str) -> str | None:
    """Why module ``importer`` must not import ``imported``, or None."""
    top, _, inner = imported.partition(".")
    if top in GATES:
        gates = GATES[top]
        return None if any(within(importer, gate) for gate in gates) else f"only for {', '.join(gates)}"
    if top != "qimport":
        return None
    if within(inner, "cli"):
        may = importer == "__main__" or within(importer, "cli")
        return None if may else "nothing imports the command line"
    layer = importer.partition(".")[0]
    if layer not in ARROWS:
        return None
    if any(within(inner, name) for name in {*ARROWS[layer], layer, "errors"}):
        return None
    return f"{layer} may import only {', '.join(sorted(ARROWS[layer])) or 'errors'}"


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """All functions and methods, also inner ones."""
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


@pytest.fixture(params=SOURCES, ids=str)
def source(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


def test_imports_follow_the_arrows(source: Path) -> None:
    tree = ast.parse((ROOT / source).read_text())
    module = module_name(source)
    wrong = [
        f"{source}:{line} imports {name}: {reason}"
        for line, name in imports(source, tree)
        if (reason := forbidden(module, name))
    ]
    assert not wrong, "\n".join(wrong)


def test_files_and_functions_stay_small(source: Path) -> None:
    text = (ROOT / source).read_text()
    assert len(text.splitlines()) <= LONGEST_FILE, f"{source} has more than {LONGEST_FILE} lines"
    lengths = {node.name: (node.end_lineno or 0) - node.lineno + 1 for node in functions(ast.parse(text))}
    long = {name: length for name, length in lengths.items() if length > LONGEST_FUNCTION}
    assert not long, f"{source}: functions of more than {LONGEST_FUNCTION} lines: {long}"


def test_nothing_is_left_unfinished(source: Path) -> None:
    lines = enumerate((ROOT / source).read_text().splitlines(), 1)
    marked = [f"{source}:{number}: {line.strip()}" for number, line in lines if UNFINISHED.search(line)]
    assert not marked, "\n".join(marked)


@pytest.mark.parametrize(
    ("importer", "imported", "allowed"),
    [
        ("ir.graph", "qimport.errors", True),
        ("ir.graph", "qimport.qnn.base", False),
        ("ir.graph", "qimport.fixedpoint", False),
        ("qnn.base", "qimport.lower.rule", False),
        ("lower.plan", "qimport.codegen.jit", False),
        ("lower.plan", "qimport.frontend.importer", False),
        ("codegen.jit", "qimport.lower.plan", True),
        ("codegen.jit", "qimport.lower.fuse", False),
        ("codegen.table", "qimport.lower.kernel", True),
        ("codegen.isa.dot", "qimport.fixedpoint", True),
        ("codegen.jit", "llvmlite.binding", True),
        ("frontend.importer", "tflite", False),
        ("frontend.schema", "flatbuffers", True),
        ("fixedpoint", "qimport.ir.types", False),
        ("compile", "qimport.codegen.jit", True),
        ("compile", "qimport.cli", False),
        ("", "llvmlite", False),
    ],
)
def test_the_rules_themselves(importer: str, imported: str, allowed: bool) -> None:
    assert (forbidden(importer, imported) is None) == allowed


def test_there_is_something_to_check() -> None:
    assert Path("qimport/errors.py") in SOURCES
    assert {module_name(source).partition(".")[0] for source in SOURCES} >= set(ARROWS)
