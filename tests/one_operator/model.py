"""What a generator of one-operator models gives, and the table of all generators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from qimport.ir.graph import NUMERICS, Array, Numerics
from tests.cases import Draw, OperatorCase


@dataclass(frozen=True)
class OneOperator:
    """A file with one operator, and the inputs of successive invocations; state carries over between them.

    ``bound`` is the largest distance from the interpreter's floats in units of the last place, 0 = bytes;
    ``bounds`` are those of modes that differ. ``modes`` are those in which the interpreter's results mean
    anything.
    """

    file: bytes
    invocations: tuple[list[Array], ...]
    text: str
    bound: int = 0
    modes: tuple[Numerics, ...] = NUMERICS
    bounds: Mapping[Numerics, int] = field(default_factory=dict)

    @classmethod
    def of(cls, case: OperatorCase) -> OneOperator:
        """The file and inputs of a case."""
        return cls(case.file(), (case.inputs,), str(case))


Generator = Callable[[Draw], OneOperator]

GENERATORS: dict[str, Generator] = {}
"""Every generator by name: the operator, and the variant where there are several."""


def generator(name: str) -> Callable[[Generator], Generator]:
    """Enter a function into :data:`GENERATORS`."""

    def register(function: Generator) -> Generator:
        if name in GENERATORS:
            raise ValueError(f"two generators are named {name}")
        GENERATORS[name] = function
        return function

    return register


def draw_model(name: str, seed: int) -> OneOperator:
    """The model of a generator and a seed."""
    return GENERATORS[name](Draw.of(seed))
