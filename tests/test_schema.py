"""Reading .tflite files: what is written comes out, and the lists of the schema are the published ones."""

from __future__ import annotations

import re
import struct
import time
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import pytest
import tflite

from qimport.errors import ModelError
from qimport.frontend import catalogue
from qimport.frontend.options import TABLE_OF
from qimport.frontend.schema import Signature, read_model
from qimport.oracle import Oracle
from tests.flatbuffer_builder import OPTIONS_CLASS, ModelBuilder
from tests.schema_models import one_tensor, small_model

# Files of the zoo that are no models, and the field that says so. The interpreter refuses each of them too.
MALFORMED = {
    "BADINPUT_flutter__bad_model": None,
    "BADINPUT_litert__0_subgraphs": "subgraphs",
    "litert__lstm_quantized2": "subgraphs[0].tensors[23].shape",
}


# --- the lists of the schema ----------------------------------------------------------------------


def members(enum: type) -> dict[str, int]:
    return {name: value for name, value in vars(enum).items() if not name.startswith("_")}


def test_lists_agree_with_the_published_schema() -> None:
    """Ours may be newer at the end; what the package knows has the same number here."""
    operators = members(tflite.BuiltinOperator)
    assert {name: catalogue.OPERATORS.index(name) for name in operators} == operators
    types = members(tflite.TensorType)
    assert {name: catalogue.TENSOR_TYPES.index(name.lower()) for name in types} == types
    for ours, theirs in (
        (catalogue.OPTIONS_UNION, tflite.BuiltinOptions),
        (catalogue.OPTIONS_UNION_2, tflite.BuiltinOptions2),
    ):
        numbers = members(theirs)
        assert {name: ours.index(name.removesuffix("Options")) for name in numbers} == numbers


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("Activation", tflite.ActivationFunctionType),
        ("Padding", tflite.Padding),
        ("MirrorPad", tflite.MirrorPadMode),
        ("WeightsFormat", tflite.FullyConnectedOptionsWeightsFormat),
        ("LstmKernel", tflite.LSTMKernelType),
        ("Combiner", tflite.CombinerType),
        ("LshProjection", tflite.LSHProjectionType),
        ("ReduceWindow", tflite.ReduceWindowFunction),
        ("AttributesFormat", tflite.CustomOptionsFormat),
    ],
)
def test_enumerations_agree_with_the_published_schema(ours: str, theirs: type) -> None:
    assert {name: number for number, name in enumerate(catalogue.ENUMS[ours])} == members(theirs)


def camel(name: str) -> str:
    return "".join(word[:1].upper() + word[1:] for word in name.split("_"))


@pytest.mark.parametrize("builtin", sorted(TABLE_OF))
def test_every_option_is_read_and_has_the_default_of_the_schema(builtin: str) -> None:
    """Each field is written alone, with a value of its own; an empty table gives the schema's defaults."""
    names = [name for name in vars(tflite) if name.startswith(f"{OPTIONS_CLASS[builtin]}Add")]
    written = {name.removeprefix(f"{OPTIONS_CLASS[builtin]}Add").lower() for name in names}
    fields = [field for field in TABLE_OF[builtin].fields if camel(field.name).lower() in written]
    newer = {"quant_spec"}
    assert {field.name for field in TABLE_OF[builtin].fields} - {field.name for field in fields} <= newer
    assert len(fields) == len(written)
    for position, field in enumerate(fields):
        value = sample(field.kind, field.names, position)
        assert options_of(builtin, **{field.name: value})[field.name] == value
    accessor = getattr(tflite, OPTIONS_CLASS[builtin])()
    accessor.Init(*empty_table())
    defaults = options_of(builtin)
    for field in fields:
        if not field.kind.startswith("["):
            default = getattr(
                accessor, next(a for a in dir(accessor) if a.lower() == camel(field.name).lower())
            )()
            found = defaults[field.name]
            assert (field.names.index(found) if field.names else found) == default


def sample(kind: str, names: tuple[str, ...], position: int) -> Any:
    """A value that differs from the default and, where it can, from the samples of the other fields."""
    if names:
        return names[-1] if names is not catalogue.TENSOR_TYPES else "int16"
    samples = {"bool": True, "float32": 0.5 + position, "string": f"s{position}", "[uint8]": b"\x01\x02"}
    if kind == "[float32]":
        return (0.5, 1.5)
    return samples.get(kind, (position + 2, -1) if kind.startswith("[") else position + 2)


