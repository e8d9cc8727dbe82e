"""Graphs in static single assignment form: values, nodes, operations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from qimport.errors import VerifyError
from qimport.ir.types import TensorType
from qimport.numerics import MODES, Mode, Numerics

Array = npt.NDArray[np.generic]


@dataclass(frozen=True)
class Call:
    """What an operation sees of one use of itself.

    ``arrays`` is filled only for :meth:`Operation.evaluate`; an absent optional operand is None in both
    ``inputs`` and ``arrays``. ``bodies`` are the graphs that an operation of control flow runs.
    """

    inputs: tuple[TensorType | None, ...]
    outputs: tuple[TensorType, ...]
    arrays: tuple[Array | None, ...] = ()
    numerics: Numerics = "reference"
    bodies: tuple[Graph, ...] = ()

    def input(self, index: int) -> TensorType:
        """Type of a mandatory operand."""
        found = self.inputs[index] if index < len(self.inputs) else None
        if found is None:
            raise VerifyError(f"operand {index} is missing")
        return found

    def array(self, index: int) -> Array:
        """Array of a mandatory operand."""
        found = self.arrays[index] if index < len(self.arrays) else None
        if found is None:
            raise VerifyError(f"operand {index} is missing")
        return found

    @property
    def mode(self) -> Mode:
        """What ``numerics`` stands for."""
        return MODES[self.numerics]

    @property
    def output(self) -> TensorType:
        """Type of the only result."""
        return self.outputs[0]


class Operation:
    """Base of all operations; a subclass is a frozen dataclass whose fields are the attributes.

    The docstring of a subclass is its specification: formula, operands, numbered constraints (C1, C2, ...).
    """

    NAME: ClassVar[str]
    """Dialect and name as printed, for example ``qnn.conv2d``."""

    def verify(self, call: Call) -> None:
        """Check operand and result types; raise :class:`VerifyError` naming the violated constraint."""
        raise NotImplementedError

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """Compute the results with NumPy, exactly as specified."""
        raise NotImplementedError


OPERATIONS: dict[str, type[Operation]] = {}
"""Every registered operation by name."""


def operation(cls: type[Operation]) -> type[Operation]:
    """Class decorator: enter an operation into :data:`OPERATIONS`."""
    if cls.NAME in OPERATIONS:
        raise ValueError(f"operation {cls.NAME} is defined twice")
    OPERATIONS[cls.NAME] = cls
    return cls


@dataclass(eq=False)
class Value:
    """A tensor of a graph: an input, a constant (``data`` is set) or the result of a node.

    Values are compared by identity. ``name`` is for people and need not be unique.
    """

    type: TensorType
    name: str = ""
    data: Array | None = None

    @property
    def is_constant(self) -> bool:
        """Whether the content is known at compile time."""
        return self.data is not None


@dataclass(frozen=True, eq=False)
class Node:
    """One use of an operation. ``origin`` says which operator of the file it came from, for messages.

    ``bodies`` are graphs without states that control flow runs; they see nothing of the graph around them.
    """

    op: Operation
    inputs: tuple[Value | None, ...]
    outputs: tuple[Value, ...]
    origin: str = ""
    bodies: tuple[Graph, ...] = ()

    def call(self, numerics: Numerics = "reference", arrays: tuple[Array | None, ...] = ()) -> Call:
        """The types of this use, as the operation wants to see them."""
        types = tuple(None if value is None else value.type for value in self.inputs)
        return Call(types, tuple(value.type for value in self.outputs), arrays, numerics, self.bodies)


@dataclass(frozen=True, eq=False)
class State:
    """Memory that outlives a call of the graph.

    ``before`` is its content when a call begins, defined like an input; ``after`` is what the call leaves
    there: a result, a constant, or ``before`` itself. ``initial`` is the content before the first call.
    """

    before: Value
    after: Value
    initial: Array

    @property
    def name(self) -> str:
        """The name of ``before``."""
        return self.before.name


@dataclass(frozen=True, eq=False)
class Graph:
    """A straight-line program: nodes in an order in which every value is defined before it is used."""

    name: str
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    nodes: tuple[Node, ...]
    states: tuple[State, ...] = ()

    @property
    def sources(self) -> tuple[Value, ...]:
        """What is known when a call begins: inputs, then the states' content."""
        return (*self.inputs, *(state.before for state in self.states))

    @property
    def results(self) -> tuple[Value, ...]:
        """What a call must compute: outputs, then the states' next content."""
        return (*self.outputs, *(state.after for state in self.states))

    def constants(self) -> Iterator[Value]:
        """Every constant that a node or the result list uses, once, in order of first use.

        Those of the nodes' bodies are not among them.
        """
        seen: set[int] = set()
        used = [value for node in self.nodes for value in node.inputs if value is not None]
        for value in [*used, *self.results]:
            if value.is_constant and id(value) not in seen:
                seen.add(id(value))
                yield value

    def users(self) -> dict[Value, list[Node]]:
        """The nodes that read each value."""
        table: dict[Value, list[Node]] = {}
        for node in self.nodes:
            for value in node.inputs:
                if value is not None:
                    table.setdefault(value, []).append(node)
        return table

    def producers(self) -> dict[Value, Node]:
        """The node that defines each computed value."""
        return {value: node for node in self.nodes for value in node.outputs}


