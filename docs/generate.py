"""Writes the pages of docs/ that are made from the code: `make docs`, or `python docs/generate.py`."""

from __future__ import annotations

import inspect
import itertools
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from qimport.codegen.target import ARCHITECTURES, MEMORY_FUNCTIONS, target_descriptions, target_named
from qimport.errors import UnsupportedError
from qimport.frontend.custom import CUSTOM_IMPORTERS
from qimport.frontend.ops import IMPORTERS
from qimport.frontend.schema import read_model
from qimport.ir.graph import OPERATIONS
from qimport.lower.supported import require_supported
from qimport.numerics import MODES, Numerics
from qimport.qnn.base import QnnOperation

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent))
from tests.emulator import PLATFORMS  # noqa: E402
from tests.one_operator import GENERATORS, OneOperator, draw_model  # noqa: E402

NOTE = "<!-- Made by docs/generate.py; change the code and run `make docs`. -->"

OPERATORS_HEAD = """# Supported operators

Each operator of TensorFlow Lite that qimport compiles, with the operator versions it accepts and the
operations of the qnn dialect it imports as; then [the types](#types) of its operands and results. An operator
outside its constraints is refused by `qimport check` with the reason.

The specifications below are the docstrings of the operations. C1, C2, ... are the constraints the verifier
checks; `reference`, `builtin` and `xnnpack` are the numerics modes. Where the XNNPACK delegate does not take
a use, its bytes in mode `xnnpack` are those of `builtin`.

`builtin-arm64` and `xnnpack-arm64` are the same configurations of the interpreter's build for 64-bit ARM, on
cores with dot products (measured on a Neoverse-N1). Where a specification does not name them they compute as
`builtin` and `xnnpack`. `xnnpack-arm64-little` is a Cortex-A53; a Cortex-A55 differs from it where
activations are floats and weights are integers. Cores without dot products equal `builtin-arm64` unless
weights and activations of -128 (uint8: 0) meet in pairs, whose products overflow there; in `xnnpack-arm64`
that happens to the int8 weights of a Cortex-A72. There is no mode for the reference kernels on ARM: they give
the bytes of `reference`, but for rare rounding of RESIZE_BILINEAR uint8, of EXP, LOG and GELU int16 and of
LSTM projections, for numbers beyond int32 that become integers, and for hybrid FULLY_CONNECTED.
"""

TYPES_HEAD = """## Types

Element types of operands and results, as the random models of `tests/one_operator` draw them and compare
them with the interpreter in each numerics mode: `exact` is every byte, a number is the largest distance of
floats in units of the last place, `refused` that the mode has no bytes to equal or, in the ARM modes, that
they are not known. A dash is an operand left out.
"""

HELPERS_HEAD = f"""## What objects need

An object leaves to the linker at most {", ".join(f"`{name}`" for name in sorted(MEMORY_FUNCTIONS))},
which every C library has, and the helpers of this table. Those are functions of the Run-time ABI for the Arm
Architecture, which every compiler brings along (libgcc, compiler-rt): division, conversions between floats
and 64-bit integers, arithmetic on float64 where the processor has none; and `sqrt` of the C library. They are
exact, so the outputs stay the same. Modules of WebAssembly import `__stack_pointer`, which linkers bring.
"""

TABLE_MODES: tuple[Numerics, ...] = tuple(name for name, mode in MODES.items() if not mode.little)
"""Modes with a column of their own."""

SEEDS = range(40)
"""Random models of each generator that the table of types is made from."""

TARGETS_HEAD = """# Targets

`qimport build MODEL --target T` takes a name of the first table, or `host` for this machine. Features of the
second table may be added: `x86-64-v3+avxvnni`. `qimport targets` also says what this machine can run.

The target never changes the bytes of the outputs.
"""


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def qnn_operations() -> dict[str, type[QnnOperation]]:
    """Every qnn operation by name, sorted."""
    found = {name: op for name, op in OPERATIONS.items() if issubclass(op, QnnOperation)}
    return dict(sorted(found.items()))


def supported_operators() -> str:
    """docs/supported-ops.md."""
    operations = qnn_operations()
    rows = []
    spans = {builtin: span(registration.versions) for builtin, registration in sorted(IMPORTERS.items())}
    for name, versions in (spans | dict.fromkeys(CUSTOM_IMPORTERS, "custom")).items():
        found = [anchored for anchored, op in operations.items() if name in op.TFLITE]
        links = ", ".join(f"[`{anchored}`](#{anchor(anchored)})" for anchored in found)
        rows.append((f"`{name}`", versions, links or "a constant, or what a state of the graph holds"))
    parts = [NOTE, OPERATORS_HEAD, table(("operator", "versions", "imports as"), rows)]
    parts += [TYPES_HEAD, table(("operator", "operands", "results", *TABLE_MODES), combinations())]
    parts += [specification(name, op) for name, op in operations.items()]
    shared = {base.__name__: base for op in operations.values() for base in bases(op)}
    parts.append("## Common parts")
    parts += [f"### {name}\n\n{quoted(base)}" for name, base in sorted(shared.items())]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def span(versions: range) -> str:
    """The first and last version."""
    return str(versions[0]) if len(versions) == 1 else f"{versions[0]} to {versions[-1]}"


