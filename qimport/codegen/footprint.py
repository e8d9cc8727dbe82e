"""What a compiled model takes of a device: flash by kind of content, arena and stack."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any

from qimport.codegen import elf, wasm
from qimport.codegen.aot import Translation
from qimport.codegen.backend import assembly, emitted_text, linked_module
from qimport.codegen.stack import Stack, deepest, frames
from qimport.lower.plan import Plan

_CONTENT = re.compile(r'(?<=\] )c"[^"]*"')
"""Of an array of bytes in LLVM assembly."""


@dataclass(frozen=True)
class Footprint:
    """Bytes of flash and RAM.

    ``code`` are instructions, ``weights`` weights and biases as packed for the target, ``tables``
    multipliers, shifts and functions of codes, ``other`` everything else that is only read: constants of
    instructions, the initial state, descriptions. ``arena`` includes ``state``; ``stack`` is the most that a
    call takes, without the caller's own ``parallel_for`` and the C library's memcpy.
    """

    code: int
    weights: int
    tables: int
    other: int
    arena: int
    state: int
    stack: Stack

    @property
    def flash(self) -> int:
        """All that is only read."""
        return self.code + self.weights + self.tables + self.other

    @property
    def ram(self) -> int:
        """All that is written besides inputs and outputs."""
        return self.arena + self.stack.nbytes

    def __str__(self) -> str:
        state = f", of which {self.state:,} state" if self.state else ""
        return (
            f"flash {self.flash:,} bytes (code {self.code:,}, weights {self.weights:,}, tables"
            f" {self.tables:,}, other {self.other:,}), RAM {self.ram:,} bytes (arena {self.arena:,}{state},"
            f" stack {self.stack.nbytes:,})"
        )

    def as_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return asdict(self) | {"flash": self.flash, "ram": self.ram}


def footprint(translation: Translation, plan: Plan) -> Footprint:
    """Measure an object; the stack is that of the code in it, whose assembly is written once more."""
    api, programs = translation.api, [part.program for part in translation.levels or (translation,)]
    code, data = _code_and_data_bytes(translation)
    weights = sum(program.weight_bytes for program in programs)
    constants = sum(len(program.constants) for program in programs)
    inside = constants if api.weights is None else 0
    return Footprint(
        code=code,
        weights=weights,
        tables=constants - weights,
        other=max(data - inside, 0),
        arena=api.arena_bytes,
        state=plan.state_bytes,
        stack=stack_of(translation),
    )


def _code_and_data_bytes(translation: Translation) -> tuple[int, int]:
    """Of instructions, and of all else in an object that a program loads."""
    content = translation.object_code
    assert content is not None
    if translation.api.target.architecture.elf_machine is None:
        return wasm.code_and_data_bytes(content)
    code, *data = (
        sum(len(section.content) for section in elf.read_sections(content) if section.name.startswith(begin))
        for begin in (".text", ".rodata", ".data.rel.ro")
    )
    return code, sum(data)


def stack_of(translation: Translation) -> Stack:
    """The most stack that a call of one of the functions takes that a header declares."""
    api = translation.api
    text = "\n".join(map(_assembly_of, (*translation.levels, translation)))
    found = frames(text, api.target.triple)
    return max((deepest(found, name) for name in api.functions), key=lambda stack: stack.nbytes)


def _assembly_of(translation: Translation) -> str:
    """Of all modules, without the content of constants."""
    target, modules = translation.api.target, list(translation.program.modules)
    modules[-1] = _CONTENT.sub("zeroinitializer", modules[-1])
    if target.architecture.links_objects:
        return assembly(modules, target)
    return emitted_text(*linked_module(modules, target))
