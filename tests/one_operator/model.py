"""What a generator of one-operator models gives, and the table of all generators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from qimport.frontend.importer import import_model
from qimport.frontend.schema import read_model
from qimport.ir.graph import Array, Graph
from qimport.numerics import X86_NUMERICS, Numerics
from qimport.qnn.base import QnnOperation
from tests.cases import Draw, OperatorCase


@dataclass(frozen=True)
class OneOperator:
    """A file with one operator, and the inputs of successive invocations; state carries over between them.

    ``modes`` are those in which the interpreter's results mean anything.
    """

    file: bytes
    invocations: tuple[list[Array], ...]
    text: str
    modes: tuple[Numerics, ...] = X86_NUMERICS

    @classmethod
    def of(cls, case: OperatorCase) -> OneOperator:
        """The file and inputs of a case."""
        return cls(case.file(), (case.inputs,), str(case))

    @cached_property
    def graph(self) -> Graph:
        """The imported graph; raises :class:`UnsupportedError` with every reason."""
        return import_model(read_model(self.file)).graph

    def bound(self, mode: Numerics) -> int:
        """How far floats may be from the interpreter's in units of the last place, as the operations say."""
        nodes = [(node.op, node.call(mode)) for node in self.graph.nodes]
        return max((op.ulp_bound(call) for op, call in nodes if isinstance(op, QnnOperation)), default=0)


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
