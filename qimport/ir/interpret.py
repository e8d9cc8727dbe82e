"""Runs a graph of any dialect with each operation's own ``evaluate``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from qimport.errors import ArgumentError, CompilerBug
from qimport.ir.graph import Array, Graph, Value
from qimport.numerics import Numerics


def interpret(
    graph: Graph,
    inputs: Sequence[Array],
    numerics: Numerics = "reference",
    observe: Callable[[Value, Array], None] | None = None,
    states: list[Array] | None = None,
) -> list[Array]:
    """Evaluate ``graph`` on ``inputs`` and return its results in order.

    ``observe`` is called with every computed value. ``states`` holds the content of every state, as
    :func:`initial_states` gives it at first, and is overwritten with that for the next call; without it the
    states have their initial content. Raises :class:`ArgumentError` for inputs of another number, shape or
    element type than the graph's.
    """
    if len(inputs) != len(graph.inputs):
        raise ArgumentError(f"the graph has {len(graph.inputs)} inputs, {len(inputs)} arrays were given")
    memory = initial_states(graph) if states is None else states
    known = {state.before: array for state, array in zip(graph.states, memory, strict=True)}
    for value, array in zip(graph.inputs, inputs, strict=True):
        if array.shape != value.type.shape or array.dtype != value.type.numpy:
            raise ArgumentError(
                f"input {value.name!r} is {array.dtype}{list(array.shape)}, expected {value.type}"
            )
        known[value] = array
    for node in graph.nodes:
        arrays = tuple(None if v is None else known[v] if v.data is None else v.data for v in node.inputs)
        results = node.op.evaluate(node.call(numerics, arrays))
        for value, array in zip(node.outputs, results, strict=True):
            if array.shape != value.type.shape or array.dtype != value.type.numpy:
                raise CompilerBug(
                    f"{node.op.NAME} gave {array.dtype}{list(array.shape)} for a result of type {value.type}"
                )
            known[value] = array
            if observe is not None:
                observe(value, array)
    found = [np.asarray(v.data if v.data is not None else known[v]) for v in graph.results]
    memory[:] = found[len(graph.outputs) :]
    return found[: len(graph.outputs)]


def initial_states(graph: Graph) -> list[Array]:
    """The content of every state before the first call."""
    return [state.initial for state in graph.states]
