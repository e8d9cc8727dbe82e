"""Importing whole models: input shapes, shape arithmetic, refusals all at once, order."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from qimport.errors import ArgumentError, ModelError, UnsupportedError
from qimport.frontend.importer import import_model
from qimport.frontend.schema import read_model
from qimport.frontend.unsupported import UNKNOWN_CUSTOM
from qimport.ir.graph import verify_graph
from tests.flatbuffer_builder import ModelBuilder
from tests.importer_models import One, T, X, bias, integers, load, reasons, unary


class Chain:
    """A model built operator by operator on one int8 tensor; every tensor has the same quantization."""

    def __init__(self, shape: tuple[int, ...], signature: tuple[int, ...] | None = None) -> None:
        self.model = ModelBuilder()
        self.input = self.last = self.tensor(shape, name="x", shape_signature=signature)
        self.shape, self.signature = shape, signature

    def tensor(self, shape: tuple[int, ...], dtype: str = "int8", **arguments: Any) -> int:
        return T(shape, dtype, **arguments).add(self.model)

    def then(
        self, builtin: str, shape: tuple[int, ...], *operands: int, version: int = 1, **options: Any
    ) -> int:
        """An operator on the last tensor and ``operands``; its result is the last tensor then."""
        arguments = {key: options.pop(key) for key in ("name", "shape_signature", "scale") if key in options}
        out = self.tensor(shape, **arguments)
        self.model.operator(builtin, [self.last, *operands], [out], version, **options)
        self.last = out
        return out

    def file(self, *outputs: int) -> bytes:
        return self.model.build([self.input], list(outputs or [self.last]), "serve")


def keras_tail() -> Chain:
    """What Keras exports for Flatten: RESHAPE to [PACK(STRIDED_SLICE(SHAPE(x))), 48]."""
    chain = Chain((1, 4, 4, 3), (-1, 4, 4, 3))
    model = chain.model
    relu = chain.then("RELU", (1, 4, 4, 3), shape_signature=(-1, 4, 4, 3), name="relu")
    shape, batch, target = (T(size, "int32").add(model) for size in ((4,), (), (2,)))
    zero, one, minus = (integers(number).add(model) for number in (0, 1, 1))
    rest = T((), "int32", data=np.array(48)).add(model)
    model.operator("SHAPE", [relu], [shape], out_type="INT32")
    model.operator("STRIDED_SLICE", [shape, zero, one, minus], [batch], shrink_axis_mask=1)
    model.operator("PACK", [batch, rest], [target], values_count=2, axis=0)
    chain.then("RESHAPE", (1, 48), target, shape_signature=(-1, 48), name="flat")
    return chain


@pytest.mark.parametrize("batch", [1, 5])
def test_the_shape_arithmetic_of_keras_folds_away(batch: int) -> None:
    imported = load(keras_tail().file(), batch=batch)
    assert [node.op.NAME for node in imported.graph.nodes] == ["qnn.relu", "qnn.reshape"]
    assert imported.inputs[0].type.shape == (batch, 4, 4, 3)
    assert imported.outputs[0].type.shape == (batch, 48)


def test_inputs_and_outputs_say_what_the_file_says() -> None:
    imported = load(keras_tail().file())
    (source,), (result,) = imported.inputs, imported.outputs
    assert (source.name, source.index, source.shape_signature) == ("x", 0, (-1, 4, 4, 3))
    assert (result.name, result.index, result.shape_signature) == ("flat", 9, (-1, 48))
    assert str(source.type) == "i8[1x4x4x3]<0x1.0000000000000p-1:0>"
    assert [signature.key for signature in imported.signatures] == ["serve"]
    assert imported.tensors[result.index] is imported.graph.outputs[0]
    verify_graph(imported.graph)


def test_open_dimensions_become_one() -> None:
    chain = Chain((1, 1, 4), (-1, -1, 4))
    chain.then("RELU", (1, 1, 4))
    assert load(chain.file()).inputs[0].type.shape == (1, 1, 4)
    assert load(chain.file(), batch=3).inputs[0].type.shape == (3, 1, 4)


def test_shapes_change_any_dimension_and_win_over_batch() -> None:
    chain = Chain((1, 8, 8, 4), (-1, 8, 8, 4))
    chain.then("AVERAGE_POOL_2D", (1, 4, 4, 4), stride_w=2, stride_h=2, filter_width=2, filter_height=2)
    imported = load(chain.file(), shapes={"x": (2, 6, 9, 4)}, batch=7)
    assert imported.outputs[0].type.shape == (2, 3, 5, 4)


def test_a_signature_names_an_input_too() -> None:
    chain = Chain((1, 4))
    chain.then("RELU", (1, 4))
    model = read_model(chain.file())
    (signature,) = model.signatures
    renamed = type(signature)(signature.key, {"image": 0}, signature.outputs, 0)
    model = type(model)(**{**vars(model), "signatures": (renamed,)})
    assert import_model(model, shapes={"image": (3, 4)}).inputs[0].type.shape == (3, 4)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"batch": 0}, "batch is 0; expected 1 to 2147483647"),
        ({"batch": 2}, "batch 2 fits no input: the file fixes every leading dimension; give shapes instead"),
        ({"shapes": {"y": (1, 4)}}, "the model has no input 'y'; inputs are 'input_0'"),
        ({"shapes": {"input0": (1, 4)}}, "the model has no input 'input0'; did you mean 'input_0'?"),
        (
            {"shapes": {"input_0": (1, 2, 2)}},
            "the shape (1, 2, 2) for input 'input_0' has 3 dimensions; expected 2",
        ),
        (
            {"shapes": {"input_0": (1, -1)}},
            "the shape (1, -1) for input 'input_0' has a size outside 1 to 2147483647",
        ),
        ({"subgraph": 1}, "the model has no subgraph 1; it has 1, from 0 on"),
    ],
)
def test_a_wrong_argument_says_what_would_be_right(arguments: dict[str, Any], sentence: str) -> None:
    model = One("RELU", [T((1, 4), name="input_0")], T((1, 4)))
    with pytest.raises(ArgumentError) as raised:
        model.load(**arguments)
    assert str(raised.value) == sentence


def test_the_batch_that_the_file_fixes_may_be_named() -> None:
    assert One("RELU", [T((3, 4))], T((3, 4))).load(batch=3).inputs[0].type.shape == (3, 4)


def test_an_ambiguous_input_name_is_refused() -> None:
    model = One("ADD", [T((2,), name="x"), T((2,), name="x")], T((2,)))
    assert len(model.load().inputs) == 2
    with pytest.raises(ArgumentError, match="the name 'x' belongs to 2 inputs"):
        model.load(shapes={"x": (2,)})


PINNED = "keep its input shapes, or convert the model with these dimensions open"


def test_a_reshape_that_pins_the_batch_is_named() -> None:
    chain = Chain((1, 2, 4), (-1, 2, 4))
    chain.then("RESHAPE", (8,), integers(8).add(chain.model), name="flat")
    assert load(chain.file()).outputs[0].type.shape == (8,)
    (reason,) = reasons(chain.file(), batch=4)
    assert str(reason) == (
        "operator 0 (RESHAPE), tensor 'x': tensor 'x' of shape (4, 2, 4) does not fit the fixed shape (8,);"
        f" the file pins shape (1, 2, 4) here: {PINNED}"
    )


def test_a_constant_that_pins_the_batch_is_named() -> None:
    one = One(
        "CONCATENATION", [X, T((1, 6, 5, 4), data=True, name="w")], T((1, 12, 5, 4)), options={"axis": 1}
    )
    (reason,) = reasons(one.file(), shapes={"x": (2, 6, 5, 4)})
    assert reason.sentence.endswith(f"the file pins its own sizes here: {PINNED}")


@pytest.mark.parametrize(
    ("builtin", "target", "shape", "batched"),
    [
        ("RESHAPE", (1, 8), (1, 8), (4, 8)),
        ("RESHAPE", (1, 1, 8), (1, 1, 8), (4, 1, 8)),
        ("RESHAPE", (1, -1), (1, 8), (1, 32)),
        ("RESHAPE", (-1, 4), (2, 4), (8, 4)),
        ("BROADCAST_TO", (1, 2, 4), (1, 2, 4), (4, 2, 4)),
    ],
)
def test_a_baked_batch_of_one_follows_the_chosen_batch(
    builtin: str, target: tuple[int, ...], shape: tuple[int, ...], batched: tuple[int, ...]
) -> None:
    chain = Chain((1, 2, 4), (-1, 2, 4))
    version = 2 if builtin == "BROADCAST_TO" else 1
    chain.then(builtin, shape, integers(*target).add(chain.model), version=version)
    assert load(chain.file()).outputs[0].type.shape == shape
    assert load(chain.file(), batch=4).outputs[0].type.shape == batched


@pytest.mark.parametrize(
    ("builtin", "stated", "signature", "target", "shapes"),
    [
        pytest.param("RESHAPE", (1, 2, 4), (1, -1, 4), (1, 8), (1, 6, 4), id="another dimension changes"),
        pytest.param("RESHAPE", (1, 2, 4), (-1, -1, 4), (1, 8), (3, 6, 4), id="two dimensions change"),
        pytest.param("RESHAPE", (1, 2, 4), (-1, 2, 4), (2, 4), (3, 2, 4), id="the target has no batch"),
        pytest.param("RESHAPE", (2, 4), (-1, 4), (1, 8), (3, 4), id="the batch of the file is not 1"),
        pytest.param("BROADCAST_TO", (1, 4), (-1, 4), (1, 2, 4), (3, 4), id="another rank"),
    ],
)
def test_a_baked_batch_stays_where_rows_are_not_provably_apart(
    builtin: str,
    stated: tuple[int, ...],
    signature: tuple[int, ...],
    target: tuple[int, ...],
    shapes: tuple[int, ...],
) -> None:
    chain = Chain(stated, signature)
    version = 2 if builtin == "BROADCAST_TO" else 1
    chain.then(builtin, target, integers(*target).add(chain.model), version=version)
    (reason,) = reasons(chain.file(), shapes={"x": shapes})
    assert reason.sentence.endswith(PINNED)


def test_an_absurd_input_is_refused_without_allocating() -> None:
    chain = Chain((1, 4), (-1, 4))
    chain.then("RELU", (1, 4), name="y")
    sentence = "input 'x' of shape (2147483647, 4) takes 8589934588 bytes; expected less than 2 GiB"
    with pytest.raises(ArgumentError, match=re.escape(sentence)):
        load(chain.file(), batch=2**31 - 1)
    with pytest.raises(ArgumentError, match="input 'x' of shape"):
        load(chain.file(), shapes={"x": (2**20, 2**20)})


def test_an_operator_that_blows_up_its_input_is_named() -> None:
    one = One("TILE", [X, integers(1, 2**15, 2**15, 1)], T((1, 6, 5, 4), name="y"))
    (reason,) = reasons(one.file(), shapes={"x": (1, 6, 5, 5)})
    assert str(reason).startswith("operator 0 (TILE), tensor 'y': tensor 'y' of shape (1, 196608, 163840, 5)")


def test_a_size_of_zero_cannot_be_chosen() -> None:
    with pytest.raises(
        ArgumentError, match=r"the shape \(0, 6, 5, 4\) for input 'x' has a size outside 1 to"
    ):
        load(unary("RELU", X, X).file(), shapes={"x": (0, 6, 5, 4)})


def test_an_empty_input_is_refused() -> None:
    (reason,) = reasons(One("RELU", [T((0, 4), name="x")], T((0, 4))).file())
    assert str(reason) == "model input, tensor 'x': the shape (0, 4) is empty; expected sizes of at least 1"


def test_a_type_no_operator_can_use_is_refused_at_the_input() -> None:
    (reason,) = reasons(One("RESHAPE", [T((1,), "string", None, name="x"), integers(1)], T((1,))).file())
    assert str(reason) == "model input, tensor 'x': the element type string is not supported"


# All reasons at once


def test_every_unsupported_thing_is_reported_at_once() -> None:
    chain = Chain((1, 4))
    chain.then("CUSTOM", (1, 4), custom_code="edge-op")
    chain.then("BUCKETIZE", (1, 4))
    chain.then("RELU", (1, 4), version=9)
    chain.then("LOGISTIC", (1, 4), name="sigmoid")
    chain.then("CALL", (1, 4))
    with pytest.raises(UnsupportedError) as raised:
        load(chain.file())
    assert str(raised.value).splitlines() == [
        "5 unsupported things in the model:",
        f"  operator 0 (CUSTOM edge-op): {UNKNOWN_CUSTOM}",
        "  operator 1 (BUCKETIZE): the operator is not supported",
        "  operator 2 (RELU): version 9 is not supported; expected 1 to 3",
        "  operator 3 (LOGISTIC), tensor 'sigmoid': the scale is 0.5; expected 1/256",
        "  operator 4 (CALL): control flow is not supported",
    ]
    assert raised.value.exit_code == 3


@pytest.mark.parametrize(
    ("builtin", "sentence"),
    [
        ("UNIQUE", "the shape of its results depends on the content of its operands"),
        ("MULTINOMIAL", "it draws random numbers"),
        ("HASHTABLE_SIZE", "tables of strings or numbers that are filled at run time are not supported"),
    ],
)
def test_a_refusal_says_why_there_is_no_importer(builtin: str, sentence: str) -> None:
    (reason,) = reasons(One(builtin, [T((2,), "int32", None)], T((2,), "int32", None)).file())
    assert sentence in str(reason)


def test_an_unsupported_operator_causes_no_other_reasons() -> None:
    """Not even where the file's shapes after it are nonsense, or a shape depends on its content."""
    chain = Chain((1, 4))
    custom = chain.then("CUSTOM", (3,), custom_code="edge-op")
    chain.then("RELU", (7,))
    chain.then("ADD", (2, 2), chain.input)
    target = T((2,), "int32").add(chain.model)
    chain.model.operator("BUCKETIZE", [custom], [target])
    chain.then("RESHAPE", (1, 4), target)
    assert [reason.op for reason in reasons(chain.file())] == ["CUSTOM edge-op", "BUCKETIZE"]


