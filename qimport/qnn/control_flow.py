"""qnn.if and qnn.while: graphs inside a node, see :mod:`qimport.ir.control`."""

from __future__ import annotations

from dataclasses import dataclass

from qimport.ir.control import Branch, Loop
from qimport.ir.graph import operation
from qimport.qnn.base import QnnOperation


@operation
@dataclass(frozen=True)
class If(Branch, QnnOperation):
    """IF: run one of two subgraphs on the same operands.

    Operands: condition, then those of the subgraphs. Only the chosen subgraph runs.

    - C1: there are two bodies, and the condition is one bool.
    - C2: the inputs of each body have the types of the operands behind the condition.
    - C3: the outputs of each body have the types of the results.
    """

    NAME = "qnn.if"
    TFLITE = ("IF",)


@operation
@dataclass(frozen=True)
class While(Loop, QnnOperation):
    """WHILE: run a subgraph on its own results for as long as the condition's subgraph gives True.

    - C1: there are two bodies, and the condition has one output, a single bool.
    - C2: operands, results, inputs of both bodies and outputs of the second one have the same types.
    """

    NAME = "qnn.while"
    TFLITE = ("WHILE",)