def options_of(builtin: str, with_options: bool = True, **options: Any) -> Any:
    builder = ModelBuilder()
    builder.operator(builtin, [], [])
    builder.subgraphs[0].operators[0].options = options if with_options else None
    return read_model(builder.build([], [])).subgraphs[0].operators[0].options


def empty_table() -> tuple[bytearray, int]:
    builder = flatbuffers.Builder(16)
    builder.StartObject(0)
    builder.Finish(builder.EndObject())
    data = builder.Output()
    return data, struct.unpack_from("<I", data)[0]


def test_options_that_are_not_written_differ_from_options_without_table() -> None:
    """The interpreter applies the schema's defaults to a present table and leaves an absent one zeroed."""
    assert options_of("ADD") == {"fused_activation_function": "NONE", "pot_scale_int16": True}
    assert options_of("ADD", with_options=False)["pot_scale_int16"] is False


def test_operators_without_option_table_have_no_options() -> None:
    assert options_of("LOGISTIC") == {}
    assert options_of("PAD") == {}


# --- round trips ----------------------------------------------------------------------------------


def test_model_is_read_as_written() -> None:
    builder = small_model()
    builder.metadata("min_runtime_version", b"1.5.0")
    model = read_model(builder.build([0], [3], "serving_default"))
    assert (model.version, model.description) == (3, "test model")
    assert {name: bytes(data or b"") for name, data in model.metadata.items()} == {
        "min_runtime_version": b"1.5.0"
    }
    assert model.signatures == (Signature("serving_default", {"image": 0}, {"out": 3}, subgraph=0),)
    (graph,) = model.subgraphs
    assert (graph.name, graph.inputs, graph.outputs) == ("main", (0,), (3,))
    (conv,) = graph.operators
    assert (conv.builtin, conv.version, conv.inputs, conv.outputs) == ("CONV_2D", 3, (0, 1, 2), (3,))
    assert conv.options == {
        "padding": "SAME", "stride_w": 1, "stride_h": 2, "fused_activation_function": "RELU6",
        "dilation_w_factor": 1, "dilation_h_factor": 1, "quantized_bias_type": "float32",
    }  # fmt: skip
    image, weights, bias, _ = graph.tensors
    assert (image.name, image.shape, image.shape_signature) == ("image", (1, 4, 4, 2), (-1, 4, 4, 2))
    assert image.data is None
    assert image.quantization is not None
    assert image.quantization.zero_points.tolist() == [-3]
    assert weights.quantization is not None
    assert weights.quantization.scales.tolist() == np.float32([0.1, 0.2, 0.3]).tolist()
    np.testing.assert_array_equal(weights.data, np.arange(6, dtype=np.int8).reshape(3, 1, 1, 2), strict=True)
    np.testing.assert_array_equal(bias.data, np.int32([1, -2, 3]), strict=True)


def test_constants_are_read_only_views_of_the_file() -> None:
    file = bytearray(small_model().build([0], [3]))
    weights = read_model(memoryview(file)).subgraphs[0].tensors[1]
    assert weights.data is not None
    assert not weights.data.flags.writeable
    before = weights.data.copy()
    file[:] = bytes(255 - byte for byte in file)
    assert (weights.data == ~before).all()


@pytest.mark.parametrize(
    "dtype",
    [
        "bool",
        "int8",
        "uint8",
        "int16",
        "uint16",
        "int32",
        "uint32",
        "int64",
        "uint64",
        "float16",
        "float32",
        "float64",
        "complex64",
    ],
)
def test_constants_keep_their_element_type(dtype: str) -> None:
    values = np.arange(6).reshape(2, 3).astype(dtype)
    (tensor,) = read_model(one_tensor((2, 3), dtype, data=values)).subgraphs[0].tensors
    assert tensor.dtype == dtype
    np.testing.assert_array_equal(tensor.data, values, strict=True)


