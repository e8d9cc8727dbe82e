"""Assembly of single kernels, and what their innermost loops are made of."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kernel_harness import KernelModule

from qimport.codegen import backend
from qimport.codegen.host import resolve_target
from qimport.codegen.table import MAC_ROWS, Row
from qimport.lower.kernel import Kernel

JUMP = re.compile(r"(?:j[a-z]+|b|b\.[a-z]+|cbn?z|tbn?z)\s(?:.*\s)?(\.L\w+)$")
LABEL = re.compile(r"^(\.L\w+):")
STACK = re.compile(r"\(%rsp\)|\[sp(\]|, #)")
"""A fixed place on the stack: arrays that kernels keep there are addressed with an index."""
VECTOR = re.compile(r"%[xyz]mm\d|\b[qv]\d+\b|%k\d")


@dataclass(frozen=True)
class Loop:
    """The instructions of a loop that holds no other loop, as text without labels and comments."""

    lines: tuple[str, ...]

    def matching(self, pattern: str) -> list[str]:
        """The instructions in which ``pattern`` is found."""
        return [line for line in self.lines if re.search(pattern, line)]

    def count(self, pattern: str) -> int:
        """How many there are."""
        return len(self.matching(pattern))

    @property
    def on_stack(self) -> list[str]:
        """Vectors and masks that go to the stack or come from there."""
        return [line for line in self.lines if STACK.search(line) and VECTOR.search(line)]

    @property
    def spills(self) -> list[str]:
        """Those that go there: values of the loop for which there is no register, not only constants."""
        return [line for line in self.on_stack if line.endswith(")") or line.startswith(("str", "stp"))]

    @property
    def length(self) -> int:
        """How many instructions there are, but for hints to the caches."""
        return len(self.lines) - self.count(r"^(prefetch|prfm)")

    def __str__(self) -> str:
        return "\n".join(self.lines)


def row_named(name: str) -> Row:
    """A row of the table."""
    return next(row for row in MAC_ROWS if row.name == name)


def assembly(kernel: Kernel, target: str, row: Row | None = None) -> str:
    """The code of one kernel, in a row or in the one that is chosen for it."""
    module = KernelModule(resolve_target(target))
    module.add(kernel, row)
    return backend.assembly(str(module.module), module.target)


def innermost_loops(text: str) -> list[Loop]:
    """Every stretch from a label to the last jump back to it without another such stretch inside."""
    lines = [re.split(r"(?:^|\s)#(?:\s|[A-Z])", line)[0].strip() for line in text.splitlines()]
    lines = [line for line in lines if line and not line.startswith("//")]
    spans = list(_spans(lines))
    inner = [
        (first, last)
        for first, last in spans
        if not any(first <= a and b <= last for a, b in spans if (a, b) != (first, last))
    ]
    return [Loop(tuple(filter(_is_instruction, lines[first : last + 1]))) for first, last in inner]


def _spans(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Positions of labels and of the last jump back to each."""
    labels = {found[1]: number for number, line in enumerate(lines) if (found := LABEL.match(line))}
    ends: dict[int, int] = {}
    for number, line in enumerate(lines):
        jump = JUMP.match(line)
        if jump and labels.get(jump[1], number + 1) <= number:
            ends[labels[jump[1]]] = number
    return iter(ends.items())


def _is_instruction(line: str) -> bool:
    return not line.startswith(".") and not line.endswith(":")


def hottest(text: str, pattern: str) -> Loop:
    """The innermost loop with most instructions of a kind."""
    return max(innermost_loops(text), key=lambda loop: loop.count(pattern))
