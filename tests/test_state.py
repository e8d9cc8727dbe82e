"""What a model remembers: states of graphs, sessions, files, the interpreter's variables, object files."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from aot_harness import CC, STRICT, Tensor, run_tool, tensor
from importer_models import T, load, reasons
from prim_graphs import PrimGraph

import qimport
from qimport.artefact import Artefact, StateInfo, TensorInfo, aligned_copy
from qimport.codegen.aot import interface_of
from qimport.codegen.backend import object_code
from qimport.codegen.host import resolve_target
from qimport.codegen.levels import levels_of
from qimport.codegen.program import generate
from qimport.compiler import trace
from qimport.emission import Emission
from qimport.errors import ModelError, ParseError, QimportError, VerifyError
from qimport.interpreter import Interpreter
from qimport.ir.graph import Array, Graph, State, Value, verify_graph
from qimport.ir.interpret import initial_states, interpret
from qimport.ir.text import parse_graph, print_graph
from qimport.ir.types import TensorType
from qimport.lower.schedule import make_plan
from qimport.model import CompiledModel
from qimport.numerics import X86_NUMERICS, Numerics
from qimport.oracle import Oracle
from tests.flatbuffer_builder import ModelBuilder
from tests.one_operator import OneOperator, draw_model
from tests.one_operator.variables import add, handle, initialize, read

CROSS_CC, EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64"

COUNTER = """\
graph @counter(%x: i32[2]) {
  %count = state i32[2] dense[5, -5]
  %idle = state i8[] dense[3]
  %sum = prim.binary(%count, %x) {kind="add"} : i32[2]
  next %count = %sum
  next %idle = %idle
  return %count
}
"""


def compiled(graph: Graph) -> CompiledModel:
    """A prim graph as a model of this machine."""
    plan, target = make_plan(graph), resolve_target("host")
    program = generate(plan, target)
    inputs, outputs = (
        tuple(TensorInfo(value.name, i, value.type, value.type.shape) for i, value in enumerate(values))
        for values in (graph.inputs, graph.outputs)
    )
    states = tuple(StateInfo(s.name, s.type.dtype, s.type.shape, s.offset) for s in plan.states)
    code, constants = object_code(program.modules, target), aligned_copy(program.constants)
    artefact = Artefact(
        name="test",
        numerics="reference",
        target=target,
        inputs=inputs,
        outputs=outputs,
        signatures=(),
        states=states,
        arena_bytes=plan.arena_bytes,
        threads=plan.threads,
        plan=str(plan),
        rows=program.rows,
        entry=program.entry,
        object_code=code,
        constants=constants,
        initial_state=aligned_copy(plan.initial_state),
    )
    return CompiledModel(artefact)


# Graphs


def test_states_are_read_printed_and_interpreted() -> None:
    graph = parse_graph(COUNTER)
    assert print_graph(graph) == COUNTER
    memory = initial_states(graph)
    x = np.array([1, 10], np.int32)
    found = [interpret(graph, [x], states=memory)[0].tolist() for _ in range(3)]
    assert found == [[5, -5], [6, 5], [7, 15]]
    assert memory[0].tolist() == [8, 25]
    assert interpret(graph, [x])[0].tolist() == [5, -5], "without memory every call is the first"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("  next %idle = %idle\n", "", "nothing says what the state %idle becomes"),
        ("next %idle = %idle", "next %count = %sum", "%count is given twice"),
        ("next %idle = %idle", "next %sum = %sum", "%sum is no state"),
        ("next %idle = %idle", "next %idle = %sum", "the state is i8[], this is i32[2]"),
        ("%idle = state i8[] dense[3]", "%idle, %idol = state i8[] dense[3]", "a state has one name"),
    ],
)
def test_wrong_states_do_not_parse(old: str, new: str, message: str) -> None:
    with pytest.raises(ParseError, match=message.replace("[", r"\[")):
        parse_graph(COUNTER.replace(old, new))


def test_wrong_states_do_not_verify() -> None:
    graph = parse_graph(COUNTER)
    count, idle = graph.states
    wrong = {
        "becomes i8": State(count.before, idle.before, count.initial),
        "begins as int8": State(count.before, count.after, idle.initial),
        "never defined": State(count.before, Value(count.before.type, "nowhere"), count.initial),
    }
    for message, state in wrong.items():
        with pytest.raises(VerifyError, match=message):
            verify_graph(replace(graph, states=(state, idle)))
    with pytest.raises(VerifyError, match="an input or another state as well"):
        verify_graph(replace(graph, states=(count, idle, idle)))


def remembering(seed: int) -> Graph:
    """A random graph some of whose inputs are states, which become anything of their type."""
    graph = PrimGraph(seed).grow(5 + seed % 9)
    rng = np.random.default_rng(seed)
    kept = graph.inputs[: 1 + seed % 2]
    values = [*graph.inputs, *(value for node in graph.nodes for value in node.outputs)]
    states = []
    for before in kept:
        fitting = [value for value in values if value.type == before.type]
        after = fitting[int(rng.integers(len(fitting)))]
        states.append(State(before, after, rng.integers(-128, 128, before.type.shape).astype(np.int8)))
    return replace(graph, inputs=graph.inputs[len(kept) :], states=tuple(states))


@pytest.mark.parametrize("seed", range(30))
def test_compiled_states_are_those_of_the_graph(seed: int) -> None:
    graph = remembering(seed)
    verify_graph(graph)
    session, memory = compiled(graph).session(), initial_states(graph)
    rng = np.random.default_rng(seed)
    for _ in range(3):
        inputs = [rng.integers(-128, 128, value.type.shape).astype(np.int8) for value in graph.inputs]
        expected = interpret(graph, inputs, states=memory)
        for found, wanted in zip(session.call(inputs), expected, strict=True):
            np.testing.assert_array_equal(found, wanted)
        for found, wanted in zip(session.states, memory, strict=True):
            np.testing.assert_array_equal(found, wanted)


def test_states_exchange_their_content_without_loss() -> None:
    text = """graph @exchange() {
      %a = state i32[2] dense[1, 2]
      %b = state i32[2x1] dense[3, 4]
      %c = state i32[2] dense[5, 6]
      %d = constant i32[2] dense[7, 8]
      %from_b = prim.reshape(%b) : i32[2]
      %from_a = prim.reshape(%a) : i32[2x1]
      next %a = %from_b
      next %b = %from_a
      next %c = %d
      return %a, %from_b, %c
    }"""
    session = compiled(parse_graph(text)).session()
    assert [[o.tolist() for o in session.call([])] for _ in range(3)] == [
        [[1, 2], [3, 4], [5, 6]],
        [[3, 4], [1, 2], [7, 8]],
        [[1, 2], [3, 4], [7, 8]],
    ]


# Models, sessions, files


def summing() -> OneOperator:
    """A running sum of int32."""
    return draw_model("VARIABLE sum int32", 0)


def test_every_run_is_the_first_and_every_session_remembers(oracle: Oracle, tmp_path: Path) -> None:
    case = summing()
    model = qimport.compile(case.file)
    expected = oracle.run_sequence(case.file, case.invocations, "reference")
    assert model.state_bytes == 128
    assert model.arena_bytes >= model.state_bytes
    assert [state.name for state in model.states] == ["sum"]
    model.save(tmp_path / "sum.qim")
    for copy in (model, qimport.load(tmp_path / "sum.qim"), pickle.loads(pickle.dumps(model))):
        session, other = copy.session(), copy.session()
        for number, (inputs, outputs) in enumerate(zip(case.invocations, expected, strict=True)):
            expect_equal(session.call(inputs), outputs)
            expect_equal(copy.run(case.invocations[0]), expected[0])
            if number == 0:
                expect_equal(other.call(case.invocations[0]), expected[0])
        session.reset()
        expect_equal(session.call(case.invocations[0]), expected[0])


def expect_equal(found: Sequence[Array], expected: Sequence[Array]) -> None:
    """The same bytes."""
    assert [array.tobytes() for array in found] == [array.tobytes() for array in expected]


def test_a_session_goes_on_from_states_that_were_kept() -> None:
    case = summing()
    model = qimport.compile(case.file)
    session = model.session()
    session.call(case.invocations[0])
    kept = [state.copy() for state in session.states]
    expected = session.call(case.invocations[1])
    other = model.session()
    for state, content in zip(other.states, kept, strict=True):
        state[...] = content
    expect_equal(other.call(case.invocations[1]), expected)


def test_a_damaged_state_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.qim"
    artefact = qimport.compile(summing().file)._artefact
    for states, state in (
        ((StateInfo("sum", "int32", (3, 3, 2), 64),), artefact.initial_state),
        (artefact.states, artefact.initial_state[:0]),
        ((StateInfo("sum", "int32", (3, 3, 2), -1),), artefact.initial_state),
    ):
        path.write_bytes(replace(artefact, states=states, initial_state=state).to_bytes())
        with pytest.raises(ModelError, match="damaged"):
            qimport.load(path)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "float32"])
def test_variable_tensors_begin_as_the_interpreter_resets_them(dtype: str, oracle: Oracle) -> None:
    zero, scale = {"int8": 3, "uint8": 7}.get(dtype, 0), None if dtype == "float32" else 0.5
    model = ModelBuilder()
    x = T((2,), dtype, scale, zero).add(model)
    kept = T((2,), dtype, scale, zero, is_variable=True).add(model)
    y = T((4,), dtype, scale, zero).add(model)
    model.operator("CONCATENATION", [x, kept], [y], axis=0)
    file, inputs = model.build([x], [y]), [np.array([1, 2], dtype)]
    for numerics in X86_NUMERICS:
        expected = oracle.run(file, inputs, numerics).outputs
        expect_equal(qimport.compile(file, numerics=numerics).run(inputs), expected)


# The drop-in for the interpreter


def test_interpreters_remember_until_they_are_reset(oracle: Oracle) -> None:
    case = summing()
    expected = oracle.run_sequence(case.file, case.invocations, "reference")
    one, other = (Interpreter(model_content=case.file) for _ in range(2))
    for interpreter in (one, other):
        interpreter.allocate_tensors()
        for _ in range(2):
            for inputs, outputs in zip(case.invocations, expected, strict=True):
                interpreter.set_tensor(interpreter.get_input_details()[0]["index"], inputs[0])
                interpreter.invoke()
                details = interpreter.get_output_details()
                expect_equal([interpreter.get_tensor(item["index"]) for item in details], outputs)
            interpreter.reset_all_variables()


def test_variable_tensors_can_be_read() -> None:
    case = draw_model("VARIABLE tensor int32", 0)
    interpreter = Interpreter(model_content=case.file)
    interpreter.allocate_tensors()
    (kept,) = (item["index"] for item in interpreter.get_tensor_details() if item["name"] == "kept")
    assert not interpreter.get_tensor(kept).any()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], case.invocations[0][0])
    interpreter.invoke()
    np.testing.assert_array_equal(interpreter.get_tensor(kept), case.invocations[0][0])
    interpreter.reset_all_variables()
    assert not interpreter.get_tensor(kept).any()


def two_signatures() -> bytes:
    """``grow`` adds to a variable, ``look`` reads it; both initialize it by the same subgraph."""
    type_ = TensorType("float32", (2,))
    model = ModelBuilder()
    model.operator("CALL_ONCE", [], [], init_subgraph_index=2)
    x = T((2,), "float32", None, name="x").add(model)
    variable = handle(model, "v")
    total = add(model, read(model, variable, type_), x, type_)
    model.operator("ASSIGN_VARIABLE", [variable, total], [])
    model.next_subgraph([x], [total])
    model.operator("CALL_ONCE", [], [], init_subgraph_index=2)
    y = T((2,), "float32", None, name="y").add(model)
    model.next_subgraph([y], [add(model, read(model, handle(model, "v"), type_), y, type_)])
    initialize(model, {"v": (type_, np.array([1, 2], np.float32))})
    model.signatures = [("grow", 0), ("look", 1)]
    return model.build([], [])


def test_signatures_share_the_variables_of_an_interpreter(oracle: Oracle) -> None:
    interpreter = Interpreter(model_content=two_signatures())
    grow, look = map(interpreter.get_signature_runner, ("grow", "look"))
    x, zeros = np.array([3, 5], np.float32), np.zeros(2, np.float32)
    (total,) = grow(x=x).values()
    assert total.tolist() == [4, 7]
    (seen,) = look(y=zeros).values()
    assert seen.tolist() == [4, 7]
    interpreter.reset_all_variables()
    (seen,) = look(y=zeros).values()
    assert seen.tolist() == [1, 2]
    (expected,) = oracle.run_signature(two_signatures(), "look", [{"y": x}], "reference")
    session = qimport.compile(two_signatures(), signature="look").session()
    expect_equal(session.call([x]), list(expected.values()))


# What is refused


def test_reading_what_nothing_has_assigned_is_refused() -> None:
    type_ = TensorType("int32", (2,))
    model = ModelBuilder()
    x = T((2,), "int32", None).add(model)
    total = add(model, x, read(model, handle(model, "v"), type_), type_)
    (reason,) = reasons(model.build([x], [total]))
    assert "the variable 'v' is read before anything assigns it" in str(reason)


@pytest.mark.parametrize(
    ("type_", "sentence"),
    [
        (TensorType("int32", (3,)), "the variable 'v' of type i32[2] becomes i32[3]"),
        (TensorType("float32", (2,)), "the variable 'v' of type i32[2] becomes f32[2]"),
    ],
)
def test_variables_keep_their_types(type_: TensorType, sentence: str) -> None:
    model = ModelBuilder()
    x = T(type_.shape, type_.dtype, None).add(model)
    model.operator("CALL_ONCE", [], [], init_subgraph_index=1)
    variable = handle(model, "v")
    before = read(model, variable, TensorType("int32", (2,)))
    model.operator("ASSIGN_VARIABLE", [variable, x], [])
    model.next_subgraph([x], [before])
    initialize(model, {"v": (TensorType("int32", (2,)), np.array([1, 2], np.int32))})
    assert sentence in str(reasons(model.build([], []))[0])


def test_handles_must_be_handles() -> None:
    model = ModelBuilder()
    x = T((2,), "int32", None).add(model)
    y = T((2,), "int32", None).add(model)
    model.operator("READ_VARIABLE", [x], [y])
    with pytest.raises(ModelError, match="operand 0 is no handle of a variable"):
        load(model.build([x], [y]))


def test_initial_content_must_be_known() -> None:
    model = ModelBuilder()
    x = T((2,), "int32", None).add(model)
    model.operator("CALL_ONCE", [], [], init_subgraph_index=7)
    model.operator("RELU", [x], [T((2,), "int32", None).add(model)])
    with pytest.raises(ModelError, match="there is no subgraph 7 to run"):
        load(model.build([x], [x]))


def test_variables_that_nothing_changes_are_constants() -> None:
    type_ = TensorType("float32", (2,))
    model = ModelBuilder()
    model.operator("CALL_ONCE", [], [], init_subgraph_index=1)
    x = T((2,), "float32", None).add(model)
    model.next_subgraph([x], [add(model, x, read(model, handle(model, "v"), type_), type_)])
    initialize(model, {"v": (type_, np.array([1, 2], np.float32))})
    graph = load(model.build([], [])).graph
    assert not graph.states
    assert [value.name for value in graph.constants()] == ["v"]


# Object files


def build_objects(
    folder: Path, case: OneOperator, target: str, numerics: Numerics = "reference", dispatch: bool = False
) -> tuple[list[Path], list[Tensor], list[Tensor]]:
    """The files of a case for a target, and its tensors."""
    stages = trace(case.file, target, numerics=numerics)
    inputs, outputs = ([tensor(i.name, i.type) for i in group] for group in (stages.inputs, stages.outputs))
    chosen = stages.options.target
    levels = levels_of(chosen) if dispatch else ()
    api = interface_of("stream", inputs, outputs, stages.plan, chosen, numerics, levels=levels)
    return Emission(api, stages.plan).write(folder), inputs, outputs


@pytest.mark.parametrize(
    ("compiler", "emulator", "target", "dispatch"),
    [
        (CC, (), "host", False),
        (CROSS_CC, (EMULATOR,), "arm64", False),
        (CROSS_CC, (EMULATOR, "-cpu", "cortex-a76"), "arm64", True),
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["VARIABLE sum int8", "VARIABLE swap int32", "WHILE variable int8"])
def test_example_programs_remember(
    name: str,
    compiler: str,
    emulator: tuple[str, ...],
    target: str,
    dispatch: bool,
    tmp_path: Path,
    oracle: Oracle,
) -> None:
    for tool in (compiler, *emulator[:1]):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    case = draw_model(name, 1)
    expected = oracle.run_sequence(case.file, case.invocations, "reference")
    files, inputs, outputs = build_objects(tmp_path, case, target, dispatch=dispatch)
    objects, header, example = files
    assert f"STREAM_STATE_BYTES {qimport.compile(case.file).state_bytes} " in header.read_text()
    program = tmp_path / "stream"
    run_tool(compiler, *STRICT, *(["-static"] if emulator else []), "-o", program, example, objects)
    arguments: list[Path] = []
    for number, arrays in enumerate(case.invocations):
        paths = [tmp_path / f"in {number} {i}" for i in range(len(inputs))]
        for path, array in zip(paths, arrays, strict=True):
            array.tofile(path)
        arguments += [*paths, *(tmp_path / f"out {number} {i}" for i in range(len(outputs)))]
    run_tool(*emulator, program, *arguments)
    for number, results in enumerate(expected):
        for i, array in enumerate(results):
            assert (tmp_path / f"out {number} {i}").read_bytes() == array.tobytes()


def test_models_without_state_have_no_reset(tmp_path: Path) -> None:
    case = draw_model("IF int8", 0)
    files, _, _ = build_objects(tmp_path, case, "host")
    assert "reset" not in files[1].read_text()


@pytest.mark.parametrize(
    ("shape", "sentence"),
    [((2**30, 1), "it takes 4294967296 bytes; expected less than 2 GiB"), ((2, 0), "becomes f32")],
)
def test_a_variable_tensor_has_a_sensible_size(shape: tuple[int, ...], sentence: str) -> None:
    model = ModelBuilder()
    x, state = model.tensor((2, 1), "float32"), model.tensor(shape, "float32", is_variable=True)
    y = model.tensor(shape, "float32")
    if 0 in shape:
        model.operator("ABS", [x], [state])
    model.operator("ABS", [state], [y])
    with pytest.raises(QimportError, match=sentence):
        qimport.compile(model.build([x], [y]))
