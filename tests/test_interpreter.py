"""The drop-in for ``tf.lite.Interpreter``: details, values, errors and order of calls as in the original.

What the original says was recorded where a test quotes it; details and values are compared live.
"""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from importer_models import One, T

import qimport
from qimport.errors import ArgumentError, ModelError, TargetError, UnsupportedError
from qimport.interpreter import Interpreter
from qimport.numerics import X86_NUMERICS
from qimport.oracle import Oracle, random_inputs
from tests.flatbuffer_builder import ModelBuilder

ROOT = Path(__file__).resolve().parents[1]
MODELS = sorted((ROOT / "models").glob("*.tflite"))
DIGITS = ROOT / "models" / "digits_int8_ptq.tflite"
MOBILE = ROOT / "models" / "mobile_int8.tflite"


class OpResolverType(enum.Enum):
    """Members as in TFLite."""

    AUTO = 0
    BUILTIN = 1
    BUILTIN_REF = 2
    BUILTIN_WITHOUT_DEFAULT_DELEGATES = 3


def ready(file: Path, **keywords: Any) -> Interpreter:
    interpreter = Interpreter(model_path=str(file), **keywords)
    interpreter.allocate_tensors()
    return interpreter


@pytest.mark.parametrize("file", MODELS, ids=lambda file: file.stem)
def test_details_are_the_originals(file: Path, oracle: Oracle) -> None:
    interpreter = ready(file)
    ours = interpreter.get_input_details() + interpreter.get_output_details()
    inputs, outputs = oracle.details(file)
    for found, expected in zip(ours, [*inputs, *outputs], strict=True):
        assert found["name"] == expected.name
        assert found["index"] == expected.index
        assert found["dtype"] == expected.dtype.type
        quantization = found["quantization_parameters"]
        for array, values in (
            (found["shape"], expected.shape),
            (found["shape_signature"], expected.shape_signature),
            (quantization["zero_points"], expected.zero_points),
        ):
            assert array.dtype == np.int32
            assert tuple(array) == values
        assert quantization["scales"].dtype == np.float32
        assert tuple(map(float, quantization["scales"])) == expected.scales
        assert quantization["quantized_dimension"] == expected.quantized_dimension
        assert found["quantization"] == (expected.scales[0], expected.zero_points[0])
        assert found["sparsity_parameters"] == {}


def test_details_of_every_tensor() -> None:
    interpreter = ready(DIGITS)
    details = interpreter.get_tensor_details()
    assert [item["index"] for item in details] == list(range(17))
    weights = details[3]
    assert weights["quantization"] == (0.0, 0)  # several scales do not fit there
    assert len(weights["quantization_parameters"]["scales"]) == 10
    assert details[1]["quantization_parameters"]["scales"].size == 0
    assert details[1]["dtype"] is np.int32
    np.testing.assert_array_equal(interpreter.get_tensor(1), [1, 128])


@pytest.mark.parametrize("numerics", X86_NUMERICS)
@pytest.mark.parametrize("file", MODELS, ids=lambda file: file.stem)
def test_invoke_gives_the_originals_bytes(file: Path, numerics: str, oracle: Oracle) -> None:
    interpreter = ready(file, numerics=numerics)
    inputs, _ = oracle.details(file)
    for seed in range(3):
        arrays = random_inputs(inputs, seed)
        for detail, array in zip(interpreter.get_input_details(), arrays, strict=True):
            interpreter.set_tensor(detail["index"], array)
        interpreter.invoke()
        found = [interpreter.get_tensor(item["index"]) for item in interpreter.get_output_details()]
        expected = oracle.run(file, arrays, numerics).outputs
        assert [a.tobytes() for a in found] == [a.tobytes() for a in expected]