def test_nothing_is_known_behind_an_unsupported_operator_of_other_shapes() -> None:
    chain = Chain((1, 4), (-1, 4))
    chain.then("BUCKETIZE", (1, 4), shape_signature=(-1, 4))
    chain.then("ADD", (1, 4), chain.input)
    assert [reason.op for reason in reasons(chain.file(), batch=2)] == ["BUCKETIZE"]


def test_a_chain_of_operators_on_a_wrong_type_is_reported_in_full() -> None:
    model = ModelBuilder()
    tensors = [T((2,), "int32", None, name=f"f{i}").add(model) for i in range(3)]
    for source, target in pairwise(tensors):
        model.operator("TANH", [source], [target])
    found = reasons(model.build(tensors[:1], tensors[-1:]))
    assert [(reason.op_index, reason.tensor) for reason in found] == [(0, "f0"), (1, "f1")]


def test_only_the_chosen_subgraph_counts() -> None:
    chain = Chain((1, 4))
    chain.then("RELU", (1, 4))
    chain.model.next_subgraph([chain.input], [chain.last])
    x, y = T((1, 2)).add(chain.model), T((1, 2)).add(chain.model)
    chain.model.operator("BUCKETIZE", [x], [y])
    file = chain.model.build([x], [y])
    assert load(file).outputs[0].type.shape == (1, 4)
    assert [reason.op for reason in reasons(file, subgraph=1)] == ["BUCKETIZE"]


