"""Oddities of real files: what the interpreter runs must give its bytes in every mode."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import fail, succeed
from importer_models import T, integers

import qimport
from qimport.errors import ArgumentError, UnsupportedError
from qimport.frontend.importer import import_model
from qimport.frontend.schema import read_model
from qimport.ir.parser import parse_graph
from qimport.ir.printer import print_graph
from qimport.numerics import X86_NUMERICS
from qimport.oracle import Oracle, OracleRefused, random_inputs
from qimport.qnn import Conv2d
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


def archive_behind() -> bytes:
    """Associated files, such as labels, are a ZIP archive behind the flatbuffer."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as content:
        content.writestr("labels.txt", "cat\ndog\n")
    return nothing_special() + archive.getvalue()


def nothing_special() -> bytes:
    model, x = start()
    return model.build([x], [relu(model, x)])


def old_operator_code() -> bytes:
    """Before operators had numbers above 127 they stood in a field of one byte."""
    model, x = start()
    y = relu(model, x)
    for code in model.codes:
        code["builtin_code"] = 0
    return model.build([x], [y])


def one_scale_with_an_axis() -> bytes:
    model = ModelBuilder()
    x = T((1, 4), name="x", axis=1).add(model)
    return model.build([x], [relu(model, x)])


def quantized_floats() -> bytes:
    """What trained the model may be left beside float tensors; it means nothing."""
    model = ModelBuilder()
    x, y = (T((1, 4), "float32", 0.25, 3, name=name).add(model) for name in "xy")
    model.operator("RELU", [x], [y])
    return model.build([x], [y])


def dense_file(w: dict[str, Any], bias: dict[str, Any] | None, dtype: str = "int8", **options: Any) -> bytes:
    """FULLY_CONNECTED of 4 elements to 3."""
    model = ModelBuilder()
    x, y = T((2, 4), dtype, name="x"), T((2, 3), dtype, 20.0, name="y")
    codes = np.arange(-6, 6).reshape(3, 4)
    operands = [x.add(model), T((3, 4), data=codes, name="w", **w).add(model)]
    operands.append(-1 if bias is None else T((3,), data=np.arange(-1, 2), name="bias", **bias).add(model))
    out = y.add(model)
    version = 1 if dtype == "int8" else 11
    model.operator("FULLY_CONNECTED", operands, [out], version, **options)
    return model.build(operands[:1], [out])


CHANNELS = {"scale": [0.5, 0.25, 0.125], "zero_point": [0, 0, 0]}


def bias_with_one_scale_for_all_channels() -> bytes:
    return dense_file(CHANNELS, {"dtype": "int32", "scale": 0.25})


def bias_without_scale() -> bytes:
    return dense_file({}, {"dtype": "int32", "scale": None})


def bias_with_another_scale() -> bytes:
    """Up to two hundredths of the result's scale apart from what it should be."""
    return dense_file({}, {"dtype": "int32", "scale": 0.5})


def bias_of_32_bits_for_16_bit_codes() -> bytes:
    return dense_file({}, {"dtype": "int32", "scale": 0.25}, "int16", quantized_bias_type="INT32")


def bias_of_64_bits() -> bytes:
    return dense_file({}, {"dtype": "int64", "scale": 0.25}, "int16")


def no_bias() -> bytes:
    return dense_file({}, None)


def empty_constant_for_a_scalar() -> bytes:
    """RESHAPE to a scalar: its shape has no elements, and no content in the file."""
    model = ModelBuilder()
    x, shape, y = T((1, 1), name="x"), T((0,), "int32", data=np.zeros(0), name="shape"), T((), name="y")
    x, shape, y = (tensor.add(model) for tensor in (x, shape, y))
    model.operator("RESHAPE", [x, shape], [y])
    return model.build([x], [y])


def empty_tensors_nobody_reads() -> bytes:
    model, x = start()
    T((0, 3), name="nothing").add(model)
    T((0,), "float32", None, data=np.zeros(0), name="no numbers").add(model)
    return model.build([x], [relu(model, x)])


