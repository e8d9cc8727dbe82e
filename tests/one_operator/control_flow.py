"""Generators of loops and branches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from qimport.ir.types import TensorType
from tests.cases import Draw, add_tensor
from tests.flatbuffer_builder import ModelBuilder
from tests.one_operator.model import OneOperator, generator
from tests.one_operator.variables import add, handle, initialize, read, some_shape, some_type, some_values

COUNT = TensorType("int32", ())


def constant(model: ModelBuilder, value: int) -> int:
    """A scalar of the counter's type."""
    return add_tensor(model, COUNT, np.array(value, np.int32))


def one_more(model: ModelBuilder, counter: int) -> int:
    """The next value of a counter."""
    return add(model, counter, constant(model, 1), COUNT)


def condition(model: ModelBuilder, types: Sequence[TensorType]) -> tuple[list[int], list[int]]:
    """The subgraph that compares the first value, a counter, with the second one."""
    values = [add_tensor(model, type_) for type_ in types]
    answer = model.tensor((), "bool")
    model.operator("LESS", values[:2], [answer])
    return values, [answer]


def loop(draw: Draw, dtype: str) -> OneOperator:
    """Add, exchange or keep three tensors as often as an input says; the counter begins as a constant."""
    type_ = some_type(draw, dtype, some_shape(draw))
    types = [COUNT, COUNT, type_, type_, type_]
    model = ModelBuilder()
    limit, *operands = (add_tensor(model, item) for item in types[1:])
    results = [add_tensor(model, item) for item in types]
    carried = [constant(model, 0), limit, *operands]
    model.operator("WHILE", carried, results, cond_subgraph_index=1, body_subgraph_index=2)
    model.next_subgraph([limit, *operands], draw.pick(results, results[2:], results[:1]))
    model.next_subgraph(*condition(model, types))
    counter, end, *values = (add_tensor(model, item) for item in types)
    total = add(model, values[0], values[1], type_)
    following = [draw.pick(*values, total) for _ in values]
    outputs = [one_more(model, counter), end, *following]
    invocations = tuple(
        [np.array(count, np.int32), *(some_values(draw, type_) for _ in values)]
        for count in draw.rng.integers(-1, 6, 3)
    )
    text = f"loop over {type_}: {[[*values, total].index(value) for value in following]}"
    return OneOperator(model.build([counter, end, *values], outputs), invocations, text)


def growing_loop(draw: Draw, dtype: str) -> OneOperator:
    """A loop of known length that appends to a tensor in every round."""
    type_ = some_type(draw, dtype, some_shape(draw))
    axis = int(draw.rng.integers(len(type_.shape)))
    q = type_.quantization
    quantized_as = (None, 0) if q is None else (list(q.scales), list(q.zero_points))
    signature = [-1 if i == axis else size for i, size in enumerate(type_.shape)]

    def open_tensor() -> int:
        return model.tensor(type_.shape, dtype, *quantized_as, shape_signature=signature)

    model = ModelBuilder()
    x, end = add_tensor(model, type_), constant(model, int(draw.rng.integers(0, 5)))
    results = [add_tensor(model, COUNT), add_tensor(model, COUNT), open_tensor()]
    carried = [constant(model, 0), end, x]
    model.operator("WHILE", carried, results, cond_subgraph_index=1, body_subgraph_index=2)
    model.next_subgraph([x], draw.pick(results, results[2:]))
    values = [add_tensor(model, COUNT), add_tensor(model, COUNT), open_tensor()]
    answer = model.tensor((), "bool")
    model.operator("LESS", values[:2], [answer])
    model.next_subgraph(values, [answer])
    counter, limit, inner = add_tensor(model, COUNT), add_tensor(model, COUNT), open_tensor()
    appended = draw.pick(inner, add_tensor(model, type_, some_values(draw, type_)))
    both = open_tensor()
    model.operator("CONCATENATION", draw.pick([inner, appended], [appended, inner]), [both], axis=axis)
    file = model.build([counter, limit, inner], [one_more(model, counter), limit, both])
    return OneOperator(file, ([some_values(draw, type_)],), f"growing {type_} along {axis}")