# Order and structure


def test_operators_out_of_order_are_a_model_error() -> None:
    model = ModelBuilder()
    x, middle, y = (T((2,), name=name).add(model) for name in ("x", "middle", "y"))
    model.operator("TANH", [middle], [y])
    model.operator("RELU", [x], [middle])
    with pytest.raises(ModelError) as raised:
        load(model.build([x], [y]))
    assert str(raised.value) == (
        "operator 0 (TANH) reads tensor 'middle' before operator 1 (RELU) computes it,"
        " expected operators in the order of execution"
    )


@pytest.mark.parametrize(
    ("outputs", "sentence"),
    [
        ((2, 2), "operator 1 (TANH) computes tensor 'y', which operator 0 (TANH) computes already"),
        ((0,), "operator 0 (TANH) computes tensor 'x', which is an input of the model"),
        ((1,), "operator 0 (TANH) computes tensor 'c', which is a constant"),
    ],
)
def test_a_tensor_is_written_once(outputs: tuple[int, ...], sentence: str) -> None:
    model = ModelBuilder()
    for tensor in (T((2,), name="x"), T((2,), name="c", data=True), T((2,), name="y")):
        tensor.add(model)
    for output in outputs:
        model.operator("TANH", [0], [output])
    with pytest.raises(ModelError) as raised:
        load(model.build([0], [2]))
    assert str(raised.value) == sentence