FILES: tuple[Callable[[], bytes], ...] = (
    archive_behind,
    old_operator_code,
    one_scale_with_an_axis,
    quantized_floats,
    bias_with_one_scale_for_all_channels,
    bias_without_scale,
    bias_with_another_scale,
    bias_of_32_bits_for_16_bit_codes,
    bias_of_64_bits,
    no_bias,
    empty_constant_for_a_scalar,
    empty_tensors_nobody_reads,
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
    for numerics in X86_NUMERICS:
        session = qimport.compile(file, numerics=numerics).session()
        sequence = [random_inputs(session.inputs, seed) for seed in range(2)]
        expected = oracle.run_sequence(file, sequence, numerics)
        for inputs, outputs in zip(sequence, expected, strict=True):
            found = session.call(inputs)
            assert [array.tobytes() for array in found] == [array.tobytes() for array in outputs]


def test_a_file_that_only_the_interpreter_refuses_runs(oracle: Oracle) -> None:
    """One scale has no dimension, whatever the file says."""
    model = ModelBuilder()
    x = T((1, 4), name="x", axis=7).add(model)
    file = model.build([x], [relu(model, x)])
    with pytest.raises(OracleRefused, match="quantized_dimension must be in range"):
        oracle.details(file)
    (found,) = qimport.compile(file).run([np.array([[-1, 0, 1, 2]], np.int8)])
    assert found.tolist() == [[0, 0, 1, 2]]


def test_operators_whose_result_nobody_reads_are_refused_like_others() -> None:
    model, x = start()
    model.operator("CUSTOM", [x], [T((1, 4), name="unread").add(model)], custom_code="Frobnicate")
    file = model.build([x], [relu(model, x)])
    with pytest.raises(UnsupportedError, match=r"operator 0 \(CUSTOM Frobnicate\): custom operators are not"):
        qimport.compile(file)


def test_operators_on_empty_tensors_are_refused() -> None:
    model, x = start()
    begin, size = (integers(*numbers).add(model) for numbers in ((0, 4), (1, 0)))
    nothing, y = T((1, 0), name="nothing").add(model), T((1, 4), name="y").add(model)
    model.operator("SLICE", [x, begin, size], [nothing])
    model.operator("CONCATENATION", [x, nothing], [y], axis=1, fused_activation_function="NONE")
    with pytest.raises(UnsupportedError) as raised:
        qimport.compile(model.build([x], [y]))
    (reason,) = raised.value.reasons
    assert str(reason) == (
        "operator 0 (SLICE), tensor 'nothing': the shape (1, 0) is empty; expected sizes of at least 1"
    )


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
    for numerics in X86_NUMERICS:
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


def test_the_delegate_leaves_alone_what_has_no_rank_in_the_file(oracle: Oracle) -> None:
    """Behind a shape computed at run time, of operators that ask for the rank."""
    model = ModelBuilder()
    x = model.tensor((1, 4, 4, 2), "int8", 0.5, 3)
    shape = model.tensor((4,), "int32")
    model.operator("SHAPE", [x], [shape], out_type="int32")
    moved = model.tensor((), "int8", 0.5, 3)
    model.operator("RESHAPE", [x, shape], [moved])
    w = model.tensor((3, 1, 1, 2), "int8", 0.25, 0, data=np.arange(6).reshape(3, 1, 1, 2))
    bias = model.tensor((3,), "int32", 0.125, 0, data=np.arange(3))
    y = model.tensor((), "int8", 0.25, -1)
    model.operator("CONV_2D", [moved, w, bias], [y], 3, padding="VALID", stride_w=1, stride_h=1)
    file = model.build([x], [y])

    graph = import_model(read_model(file)).graph
    (convolution,) = [node.op for node in graph.nodes if isinstance(node.op, Conv2d)]
    assert not convolution.delegable
    assert 2 not in oracle.delegated_ops(file)
    assert print_graph(parse_graph(print_graph(graph))) == print_graph(graph)
    inputs = [np.arange(-16, 16, dtype=np.int8).reshape(1, 4, 4, 2)]
    wanted = oracle.run(file, inputs, "xnnpack").outputs
    for found, expected in zip(qimport.compile(file, numerics="xnnpack").run(inputs), wanted, strict=True):
        np.testing.assert_array_equal(found, expected)


def test_a_variable_written_inside_control_flow_is_refused() -> None:
    model = ModelBuilder()
    question, x = model.tensor((), "bool"), model.tensor((2,), "float32")
    y = model.tensor((2,), "float32")
    model.operator("IF", [question, x], [y], then_subgraph_index=1, else_subgraph_index=1)
    model.next_subgraph([question, x], [y])
    x, state = model.tensor((2,), "float32"), model.tensor((2,), "float32", is_variable=True)
    model.operator("ABS", [x], [state])
    with pytest.raises(UnsupportedError, match="variable tensors inside control flow are not supported"):
        qimport.compile(model.build([x], [state]))