@dataclass
class Builder:
    """Collects nodes; the way rules and importers create operations. Every node is verified when added."""

    nodes: list[Node] = field(default_factory=list)
    origin: str = ""

    def emit(
        self, op: Operation, inputs: Sequence[Value | None], output: TensorType, name: str = ""
    ) -> Value:
        """Append a node with one result and return that result."""
        return self.emit_all(op, inputs, (output,), (name,))[0]

    def emit_all(
        self,
        op: Operation,
        inputs: Sequence[Value | None],
        outputs: Sequence[TensorType],
        names: Sequence[str],
        bodies: tuple[Graph, ...] = (),
    ) -> tuple[Value, ...]:
        """Append a node with any number of results and return them."""
        results = tuple(Value(type_, name) for type_, name in zip(outputs, names, strict=True))
        node = Node(op, tuple(inputs), results, self.origin, bodies)
        op.verify(node.call())
        self.nodes.append(node)
        return results

    @staticmethod
    def constant(data: Array, name: str = "", type_: TensorType | None = None) -> Value:
        """A constant value; the type is that of the array unless a quantized one is given."""
        return Value(type_ or TensorType(data.dtype.name, data.shape), name, data)


def verify_graph(graph: Graph) -> None:
    """Check single assignment, definition before use, states, and every node's own constraints.

    Raises:
        VerifyError: naming the node and the violated rule.
    """
    defined: set[Value] = set(graph.sources)
    for number, node in enumerate(graph.nodes):
        where = f"node {number} ({node.op.NAME}{f', {node.origin}' if node.origin else ''})"
        for value in node.inputs:
            if value is not None and not value.is_constant and value not in defined:
                raise VerifyError(f"{where}: operand %{value.name} is used before it is defined")
        for value in node.outputs:
            if value in defined or value.is_constant:
                raise VerifyError(f"{where}: result %{value.name} is defined twice")
            defined.add(value)
        try:
            for body in node.bodies:
                verify_graph(body)
            node.op.verify(node.call())
        except VerifyError as error:
            raise VerifyError(f"{where}: {error}") from error
        if any(body.states for body in node.bodies):
            raise VerifyError(f"{where}: a body has states")
    for value in graph.results:
        if not value.is_constant and value not in defined:
            raise VerifyError(f"graph result %{value.name} is never defined")
    for state in graph.states:
        _verify_state(graph, state)


def _verify_state(graph: Graph, state: State) -> None:
    type_ = state.before.type
    if state.before.is_constant or graph.sources.count(state.before) != 1:
        raise VerifyError(f"state %{state.name} is a constant, an input or another state as well")
    if state.after.type != type_:
        raise VerifyError(f"state %{state.name} of type {type_} becomes {state.after.type}")
    if state.initial.shape != type_.shape or state.initial.dtype != type_.numpy:
        found = f"{state.initial.dtype}{list(state.initial.shape)}"
        raise VerifyError(f"state %{state.name} of type {type_} begins as {found}")