def test_a_tensor_from_nowhere_is_a_model_error() -> None:
    model = ModelBuilder()
    x, y, lost = (T((2,), name=name).add(model) for name in ("x", "y", "lost"))
    model.operator("ADD", [x, lost], [y])
    with pytest.raises(ModelError, match="reads tensor 'lost', which no operator computes and which has no"):
        load(model.build([x], [y]))


def test_an_output_from_nowhere_is_a_model_error() -> None:
    model = ModelBuilder()
    x, lost = (T((2,), name=name).add(model) for name in ("x", "lost"))
    with pytest.raises(ModelError, match="model output 'lost' is neither computed nor a constant"):
        load(model.build([x], [lost]))


def test_a_model_without_outputs_is_a_model_error() -> None:
    with pytest.raises(ModelError, match="the subgraph has no outputs"):
        load(ModelBuilder().build([], []))


def test_an_input_listed_twice_is_a_model_error() -> None:
    model = ModelBuilder()
    x, y = T((2,), name="x").add(model), T((2,)).add(model)
    model.operator("RELU", [x], [y])
    with pytest.raises(ModelError, match="tensor 'x' is listed twice"):
        load(model.build([x, x], [y]))


def test_a_zero_point_outside_its_type_is_a_model_error() -> None:
    with pytest.raises(ModelError, match="tensor 'x' has zero point 200, expected one of int8: -128 to 127"):
        One("RELU", [T((2,), zero_point=200, name="x")], T((2,))).load()


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf")])
def test_a_scale_that_is_no_positive_number_is_a_model_error(scale: float) -> None:
    with pytest.raises(ModelError, match="tensor 'x'"):
        One("RELU", [T((2,), scale=scale, name="x")], T((2,))).load()