def branch(draw: Draw, dtype: str) -> OneOperator:
    """Sum, exchange, or what came in."""
    type_ = some_type(draw, dtype, some_shape(draw))
    model = ModelBuilder()
    question = model.tensor(draw.pick((), (1,)), "bool")
    a, b = add_tensor(model, type_), add_tensor(model, type_)
    results = [add_tensor(model, type_), add_tensor(model, type_)]
    model.operator("IF", [question, a, b], results, then_subgraph_index=1, else_subgraph_index=2)
    model.next_subgraph([question, a, b], results)
    x, y = add_tensor(model, type_), add_tensor(model, type_)
    model.next_subgraph([x, y], [add(model, x, y, type_), draw.pick(x, y)])
    x, y = add_tensor(model, type_), add_tensor(model, type_)
    known = add_tensor(model, type_, some_values(draw, type_))
    outputs = draw.pick([y, x], [x, y], [x, add(model, y, y, type_)], [add(model, x, known, type_), x])
    shape = () if model.subgraphs[0].tensors[question].shape == () else (1,)
    invocations = tuple(
        [np.full(shape, answer), some_values(draw, type_), some_values(draw, type_)]
        for answer in (True, False, bool(draw.pick(True, False)))
    )
    return OneOperator(model.build([x, y], outputs), invocations, f"branch on {type_}")


def loop_over_variable(draw: Draw, dtype: str) -> OneOperator:
    """A loop whose body adds to a variable; inside a branch or not."""
    type_ = some_type(draw, dtype, some_shape(draw))
    types = [COUNT, COUNT, type_]
    model = ModelBuilder()
    model.operator("CALL_ONCE", [], [], init_subgraph_index=3)
    variable = handle(model, "sum")
    limit, x = add_tensor(model, COUNT), add_tensor(model, type_)
    results = [add_tensor(model, item) for item in types]
    operands = [constant(model, 0), limit, x]
    model.operator("WHILE", operands, results, cond_subgraph_index=1, body_subgraph_index=2)
    model.next_subgraph([limit, x], [results[0], read(model, variable, type_)])
    model.next_subgraph(*condition(model, types))
    counter, end, x = (add_tensor(model, item) for item in types)
    inner = handle(model, "sum")
    model.operator("ASSIGN_VARIABLE", [inner, add(model, read(model, inner, type_), x, type_)], [])
    model.next_subgraph([counter, end, x], [one_more(model, counter), end, x])
    initialize(model, {"sum": (type_, some_values(draw, type_))})
    invocations = tuple(
        [np.array(count, np.int32), some_values(draw, type_)] for count in draw.rng.integers(0, 4, 3)
    )
    return OneOperator(model.build([], []), invocations, f"loop over a variable of {type_}")


def branch_on_variable(draw: Draw, dtype: str) -> OneOperator:
    """A branch of which one side assigns a variable."""
    type_ = some_type(draw, dtype, some_shape(draw))
    model = ModelBuilder()
    model.operator("CALL_ONCE", [], [], init_subgraph_index=3)
    variable = handle(model, "last")
    question, x = model.tensor((), "bool"), add_tensor(model, type_)
    result = add_tensor(model, type_)
    model.operator("IF", [question, x], [result], then_subgraph_index=1, else_subgraph_index=2)
    model.next_subgraph([question, x], [result, read(model, variable, type_)])
    x = add_tensor(model, type_)
    inner = handle(model, "last")
    before = read(model, inner, type_)
    model.operator("ASSIGN_VARIABLE", [inner, x], [])
    model.next_subgraph([x], [add(model, x, before, type_)])
    x = add_tensor(model, type_)
    model.next_subgraph([x], [x])
    initialize(model, {"last": (type_, some_values(draw, type_))})
    invocations = tuple(
        [np.array(bool(answer)), some_values(draw, type_)] for answer in draw.rng.integers(0, 2, 4)
    )
    return OneOperator(model.build([], []), invocations, f"branch that assigns {type_}")


def _register(kind: str, dtype: str) -> None:
    makers = {
        "WHILE": loop,
        "WHILE growing": growing_loop,
        "IF": branch,
        "WHILE variable": loop_over_variable,
        "IF variable": branch_on_variable,
    }

    @generator(f"{kind} {dtype}")
    def make(draw: Draw) -> OneOperator:
        return makers[kind](draw, dtype)


for _kind in ("WHILE", "WHILE growing", "WHILE variable", "IF", "IF variable"):
    for _dtype in ("int8", "uint8", "float32", "int32"):
        _register(_kind, _dtype)
