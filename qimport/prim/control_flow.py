"""prim.if and prim.while: graphs inside a node, see :mod:`qimport.ir.control`."""

from __future__ import annotations

from dataclasses import dataclass

from qimport.ir.control import Branch, Loop
from qimport.ir.graph import operation


@operation
@dataclass(frozen=True)
class If(Branch):
    """Run one of two graphs on the same operands. The condition is the first operand.

    - C1: there are two bodies, and the condition is one bool.
    - C2: the inputs of each body have the types of the operands behind the condition.
    - C3: the outputs of each body have the types of the results.
    """

    NAME = "prim.if"


@operation
@dataclass(frozen=True)
class While(Loop):
    """Run a graph on its own results for as long as the condition's graph gives True.

    - C1: there are two bodies, and the condition has one output, a single bool.
    - C2: operands, results, inputs of both bodies and outputs of the second one have the same types.
    """

    NAME = "prim.while"
