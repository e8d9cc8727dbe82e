"""IF and WHILE (qnn.control_flow): text, verification, interpretation, plans, code and refusals."""

from __future__ import annotations

import numpy as np
import pytest
from importer_models import T, load, reasons

import qimport
from qimport.errors import ModelError, ParseError, UnsupportedError, VerifyError
from qimport.ir.graph import Graph, Node, Value, verify_graph
from qimport.ir.interpret import interpret
from qimport.ir.text import parse_graph, print_graph
from qimport.ir.types import TensorType
from qimport.lower.pipeline import lower
from qimport.lower.schedule import make_plan
from qimport.oracle import Oracle
from qimport.qnn import If, While
from tests.flatbuffer_builder import ModelBuilder
from tests.one_operator.control_flow import condition, constant, one_more
from tests.one_operator.variables import add, handle, initialize, read

COUNT = TensorType("int32", ())

LOOP = """\
graph @doubling(%n: i32[], %x: f32[2]) {
  %0 = constant i32[] dense[0]
  %i, %limit, %y = prim.while(%0, %n, %x) : i32[], i32[], f32[2] from "operator 0 (WHILE) 'i'" with
    graph @less(%i: i32[], %n: i32[], %x: f32[2]) {
      %again = prim.compare(%i, %n) {kind="less"} : i1[]
      return %again
    },
    graph @body(%i: i32[], %n: i32[], %x: f32[2]) {
      %one = constant i32[] dense[1]
      %next = prim.binary(%i, %one) {kind="add"} : i32[]
      %twice = prim.binary(%x, %x) {kind="add"} : f32[2]
      return %next, %n, %twice
    }
  return %y
}
"""