def test_a_resize_compiles_again(oracle: Oracle) -> None:
    interpreter = Interpreter(model_path=MOBILE)
    (detail,) = interpreter.get_input_details()
    interpreter.resize_tensor_input(detail["index"], [4, 24, 24, 1], strict=True)
    assert tuple(interpreter.get_input_details()[0]["shape"]) == (4, 24, 24, 1)
    with pytest.raises(ValueError, match="Tensor is unallocated"):
        interpreter.set_tensor(detail["index"], np.zeros((4, 24, 24, 1), np.int8))
    interpreter.allocate_tensors()
    (result,) = interpreter.get_output_details()
    assert tuple(result["shape"]) == (4, 10)
    assert tuple(result["shape_signature"]) == (-1, 10)
    (array,) = random_inputs(oracle.details(MOBILE, resize={0: (4, 24, 24, 1)})[0], 0)
    interpreter.set_tensor(detail["index"], array)
    interpreter.invoke()
    expected = oracle.run(MOBILE, [array], "reference", resize={0: (4, 24, 24, 1)}).outputs[0]
    np.testing.assert_array_equal(interpreter.get_tensor(result["index"]), expected)
    session = interpreter._parts[0]._session
    interpreter.resize_tensor_input(detail["index"], [4, 24, 24, 1])
    interpreter.allocate_tensors()
    assert interpreter._parts[0]._session is session, "an equal shape costs nothing"


def test_views_are_of_the_buffers() -> None:
    interpreter = ready(DIGITS)
    image = interpreter.tensor(interpreter.get_input_details()[0]["index"])
    scores = interpreter.tensor(interpreter.get_output_details()[0]["index"])
    image()[...] = 5
    interpreter.invoke()
    first = scores().copy()
    assert interpreter.get_tensor(16).tobytes() == first.tobytes()
    image()[...] = 100
    interpreter.invoke()
    assert scores().tobytes() != first.tobytes()
    copy = interpreter.get_tensor(16)
    copy[...] = 0
    assert scores().tobytes() != copy.tobytes()


def test_signatures_run_by_name_at_any_batch(oracle: Oracle) -> None:
    interpreter = Interpreter(model_path=MOBILE)
    expected = {"serving_default": {"inputs": ["image"], "outputs": ["output_0"]}}
    assert interpreter.get_signature_list() == expected
    for runner in (interpreter.get_signature_runner(), interpreter.get_signature_runner("serving_default")):
        for batch in (1, 3):
            image = np.full((batch, 24, 24, 1), 17, np.int8)
            result = runner(image=image)
            answer = oracle.run(MOBILE, [image], "reference", resize={0: image.shape}).outputs[0]
            assert list(result) == ["output_0"]
            np.testing.assert_array_equal(result["output_0"], answer)
        assert runner.get_input_details()["image"]["name"] == "serving_default_image:0"
        assert tuple(runner.get_output_details()["output_0"]["shape"]) == (3, 10)


def test_models_without_signature_have_no_runner() -> None:
    interpreter = Interpreter(model_path=DIGITS)
    assert interpreter.get_signature_list() == {}
    with pytest.raises(ValueError, match="signature_key is None and model has 0 Signatures"):
        interpreter.get_signature_runner()
    with pytest.raises(ValueError, match='Invalid signature_key provided: "nope"'):
        interpreter.get_signature_runner("nope")


def test_wrong_arguments_of_a_signature() -> None:
    runner = Interpreter(model_path=MOBILE).get_signature_runner()
    image = np.zeros((1, 24, 24, 1), np.int8)
    with pytest.raises(ValueError, match=r"Invalid Input name \(foo\) for SignatureDef"):
        runner(foo=image)
    with pytest.raises(ValueError, match="expected 1 vs provided 0"):
        runner()


def two_inputs() -> bytes:
    model = ModelBuilder()
    a, b, y = (T((1, 4), name=name).add(model) for name in ("same", "same", "y"))
    model.operator("ADD", [a, b], [y])
    return model.build([a, b], [y])


def test_inputs_of_equal_name_are_told_apart_by_index(oracle: Oracle) -> None:
    file = two_inputs()
    interpreter = Interpreter(model_content=file)
    interpreter.allocate_tensors()
    arrays = random_inputs(oracle.details(file)[0], 0)
    for index, array in enumerate(arrays):
        interpreter.set_tensor(index, array)
    interpreter.invoke()
    expected = oracle.run(file, arrays, "reference").outputs[0]
    np.testing.assert_array_equal(interpreter.get_tensor(2), expected)
    interpreter.resize_tensor_input(1, (3, 4))
    interpreter.allocate_tensors()
    assert interpreter.get_tensor(0).shape == (1, 4)
    assert interpreter.get_tensor(1).shape == (3, 4)
    assert interpreter.get_tensor(2).shape == (3, 4)


