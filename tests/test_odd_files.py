"""Oddities of real files: what the interpreter runs must give its bytes in every mode."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from command_line import fail, succeed
from importer_models import T, integers

import qimport
from qimport.errors import ArgumentError
from qimport.ir.graph import NUMERICS
from qimport.oracle import Oracle, OracleRefused, random_inputs
from qimport.verify import verify_model
from tests.flatbuffer_builder import ModelBuilder


def relu(model: ModelBuilder, x: int, name: str = "y") -> int:
    """RELU of a tensor of four codes."""
    y = T((1, 4), name=name).add(model)
    model.operator("RELU", [x], [y])
    return y


def start() -> tuple[ModelBuilder, int]:
    """A model and its input."""
    model = ModelBuilder()
    return model, T((1, 4), name="x").add(model)


def input_is_output() -> bytes:
    model, x = start()
    return model.build([x], [x, relu(model, x), x])


def nothing_to_do() -> bytes:
    model, x = start()
    return model.build([x], [x])


def one_result_twice() -> bytes:
    model, x = start()
    y = relu(model, x)
    return model.build([x], [y, relu(model, y), y])


def constant_output() -> bytes:
    model, x = start()
    known = T((1, 4), data=np.arange(4), name="known").add(model)
    return model.build([x], [known, relu(model, x)])


def result_of_constants() -> bytes:
    model, x = start()
    known = T((1, 4), data=np.arange(-2, 2), name="known").add(model)
    return model.build([x], [relu(model, known), relu(model, x)])


def unused_tensors() -> bytes:
    model, x = start()
    T((3, 3), name="scratch").add(model)
    T((2,), data=True, name="forgotten").add(model)
    T((5,), "float32", None, is_variable=True, name="never touched").add(model)
    relu(model, x, "nobody reads this")
    return model.build([x], [relu(model, x)])


def unused_input() -> bytes:
    model, x = start()
    other = T((2, 3), name="other").add(model)
    return model.build([other, x], [relu(model, x)])


def equal_names() -> bytes:
    model = ModelBuilder()
    a, b, c = (T((1, 4), name="t").add(model) for _ in range(3))
    model.operator("ADD", [a, b], [c], fused_activation_function="NONE")
    return model.build([a, b], [c, relu(model, c, "t")])


def no_names() -> bytes:
    model = ModelBuilder()
    x = T((1, 4), name="").add(model)
    return model.build([x], [relu(model, x, "")])


FILES: tuple[Callable[[], bytes], ...] = (
    input_is_output,
    nothing_to_do,
    one_result_twice,
    constant_output,
    result_of_constants,
    unused_tensors,
    unused_input,
    equal_names,
    no_names,
)


@pytest.mark.parametrize("make", FILES, ids=lambda make: make.__name__)
def test_odd_files_run(make: Callable[[], bytes], oracle: Oracle) -> None:
    file = make()
    for numerics in NUMERICS:
        session = qimport.compile(file, numerics=numerics).session()
        sequence = [random_inputs(session.inputs, seed) for seed in range(2)]
        expected = oracle.run_sequence(file, sequence, numerics)
        for inputs, outputs in zip(sequence, expected, strict=True):
            found = session.call(inputs)
            assert [array.tobytes() for array in found] == [array.tobytes() for array in outputs]


def test_equal_names_are_told_apart_by_position_only() -> None:
    model = qimport.compile(equal_names())
    arrays = random_inputs(model.inputs, 0)
    assert len(model.run(arrays)) == 2
    with pytest.raises(ArgumentError, match="the name 't' belongs to 2 inputs"):
        model.run({"t": arrays[0]})


# Batches


def baked_batch() -> bytes:
    """A network whose RESHAPE and BROADCAST_TO have the batch of 1 baked in."""
    model = ModelBuilder()
    x = T((1, 2, 3), name="x", shape_signature=(-1, 2, 3)).add(model)
    target, spread = (integers(*sizes).add(model) for sizes in ((1, 6), (1, 6)))
    flat, wide = (T((1, 6), name=name).add(model) for name in ("flat", "wide"))
    y = T((1, 6), scale=1 / 256, zero_point=-128, name="y").add(model)
    model.operator("RESHAPE", [x, target], [flat])
    model.operator("BROADCAST_TO", [flat, spread], [wide], version=2)
    model.operator("SOFTMAX", [wide], [y], beta=1.0)
    return model.build([x], [y])


def test_a_baked_batch_is_what_the_interpreter_does_row_by_row(oracle: Oracle) -> None:
    file = baked_batch()
    for numerics in NUMERICS:
        model = qimport.compile(file, numerics=numerics, batch=3)
        (rows,) = random_inputs(model.inputs, 0)
        with pytest.raises(OracleRefused):
            oracle.run(file, [rows], numerics, resize={0: rows.shape})
        (found,) = model.run([rows])
        for row, result in zip(rows, found, strict=True):
            (expected,) = oracle.run(file, [row[None]], numerics).outputs
            assert result[None].tobytes() == expected.tobytes()


# Signatures


def signatures() -> bytes:
    """Subgraph 0 is ``clip``; subgraph 1, of two inputs, is ``add``."""
    model, x = start()
    model.next_subgraph([x], [relu(model, x)])
    a, b, c = (T((1, 4), name=name).add(model) for name in "abc")
    model.operator("ADD", [a, b], [c], fused_activation_function="NONE")
    model.signatures = [("clip", 0), ("add", 1)]
    return model.build([a, b], [c])


def test_a_signature_chooses_its_subgraph(oracle: Oracle) -> None:
    model = qimport.compile(signatures(), signature="add")
    inputs = dict(zip("ab", random_inputs(model.inputs, 0), strict=True))
    (expected,) = oracle.run_signature(signatures(), "add", [inputs], "reference")
    (found,) = model.run(inputs)
    assert found.tobytes() == expected["c"].tobytes()
    assert [item.key for item in model.signatures] == ["add"]
    report = verify_model(signatures(), oracle, signature="add")
    assert report.equal
    assert report.elements == 12


def test_unknown_signatures_are_told_with_the_known_ones() -> None:
    with pytest.raises(ArgumentError, match="unknown signature 'subtract'; known: clip, add"):
        qimport.compile(signatures(), signature="subtract")
    with pytest.raises(ArgumentError, match="there is no signature 'x': the model has none"):
        qimport.compile(nothing_to_do(), signature="x")


def test_tensors_of_other_subgraphs_are_not_compared(oracle: Oracle) -> None:
    with pytest.raises(ArgumentError, match="only in the first subgraph"):
        verify_model(signatures(), oracle, signature="add", per_layer=True)


def test_commands_take_a_signature(tmp_path: Path) -> None:
    path = tmp_path / "two.tflite"
    path.write_bytes(signatures())
    for command in (("inspect",), ("check",), ("run", "--random", "0"), ("build", "-o", tmp_path)):
        succeed(command[0], path, *command[1:], "--signature", "add")
        assert "unknown signature 'ad'; did you mean 'add'?" in fail(
            4, command[0], path, *command[1:], "--signature", "ad"
        )
    assert "TWO_INPUTS 2" in (tmp_path / "two.h").read_text()