@pytest.mark.parametrize(
    ("dtype", "packed", "values"),
    [
        ("int4", b"\x8f\x07", [-1, -8, 7]),
        ("uint4", b"\x8f\x07", [15, 8, 7]),
        ("int2", b"\xe4", [0, 1, -2]),
    ],
)
def test_small_integers_are_unpacked_from_the_low_end(dtype: str, packed: bytes, values: list[int]) -> None:
    (tensor,) = read_model(one_tensor((3,), dtype, data=packed)).subgraphs[0].tensors
    expected = np.asarray(values, np.uint8 if dtype == "uint4" else np.int8)
    np.testing.assert_array_equal(tensor.data, expected, strict=True)


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e5m2"])
def test_types_unknown_to_numpy_come_as_bit_patterns(dtype: str) -> None:
    width = 2 if dtype == "bfloat16" else 1
    code = catalogue.TENSOR_TYPES.index(dtype)
    (tensor,) = read_model(one_tensor((2,), code, data=b"\x01\x80\x02\x81"[: 2 * width])).subgraphs[0].tensors
    assert tensor.dtype == dtype
    assert tensor.data is not None
    assert tensor.data.tolist() == ([0x8001, 0x8102] if width == 2 else [0x01, 0x80])


def test_strings_have_no_size_to_check() -> None:
    (tensor,) = read_model(one_tensor((4,), "string", data=b"\x00\x01\x02")).subgraphs[0].tensors
    assert tensor.data is not None
    assert tensor.data.tolist() == [0, 1, 2]


def test_empty_constant_differs_from_an_activation() -> None:
    """The shape of a scalar is a constant of no bytes: its buffer has data, if none of it."""
    (constant,) = read_model(one_tensor((0,), "int32", data=b"")).subgraphs[0].tensors
    assert constant.data is not None
    assert constant.data.shape == (0,)
    (activation,) = read_model(one_tensor((0,), "int32")).subgraphs[0].tensors
    assert activation.data is None


def test_buffers_behind_the_flatbuffer_are_read() -> None:
    builder = small_model()
    inside, outside = (read_model(builder.build([0], [3], outside=flag)) for flag in (False, True))
    assert [bytes(data or b"") for data in inside.buffers] == [bytes(data or b"") for data in outside.buffers]


def test_metadata_appended_as_an_archive_is_ignored() -> None:
    file = small_model().build([0], [3])
    assert read_model(file + b"PK\x03\x04labels.txt" * 9).subgraphs[0].operators[0].builtin == "CONV_2D"


@pytest.mark.parametrize(
    ("deprecated", "code", "name"),
    [(3, 0, "CONV_2D"), (3, 3, "CONV_2D"), (127, 150, "GELU"), (127, 230, "UNKNOWN_230"), (0, 0, "ADD")],
)
def test_operator_code_is_the_larger_of_the_two_fields(deprecated: int, code: int, name: str) -> None:
    builder = ModelBuilder()
    builder.operator("ADD", [], [])
    builder.codes[0].update(builtin_code=code, deprecated_builtin_code=deprecated)
    assert read_model(builder.build([], [])).subgraphs[0].operators[0].builtin == name


def test_custom_operators_keep_their_code_and_bytes() -> None:
    builder = ModelBuilder()
    builder.operator("CUSTOM", [], [], custom_code="ethos-u", custom_options=b"\x01\x02")
    (operator,) = read_model(builder.build([], [])).subgraphs[0].operators
    assert (operator.builtin, operator.custom_code) == ("CUSTOM", "ethos-u")
    assert bytes(operator.custom_options or b"") == b"\x01\x02"


def test_absent_operands_are_minus_one() -> None:
    builder = small_model()
    builder.operator("FULLY_CONNECTED", [0, 1, -1], [3], intermediates=[-1, 0])
    operator = read_model(builder.build([0], [3])).subgraphs[0].operators[1]
    assert (operator.inputs, operator.intermediates) == ((0, 1, -1), (-1, 0))


def test_several_subgraphs_keep_their_own_tensors() -> None:
    builder = small_model()
    builder.next_subgraph([0], [3], "second")
    index = builder.tensor((2,), "float32", name="only")
    model = read_model(builder.build([index], [index], "call"))
    assert [(graph.name, len(graph.tensors)) for graph in model.subgraphs] == [("main", 4), ("second", 1)]
    assert model.signatures[0].subgraph == 1


def test_odd_quantization_is_kept_as_read() -> None:
    """A single scale has no axis, and converters write scale 0 for constants that are zero throughout."""
    (tensor,) = read_model(one_tensor((2,), "int8", 0.0, 300, axis=9)).subgraphs[0].tensors
    assert tensor.quantization is not None
    assert (tensor.quantization.scales.tolist(), tensor.quantization.axis) == ([0.0], 9)
    assert tensor.quantization.zero_points.tolist() == [300]