def test_inputs_that_do_not_exist_cannot_be_resized() -> None:
    interpreter = Interpreter(model_content=two_inputs())
    for index in (-1, 9):
        with pytest.raises(RuntimeError, match=f"Invalid tensor index {index}"):
            interpreter.resize_tensor_input(index, (1, 4))
    with pytest.raises(RuntimeError, match=r"input 0 cannot have the shape \(-1, 4\)"):
        interpreter.resize_tensor_input(0, (-1, 4))


def test_all_tensors_can_be_kept(oracle: Oracle) -> None:
    interpreter = Interpreter(model_path=DIGITS, experimental_preserve_all_tensors=True)
    interpreter.allocate_tensors()
    arrays = random_inputs(oracle.details(DIGITS)[0], 0)
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], arrays[0])
    interpreter.invoke()
    expected = oracle.run(DIGITS, arrays, "reference", tensors=True).tensors
    assert len(expected) > 10
    for index, array in expected.items():
        np.testing.assert_array_equal(interpreter.get_tensor(index), array)


def test_nothing_is_delegated_where_all_tensors_are_kept() -> None:
    for resolver, numerics in (("AUTO", "builtin"), ("BUILTIN", "builtin"), ("BUILTIN_REF", "reference")):
        interpreter = Interpreter(
            model_path=DIGITS,
            experimental_op_resolver_type=resolver,
            experimental_preserve_all_tensors=True,
            experimental_compress_quantization_zero_points=True,
        )
        assert interpreter.numerics == numerics
        assert interpreter.experimental_compress_quantization_zero_points


def test_subgraphs_are_counted_and_checked() -> None:
    interpreter = ready(DIGITS)
    assert interpreter.num_subgraphs() == 1
    assert len(interpreter.get_tensor_details(0)) == 17
    for call in (interpreter.get_tensor_details, lambda number: interpreter.get_tensor(0, number)):
        with pytest.raises(ValueError, match="Invalid subgraph index 9 exceeds max subgraph index 1"):
            call(9)


def test_errors_are_caught_as_the_originals() -> None:
    with pytest.raises(ValueError, match="identifier"):
        Interpreter(model_content=b"not a model")
    interpreter = Interpreter(model_path=DIGITS)
    for shape in ((1, 32, 8, 1), (1, 8, 8), (0, 8, 8, 1)):
        interpreter.resize_tensor_input(0, shape)
        with pytest.raises(RuntimeError):
            interpreter.allocate_tensors()
    interpreter.resize_tensor_input(0, (1, 8, 8, 1))
    interpreter.allocate_tensors()


def test_calls_out_of_order() -> None:
    interpreter = Interpreter(model_path=DIGITS)
    with pytest.raises(RuntimeError, match="Invoke called on model that is not ready"):
        interpreter.invoke()
    with pytest.raises(ValueError, match=r"Tensor data is null. Run allocate_tensors\(\) first"):
        interpreter.get_tensor(16)
    with pytest.raises(ValueError, match=r"Tensor is unallocated\. Try calling allocate_tensors"):
        interpreter.set_tensor(0, np.zeros((1, 8, 8, 1), np.int8))


@pytest.mark.parametrize(
    ("index", "value", "sentence"),
    [
        (0, np.zeros((1, 8, 8, 1), np.float32), "FLOAT32 but expected type INT8 for input 0, name: image"),
        (0, np.zeros((1, 8, 8, 1), np.float32), r"real = 0.00392156886 \* \(code - -128\)"),
        (0, np.zeros((1, 8, 8, 1), np.int64), "Got value of type INT64 but expected type INT8"),
        (0, np.zeros((8, 8, 1), np.int8), "Dimension mismatch. Got 3 but expected 4 for input 0."),
        (0, np.zeros((1, 9, 8, 1), np.int8), "Got 9 but expected 8 for dimension 1 of input 0."),
        (999, np.zeros(1), "Invalid tensor index 999 exceeds max tensor index 17"),
        (-1, np.zeros(1), "Invalid tensor index -1"),
        (16, np.zeros((1, 10), np.int8), "'Identity' .* is no input"),
    ],
)  # fmt: skip
def test_wrong_values(index: int, value: object, sentence: str) -> None:
    interpreter = ready(DIGITS)
    with pytest.raises(ValueError, match=sentence) as caught:
        interpreter.set_tensor(index, value)
    assert isinstance(caught.value, ArgumentError)
    assert caught.value.exit_code == 4


