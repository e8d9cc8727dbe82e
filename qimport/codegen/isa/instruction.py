"""What all families of instructions have: a name, and the targets that know them."""

from __future__ import annotations

from dataclasses import dataclass

from qimport.codegen.target import Target


@dataclass(frozen=True)
class Instruction:
    """One instruction or a few; ``requires``: features of the ``architecture`` (all of them)."""

    name: str
    architecture: str
    requires: tuple[str, ...]

    def available(self, target: Target) -> bool:
        """Whether the target has it."""
        return target.architecture.name == self.architecture and target.has(*self.requires)