def test_names_need_not_be_utf8() -> None:
    file = one_tensor((1,), "int8", name="name")
    (tensor,) = read_model(file.replace(b"name", b"n\xffm\x80")).subgraphs[0].tensors
    assert tensor.name == "n\ufffdm\ufffd"


def test_interpreter_reads_built_models_alike(oracle: Oracle) -> None:
    """The builder writes what the interpreter loads, with constants inside and behind the flatbuffer."""
    image = np.arange(32, dtype=np.int8).reshape(1, 4, 4, 2)
    inside, outside = (
        oracle.run(small_model().build([0], [3], "serving_default", outside=flag), [image], "reference")
        for flag in (False, True)
    )
    np.testing.assert_array_equal(inside.outputs[0], outside.outputs[0], strict=True)
    assert inside.outputs[0].shape == (1, 2, 4, 3)


# --- real models ----------------------------------------------------------------------------------


def test_zoo_model(zoo_model: Path) -> None:
    """A file reads within a second and as the generated accessors read it, or is known to be malformed."""
    data = zoo_model.read_bytes()
    if zoo_model.stem in MALFORMED:
        with pytest.raises(ModelError) as caught:
            read_model(data)
        assert caught.value.field == MALFORMED[zoo_model.stem]
    else:
        same_model(data)


def test_bench_model(bench_model: Path) -> None:
    same_model(bench_model.read_bytes())


def same_model(data: bytes) -> None:
    start = time.perf_counter()
    model = read_model(data)
    assert time.perf_counter() - start < 1
    theirs = tflite.Model.GetRootAs(data)
    assert len(model.subgraphs) == theirs.SubgraphsLength()
    for number, graph in enumerate(model.subgraphs):
        other = theirs.Subgraphs(number)
        assert len(graph.tensors) == other.TensorsLength()
        for tensor in graph.tensors:
            same_tensor(tensor, other.Tensors(tensor.index), theirs)
        assert len(graph.operators) == other.OperatorsLength()
        for operator in graph.operators:
            same_operator(operator, other.Operators(operator.index), theirs)


def listed(vector: Any) -> list[Any]:
    """A vector as the generated accessors give it: an array, or 0 when the field is absent."""
    return [] if isinstance(vector, int) else vector.tolist()


def same_tensor(tensor: Any, theirs: Any, model: Any) -> None:
    assert tensor.name == (theirs.Name() or b"").decode(errors="replace")
    assert list(tensor.shape) == listed(theirs.ShapeAsNumpy())
    assert tensor.dtype == catalogue.TENSOR_TYPES[theirs.Type()]
    data = model.Buffers(theirs.Buffer()).DataAsNumpy() if theirs.Buffer() else 0
    assert (tensor.raw is None) == isinstance(data, int)
    if tensor.raw is not None:
        assert bytes(tensor.raw) == data.tobytes()
        assert tensor.data is not None or tensor.is_sparse
    if tensor.quantization is not None:
        assert tensor.quantization.scales.tolist() == listed(theirs.Quantization().ScaleAsNumpy())
        assert tensor.quantization.zero_points.tolist() == listed(theirs.Quantization().ZeroPointAsNumpy())
        stated = theirs.Quantization().QuantizedDimension()
        assert tensor.quantization.axis == (0 if len(tensor.shape) == 1 else stated)


def same_operator(operator: Any, theirs: Any, model: Any) -> None:
    code = model.OperatorCodes(theirs.OpcodeIndex())
    # The package's own BuiltinCode() ignores codes below 127 in the new field; some writers fill only it.
    slot = code._tab.Offset(10)
    builtin_code = code._tab.Get(flatbuffers.number_types.Int32Flags, slot + code._tab.Pos) if slot else 0
    assert operator.builtin == catalogue.OPERATORS[max(builtin_code, code.DeprecatedBuiltinCode())]
    assert list(operator.inputs) == listed(theirs.InputsAsNumpy())
    assert list(operator.outputs) == listed(theirs.OutputsAsNumpy())
    table = theirs.BuiltinOptions()
    if table is None or not operator.options:
        return
    accessor = getattr(tflite, OPTIONS_CLASS[operator.builtin])()
    accessor.Init(table.Bytes, table.Pos)
    for field in TABLE_OF[operator.builtin].fields:
        getter = getattr(accessor, camel(field.name), None)
        if getter is not None and not re.match(r"\[|string", field.kind):
            value = operator.options[field.name]
            assert (field.names.index(value) if field.names else value) == getter()