def test_tensors_in_between_are_not_kept() -> None:
    interpreter = ready(DIGITS)
    with pytest.raises(ValueError, match=r"tensor 10 .* is neither input, output nor constant"):
        interpreter.get_tensor(10)


def test_strict_resizing_changes_open_dimensions_only() -> None:
    interpreter = Interpreter(model_path=MOBILE)
    with pytest.raises(
        RuntimeError, match="Attempting to resize dimension 1 of tensor 0 with value 24 to 25"
    ):
        interpreter.resize_tensor_input(0, [1, 25, 24, 1], strict=True)
    with pytest.raises(RuntimeError, match="4 dimensions to 2"):
        interpreter.resize_tensor_input(0, [1, 25], strict=True)
    with pytest.raises(ValueError, match="is no input and cannot be resized"):
        interpreter.resize_tensor_input(51, [1, 10])
    interpreter.resize_tensor_input(0, [2, 3])
    with pytest.raises(ArgumentError, match="has 2 dimensions; expected 4"):
        interpreter.allocate_tensors()


def test_wrong_arguments_of_the_constructor(tmp_path: Path) -> None:
    content = DIGITS.read_bytes()
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("`model_path` or `model_content` must be specified", {}),
        ("Can't both provide", {"model_path": DIGITS, "model_content": content}),
        ("Could not open '.*nowhere'", {"model_path": tmp_path / "nowhere"}),
        ("num_threads should >= 1", {"model_content": content, "num_threads": 0}),
        ("type of num_threads should be int", {"model_content": content, "num_threads": "2"}),
        ("delegates cannot be used", {"model_content": content, "experimental_delegates": [object()]}),
        (
            "Unrecognized .* op resolver type: 7",
            {"model_content": content, "experimental_op_resolver_type": 7},
        ),
    ]
    for sentence, keywords in wrong:
        with pytest.raises(ValueError, match=sentence):
            Interpreter(**keywords)
    with pytest.raises(ArgumentError, match="unknown numerics mode 'fast'"):
        Interpreter(model_content=content, numerics="fast")
    with pytest.raises(TargetError, match="unknown target"):
        Interpreter(model_content=content, target="z80")
    with pytest.raises(ModelError):
        Interpreter(model_content=b"abcdefgh")


@pytest.mark.parametrize(
    ("resolver", "numerics"),
    [
        (OpResolverType.AUTO, "xnnpack"),
        (OpResolverType.BUILTIN, "xnnpack"),
        (OpResolverType.BUILTIN_REF, "reference"),
        (OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES, "builtin"),
        (None, "reference"),
    ],
)
def test_the_op_resolver_chooses_the_numerics(resolver: Any, numerics: str) -> None:
    assert Interpreter(DIGITS, experimental_op_resolver_type=resolver).numerics == numerics
    chosen = Interpreter(DIGITS, experimental_op_resolver_type=resolver, numerics="builtin")
    assert chosen.numerics == "builtin"


def test_num_threads_and_targets_change_no_byte() -> None:
    results = []
    for keywords in ({}, {"num_threads": 4}, {"target": "x86-64"}):
        if keywords.get("target") and qimport.compile(DIGITS).target.architecture.name != "x86-64":
            continue
        interpreter = ready(DIGITS, **keywords)
        interpreter.set_tensor(0, np.full((1, 8, 8, 1), 3, np.int8))
        interpreter.invoke()
        interpreter.reset_all_variables()
        results.append(interpreter.get_tensor(16).tobytes())
    assert len(set(results)) == 1


def test_what_cannot_be_compiled_is_refused_at_allocation() -> None:
    interpreter = Interpreter(model_content=One("COS", [T((2,))], T((2,))).file())
    with pytest.raises(UnsupportedError, match="COS"):
        interpreter.allocate_tensors()
    with pytest.raises(RuntimeError, match="not ready"):
        interpreter.invoke()