def combinations() -> list[tuple[str, ...]]:
    """Operator, types and what each mode makes of them, for every combination that the generators draw."""
    found: dict[tuple[str, str, str], dict[Numerics, str]] = {}
    for name in sorted(GENERATORS):
        for seed in SEEDS:
            model = draw_model(name, seed)
            types = signature(model.file)
            verdicts = found.setdefault(types, {})
            for mode in TABLE_MODES:
                if verdicts.get(mode, REFUSED) == REFUSED:
                    verdicts[mode] = verdict(model, mode)
    return [(f"`{name}`", *types, *verdicts.values()) for (name, *types), verdicts in sorted(found.items())]


def signature(file: bytes) -> tuple[str, str, str]:
    """Name of the last operator of the main graph, element types of its operands and of its results."""
    graph = read_model(file).subgraphs[0]
    operator = graph.operators[-1]

    def types(indices: Sequence[int]) -> str:
        names = ["-" if index == -1 else graph.tensors[index].dtype for index in indices]
        runs = [(name, len(list(run))) for name, run in itertools.groupby(names)]
        return " ".join(name if count == 1 else f"{count} x {name}" for name, count in runs) or "none"

    return operator.label, types(operator.inputs), types(operator.outputs)


REFUSED = "refused"


def verdict(model: OneOperator, mode: Numerics) -> str:
    """What a mode makes of a model."""
    try:
        require_supported(model.graph, mode)
    except UnsupportedError:
        return REFUSED
    bound = model.bound(mode)
    return f"{bound} ULP" if bound else "exact"


def specification(name: str, op: type[QnnOperation]) -> str:
    """The section of one operation: its docstring, what it builds on, and which uses the delegate takes."""
    parts = [f"## {name}", f"Imports {', '.join(f'`{builtin}`' for builtin in op.TFLITE)}.", quoted(op)]
    if built_on := [f"[{base.__name__}](#{anchor(base.__name__)})" for base in bases(op)]:
        parts.append(f"Common parts: {', '.join(built_on)}.")
    if op.xnnpack_takes is QnnOperation.xnnpack_takes:
        parts.append("The delegate takes no use of it.")
    else:
        parts.append(f"The delegate takes:\n\n{quoted(op.xnnpack_takes)}")
    return "\n\n".join(parts)


def quoted(documented: object) -> str:
    """A docstring as a code block, without reStructuredText roles and literal marks."""
    text = re.sub(r":\w+:`~?([^`]+)`", r"\1", inspect.getdoc(documented) or "").replace("``", "")
    return f"```text\n{text}\n```"


def bases(op: type[QnnOperation]) -> list[type]:
    """The classes between an operation and :class:`QnnOperation`, nearest first."""
    own = op.__mro__[1:]
    return [base for base in own if issubclass(base, QnnOperation) and base is not QnnOperation]


def anchor(heading: str) -> str:
    """The link target that Markdown renderers give a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


RUN_BY = {"wasm32": "wasmtime"}
"""What runs targets whose programs no processor runs."""


def targets() -> str:
    """docs/targets.md."""
    rows = []
    for name, description in target_descriptions().items():
        target = target_named(name)
        features = " ".join(sorted(target.features)) or "none"
        platform = PLATFORMS.get(name)
        tested = (
            f"{platform.core} of {platform.emulator}" if platform else RUN_BY.get(name, "the machine itself")
        )
        rows.append((f"`{name}`", description, target.triple, features, tested))
    architectures = [
        (
            f"`{architecture.name}`",
            " ".join((architecture.cpu, *architecture.base)),
            str(8 * architecture.pointer_bytes),
            architecture.float_abi,
            f"{architecture.stack_bytes >> 10} KiB",
        )
        for architecture in ARCHITECTURES.values()
    ]
    features = [
        (
            f"`{feature.name}`",
            architecture.name,
            " ".join(feature.llvm),
            " ".join(feature.implies) or "nothing",
        )
        for architecture in ARCHITECTURES.values()
        for feature in architecture.features
    ]
    parts = [
        NOTE,
        TARGETS_HEAD,
        table(("target", "", "triple", "features", "tested on"), rows),
        "## Architectures",
        table(("architecture", "LLVM processor", "address bits", "float ABI", "stack"), architectures),
        "`stack` is the largest stack frame of a function.",
        HELPERS_HEAD,
        table(("architecture", "helpers"), helpers()),
        "## Features",
        table(("feature", "architecture", "LLVM names", "implies"), features),
    ]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def helpers() -> list[tuple[str, str]]:
    """The architectures that need the same helpers, and these."""
    found: dict[frozenset[str], list[str]] = {}
    for architecture in ARCHITECTURES.values():
        if architecture.helpers:
            found.setdefault(architecture.helpers, []).append(f"`{architecture.name}`")
    return [
        (", ".join(owners), " ".join(f"`{name}`" for name in sorted(names)))
        for names, owners in found.items()
    ]


PAGES = {"supported-ops.md": supported_operators, "targets.md": targets}
"""File name -> what writes it."""


def main() -> None:
    """Write every page."""
    for name, write in PAGES.items():
        (FOLDER / name).write_text(write(), encoding="utf-8")
        print(f"docs/{name}")


if __name__ == "__main__":
    main()
