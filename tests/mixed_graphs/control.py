"""IF and WHILE over bodies that grow from the same steps."""

from __future__ import annotations

import numpy as np

from qimport.ir.types import TensorType
from tests.cases import add_tensor
from tests.mixed_graphs.model import ALL, MixedModel, step
from tests.random_models import DoesNotFit, Tensor

COUNT = TensorType("int32", ())
QUESTION = TensorType("bool", ())
DEEPEST = 2


def body(g: MixedModel, operands: list[Tensor], counted: bool = False) -> tuple[int, float]:
    """A subgraph from the types of ``operands`` to that of the last one, and the limit of its result.

    ``counted``: the first operand is a counter, and its successor the first result.
    """
    if len(g.outer) >= DEEPEST:
        raise DoesNotFit
    limits = [g.limit(t) for t in operands]
    with g.subgraph() as number:
        g.inputs = [Tensor(add_tensor(g.model, t.type), t.type) for t in operands]
        for t, limit in zip(g.inputs, limits, strict=True):
            g.limits[t.index] = max(limit, 6.0) if counted else limit
        g.add_steps(int(g.draw.rng.integers(1, 4)))
        result = alike(g, g.inputs[-1], bounded=counted)
        outputs = [result.index]
        if counted:
            one = g.model.tensor((), "int32", data=np.array(1))
            outputs.insert(0, g.emit("ADD", [g.inputs[0], one], COUNT).index)
        g.end_subgraph([t.index for t in g.inputs], outputs)
        return number, g.limit(result)


def alike(g: MixedModel, x: Tensor, bounded: bool) -> Tensor:
    """Something computed of the type of ``x``, or ``x`` itself; of floats at most 6 if ``bounded``."""
    known = [t for t in g.shown() if t.type == x.type]
    found = g.draw.pick(*known) if known and g.draw.rng.random() < 0.9 else x
    if x.type.dtype == "float32" and bounded:
        return g.emit("RELU6", [found], x.type, limit=6.0)
    if found is not x:
        return found
    if x.type.dtype == "bool":
        return g.emit("LOGICAL_NOT", [x], x.type)
    return g.emit("MAXIMUM", [x, g.constant(x.type)], x.type)


@step(*ALL)
def branch(g: MixedModel, x: Tensor) -> None:
    """IF on something known only at run time."""
    operands = [*([g.draw.pick(*g.computed)] if g.computed and g.draw.pick(True, False) else []), x]
    bodies = [body(g, operands) for _ in range(2)]
    questions = [t for t in g.computed if t.type == QUESTION]
    question = g.draw.pick(*questions) if questions else g.feed(QUESTION)
    g.emit(
        "IF",
        [question, *operands],
        x.type,
        limit=max(limit for _, limit in bodies),
        then_subgraph_index=bodies[0][0],
        else_subgraph_index=bodies[1][0],
    )


@step(*ALL)
def loop(g: MixedModel, x: Tensor) -> None:
    """WHILE with a counter; its values are x and what the body makes of it."""
    counter = Tensor(g.model.tensor((), "int32", data=np.array(0)), COUNT, True)
    operands = [counter, x]
    condition = less_than(g, operands, int(g.draw.rng.integers(0, 4)))
    number, limit = body(g, operands, counted=True)
    g.emit_results(
        "WHILE",
        operands,
        [COUNT, x.type],
        limit=max(limit, g.limit(x)),
        cond_subgraph_index=condition,
        body_subgraph_index=number,
    )


def less_than(g: MixedModel, operands: list[Tensor], rounds: int) -> int:
    """The subgraph that compares a counter with a constant."""
    with g.subgraph() as number:
        values = [add_tensor(g.model, t.type) for t in operands]
        end, answer = g.model.tensor((), "int32", data=np.array(rounds)), g.model.tensor((), "bool")
        g.model.operator("LESS", [values[0], end], [answer])
        g.end_subgraph(values, [answer])
        return number