def test_loops_are_read_printed_and_interpreted() -> None:
    graph = parse_graph(LOOP)
    assert print_graph(graph) == LOOP
    x = np.array([1, 3], np.float32)
    for count, factor in ((-1, 1), (0, 1), (1, 2), (5, 32)):
        (found,) = interpret(graph, [np.array(count, np.int32), x])
        assert found.tolist() == (factor * x).tolist()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("return %next, %n, %twice", "return %next, %n", "outputs of body"),
        ("return %again", "return %i", "the condition of a loop must be one bool"),
        ("i1[]\n      return", "i1[]\n      next %i = %i\n      return", "%i is no state"),
        ("@body(%i: i32[], %n: i32[]", "@body(%i: i32[], %n: i64[]", "inputs of body"),
        (
            "return %again\n    },",
            "return %again\n    }\n  %z = prim.reshape(%x) : f32[2x1]\n  return %y\n} ;",
            "a loop needs two bodies",
        ),
        ("%one = constant i32[] dense[1]", "%one = state i32[] dense[1]\n next %one = %one", "expected"),
    ],
)
def test_wrong_loops_do_not_parse(old: str, new: str, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        parse_graph(LOOP.replace(old, new))


def test_graphs_are_not_nested_without_end() -> None:
    text = "graph @g() { %x = prim.while() : i1[] with " * 100
    with pytest.raises(ParseError, match="nested too deeply"):
        parse_graph(text)


def test_bodies_are_verified() -> None:
    graph = parse_graph(LOOP)
    (node,) = graph.nodes
    condition_, body = node.bodies
    broken = Graph(body.name, body.inputs, body.outputs, body.nodes[1:])
    wrong = Node(node.op, node.inputs, node.outputs, node.origin, (condition_, broken))
    with pytest.raises(VerifyError, match="never defined"):
        verify_graph(Graph(graph.name, graph.inputs, graph.outputs, (wrong,)))


def test_the_plan_prints_its_bodies() -> None:
    text = str(make_plan(parse_graph(LOOP)))
    assert "while" in text
    assert "plan body" in text


def selecting(other: TensorType | None = None) -> tuple[bytes, TensorType]:
    """A branch that adds or, on the other side, gives a tensor of the type ``other``."""
    type_ = TensorType("float32", (3,))
    model = ModelBuilder()
    question, x = model.tensor((1,), "bool"), T((3,), "float32", None).add(model)
    result = T((3,), "float32", None).add(model)
    model.operator("IF", [question, x], [result], then_subgraph_index=1, else_subgraph_index=2)
    model.next_subgraph([question, x], [result])
    inner = T((3,), "float32", None).add(model)
    model.next_subgraph([inner], [add(model, inner, inner, type_)])
    inner = T((3,), "float32", None).add(model)
    known = other or type_
    data = np.ones(known.shape, known.numpy)
    constant_ = model.tensor(known.shape, known.dtype, data=data)
    return model.build([inner], [constant_]), type_


def test_branches_import_as_one_node_and_run(oracle: Oracle) -> None:
    file, _ = selecting()
    graph = load(file).graph
    (node,) = graph.nodes
    assert isinstance(node.op, If)
    assert [len(body.nodes) for body in node.bodies] == [1, 0]
    x = np.array([1, 2, 3], np.float32)
    model = qimport.compile(file)
    for answer in (True, False):
        inputs = [np.array([answer]), x]
        expected = oracle.run(file, inputs, "reference").outputs[0]
        assert model.run(inputs)[0].tobytes() == expected.tobytes()
        assert interpret(graph, inputs)[0].tobytes() == expected.tobytes()
        assert interpret(lower(graph, "reference"), inputs)[0].tobytes() == expected.tobytes()


def test_branches_of_different_shapes_are_refused() -> None:
    (reason,) = reasons(selecting(TensorType("float32", (4,)))[0])
    assert "a result has shape (3,) in one branch and (4,) in the other" in str(reason)


def looping(
    *, body_shape: tuple[int, ...] = (2,), builtin: str = "RELU", again: int = 2, rounds: int | None = None
) -> bytes:
    """A loop whose body makes a tensor of another shape, by an operator that may be unsupported.

    Its end is an input, unless ``rounds`` says it.
    """
    model = ModelBuilder()
    x = T((2,), "float32", None).add(model)
    types = [COUNT, COUNT, TensorType("float32", (2,))]
    results = [T(type_.shape, type_.dtype, None).add(model) for type_ in types[:2]]
    results.append(T((2,), "float32", None, shape_signature=(-1,)).add(model))
    end = T((), "int32", None).add(model) if rounds is None else constant(model, rounds)
    operands = [constant(model, 0), end, x]
    model.operator("WHILE", operands, results, cond_subgraph_index=1, body_subgraph_index=again)
    model.next_subgraph([x, end] if rounds is None else [x], results[2:])
    model.next_subgraph(*condition(model, types))
    counter, end, inner = (T(type_.shape, type_.dtype, None).add(model) for type_ in types)
    made = T(body_shape, "float32", None, shape_signature=(-1,)).add(model)
    if builtin == "RELU" and body_shape == (2,):
        model.operator(builtin, [inner], [made])
    elif builtin == "RELU":
        model.operator("CONCATENATION", [inner, inner], [made], axis=0)
    else:
        model.operator("CUSTOM", [inner], [made], custom_code=builtin)
    return model.build([counter, end, inner], [one_more(model, counter), end, made])


def test_loops_import_as_one_node() -> None:
    (node,) = load(looping()).graph.nodes
    assert isinstance(node.op, While)
    assert isinstance(node.outputs[0], Value)


def test_loops_keep_shapes() -> None:
    (reason,) = reasons(looping(body_shape=(4,)))
    assert "the loop makes a tensor of shape (4,) of one of shape (2,)" in str(reason)


@pytest.mark.parametrize("rounds", [0, 1, 4])
def test_loops_of_known_length_may_change_shapes(rounds: int, oracle: Oracle) -> None:
    file, x = looping(body_shape=(4,), rounds=rounds), np.array([1, 2], np.float32)
    assert [node.op.NAME for node in load(file).graph.nodes] == ["qnn.concat"] * rounds
    (expected,) = oracle.run(file, [x], "reference").outputs
    (found,) = qimport.compile(file).run(x)
    assert found.shape == expected.shape == (2 * 2**rounds,)
    assert found.tobytes() == expected.tobytes()


def test_only_short_loops_are_unrolled() -> None:
    assert "the loop makes a tensor of shape (4,)" in str(reasons(looping(body_shape=(4,), rounds=70))[0])


def test_reasons_name_the_subgraph() -> None:
    with pytest.raises(UnsupportedError, match="CUSTOM odd of subgraph 2"):
        load(looping(builtin="odd"))


@pytest.mark.parametrize(
    ("number", "message"), [(0, "subgraph 0 runs itself"), (9, "there is no subgraph 9 to run")]
)
def test_subgraphs_exist_and_end(number: int, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        load(looping(again=number))


def test_subgraphs_run_each_other_to_some_depth() -> None:
    model = ModelBuilder()
    for number in range(1, 400):
        x, y = (T((2,), "float32", None).add(model) for _ in range(2))
        question = model.tensor((), "bool")
        model.operator(
            "IF", [question, question, x], [y], then_subgraph_index=number, else_subgraph_index=number
        )
        model.next_subgraph([question, x], [y])
    x, question = T((2,), "float32", None).add(model), model.tensor((), "bool")
    with pytest.raises(UnsupportedError, match="run more than 32 subgraphs deep"):
        load(model.build([question, x], [x]))


def test_a_small_file_cannot_run_subgraphs_without_end() -> None:
    model = ModelBuilder()
    for number in range(1, 12):
        x, question = T((2,), "float32", None).add(model), model.tensor((), "bool")
        y = T((2,), "float32", None).add(model)
        model.operator(
            "IF", [question, question, x], [y], then_subgraph_index=number, else_subgraph_index=number
        )
        model.next_subgraph([question, x], [y])
    x, question = T((2,), "float32", None).add(model), model.tensor((), "bool")
    with pytest.raises(UnsupportedError, match="more than 256 places that run subgraphs"):
        load(model.build([question, x], [x]))


def test_loops_copy_their_values_one_by_one(oracle: Oracle) -> None:
    """The interpreter does not exchange two values: the second one gets what the first one has become."""
    types = [COUNT, COUNT, COUNT, COUNT]
    model = ModelBuilder()
    limit, a, b = (T((), "int32", None).add(model) for _ in range(3))
    results = [T((), "int32", None).add(model) for _ in types]
    carried = [constant(model, 0), limit, a, b]
    model.operator("WHILE", carried, results, cond_subgraph_index=1, body_subgraph_index=2)
    model.next_subgraph([limit, a, b], results)
    model.next_subgraph(*condition(model, types))
    counter, end, x, y = (T((), "int32", None).add(model) for _ in types)
    file = model.build([counter, end, x, y], [one_more(model, counter), end, y, x])
    for count, wanted in ((0, [0, 0, 10, 20]), (1, [1, 1, 20, 20])):
        inputs = [np.array(number, np.int32) for number in (count, 10, 20)]
        found = [int(array) for array in qimport.compile(file).run(inputs)]
        assert found == [int(array) for array in oracle.run(file, inputs, "reference").outputs] == wanted


def test_variables_only_inside_are_refused() -> None:
    type_ = TensorType("int32", (2,))
    model = ModelBuilder()
    question, x = model.tensor((), "bool"), T((2,), "int32", None).add(model)
    result = T((2,), "int32", None).add(model)
    model.operator("IF", [question, x], [result], then_subgraph_index=1, else_subgraph_index=2)
    model.next_subgraph([question, x], [result])
    inner = T((2,), "int32", None).add(model)
    model.operator("ASSIGN_VARIABLE", [handle(model, "v"), inner], [])
    model.next_subgraph([inner], [inner])
    inner = T((2,), "int32", None).add(model)
    (reason,) = reasons(model.build([inner], [inner]))
    assert "the variable 'v' is assigned only inside control flow" in str(reason)
    assert type_.size == 2


def test_handles_may_be_operands_of_loops(oracle: Oracle) -> None:
    """A loop that carries the handle of the variable to which its body adds."""
    type_ = TensorType("int32", (2,))
    model = ModelBuilder()
    model.operator("CALL_ONCE", [], [], init_subgraph_index=3)
    x = T((2,), "int32", None).add(model)
    variable = handle(model, "v")
    results = [T((), "int32", None).add(model), T((), "int32", None).add(model), model.tensor((), "resource")]
    results.append(T((2,), "int32", None).add(model))
    operands = [constant(model, 0), constant(model, 3), variable, x]
    model.operator("WHILE", operands, results, cond_subgraph_index=1, body_subgraph_index=2)
    model.next_subgraph([x], [read(model, results[2], type_)])
    values = [T((), "int32", None).add(model), T((), "int32", None).add(model)]
    values += [model.tensor((), "resource"), T((2,), "int32", None).add(model)]
    answer = model.tensor((), "bool")
    model.operator("LESS", values[:2], [answer])
    model.next_subgraph(values, [answer])
    counter, end = T((), "int32", None).add(model), T((), "int32", None).add(model)
    inner, step = model.tensor((), "resource"), T((2,), "int32", None).add(model)
    model.operator("ASSIGN_VARIABLE", [inner, add(model, read(model, inner, type_), step, type_)], [])
    model.next_subgraph([counter, end, inner, step], [one_more(model, counter), end, inner, step])
    initialize(model, {"v": (type_, np.array([100, 200], np.int32))})
    file = model.build([], [])
    session = qimport.compile(file).session()
    sequence = [[np.array(values, np.int32)] for values in ([1, 2], [3, 4])]
    for inputs, expected in zip(sequence, oracle.run_sequence(file, sequence, "reference"), strict=True):
        assert session.call(inputs)[0].tolist() == expected[0].tolist()