def test_a_constant_of_zeros_may_have_scale_zero() -> None:
    zeros, ones = np.zeros((2, 3), np.int8), np.array([[0, 0, 0], [1, 1, 1]], np.int8)
    for data, scale, valid in ((zeros, 0.0, True), (ones, 0.0, False), (ones, [0.0, 0.5], True)):
        model = One(
            "FULLY_CONNECTED", [T((1, 3)), T((2, 3), scale=scale, data=data, name="w"), None], T((1, 2))
        )
        if valid:
            model.load()
            continue
        with pytest.raises(ModelError, match="tensor 'w' has scale 0, expected a positive number"):
            model.load()


def test_unusual_but_valid_graphs_import() -> None:
    """An input and a constant as outputs, one output twice, equal names, tensors nobody uses."""
    model = ModelBuilder()
    x, c, y, _ = (T((2,), name="t", data=data).add(model) for data in (None, [1, 2], None, None))
    T((0, 3), "string", None, name="unused").add(model)
    model.operator("RELU", [x], [y])
    imported = load(model.build([x], [x, c, y, y]))
    first, constant, third, fourth = imported.graph.outputs
    assert first is imported.graph.inputs[0]
    assert third is fourth
    np.testing.assert_array_equal(constant.data, np.array([1, 2], np.int8))
    assert imported.graph.name == "main"


def test_an_unnamed_tensor_goes_by_its_number() -> None:
    (reason,) = reasons(One("LOGISTIC", [T((2,))], T((2,), name="")).file())
    assert reason.tensor == "#1"


def test_quantization_of_float_tensors_means_nothing() -> None:
    (node,) = One("DEQUANTIZE", [T((2,))], T((2,), "float32", 0.25)).load().graph.nodes
    assert node.outputs[0].type.quantization is None


def test_a_constant_is_one_value_for_all_its_users() -> None:
    chain = Chain((1, 3))
    w = T((3, 3), data=True).add(chain.model)
    b = bias(3).add(chain.model)
    chain.then("FULLY_CONNECTED", (1, 3), w, b)
    chain.then("FULLY_CONNECTED", (1, 3), w, b)
    first, second = load(chain.file()).graph.nodes
    assert first.inputs[1:] == second.inputs[1:]
