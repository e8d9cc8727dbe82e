"""Each operator imports with the attributes that the interpreter would use."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from qimport.frontend.ops import IMPORTERS
from qimport.frontend.schema import read_model
from qimport.oracle import Oracle, OracleRefused
from tests.flatbuffer_builder import ModelBuilder
from tests.importer_models import (
    POOL,
    SOFTMAX_OUT,
    One,
    T,
    X,
    bias,
    binary,
    conv,
    dense,
    depthwise,
    integers,
    plain,
    unary,
)
from tests.one_operator import GENERATORS, draw_model

CASES: list[tuple[One, str, dict[str, Any], tuple[int, ...]]] = [
    (
        conv(stride_h=2, fused_activation_function="RELU6", out=T((1, 3, 5, 8))),
        "qnn.conv2d",
        {
            "stride": (2, 1),
            "padding": ((0, 1), (1, 1)),
            "groups": 1,
            "activation": "RELU6",
            "dilation": (1, 1),
        },
        (1, 3, 5, 8),
    ),
    (
        conv(padding="VALID", dilation_h_factor=2, out=T((1, 2, 3, 8))),
        "qnn.conv2d",
        {"dilation": (2, 1), "padding": ((0, 0), (0, 0))},
        (1, 2, 3, 8),
    ),
    (conv(T((8, 3, 3, 2), data=True)), "qnn.conv2d", {"groups": 2}, (1, 6, 5, 8)),
    (
        depthwise(
            T((1, 3, 1, 8), data=True), depth_multiplier=2, stride_h=2, stride_w=2, out=T((1, 3, 3, 8))
        ),
        "qnn.depthwise_conv2d",
        {"stride": (2, 2), "padding": ((0, 1), (0, 0)), "constant_weights": True},
        (1, 3, 3, 8),
    ),
    (dense(fused_activation_function="RELU"), "qnn.dense", {"activation": "RELU"}, (2, 3)),
    (dense(x=T((2, 5, 4)), out=T((10, 3))), "qnn.dense", {}, (10, 3)),
    (dense(x=T((2, 5, 4)), out=T((2, 5, 3)), keep_num_dims=True), "qnn.dense", {}, (2, 5, 3)),
    (dense(w=T((3, 4), name="w")), "qnn.dense", {"constant_weights": False}, (2, 3)),
    (dense(w=T((3, 4), data=True, zero_point=3)), "qnn.dense", {}, (2, 3)),
    (
        binary("ADD", fused_activation_function="RELU_N1_TO_1"),
        "qnn.add",
        {"activation": "RELU_N1_TO_1"},
        (1, 6, 5, 4),
    ),
    (binary("SUB"), "qnn.sub", {"activation": "NONE"}, (1, 6, 5, 4)),
    (binary("MUL"), "qnn.mul", {"activation": "NONE"}, (1, 6, 5, 4)),
    (binary("DIV"), "qnn.div", {"activation": "NONE"}, (1, 6, 5, 4)),
    (
        binary("SQUARED_DIFFERENCE", T((1, 6, 5, 4), scale=9.0)),
        "qnn.squared_difference",
        {},
        (1, 6, 5, 4),
    ),
    *(
        (plain(builtin, dtype), "qnn.arithmetic", {"kind": kind}, (2, 3))
        for builtin, kind, dtype in (
            ("ADD", "add", "int32"),
            ("SUB", "sub", "float32"),
            ("MUL", "mul", "int64"),
            ("DIV", "div", "int32"),
            ("SQUARED_DIFFERENCE", "squared_difference", "float32"),
            ("FLOOR_DIV", "floor_div", "int32"),
            ("FLOOR_MOD", "floor_mod", "int64"),
            ("MAXIMUM", "maximum", "int8"),
            ("MINIMUM", "minimum", "uint8"),
            ("LOGICAL_AND", "and", "bool"),
            ("LOGICAL_OR", "or", "bool"),
            ("BITWISE_XOR", "xor", "uint32"),
            ("RIGHT_SHIFT", "shift_right", "int16"),
        )
    ),
    *(
        (plain(builtin, "float32", "bool"), "qnn.compare", {"kind": builtin.lower()}, (2, 3))
        for builtin in ("EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL")
    ),
    (plain("POW", "float32"), "qnn.pow", {"exponent": None}, (2, 3)),
    (
        One("POW", [T((2, 3), "float32"), T((), "float32", data=np.float32(3))], T((2, 3), "float32")),
        "qnn.pow",
        {"exponent": 3},
        (2, 3),
    ),
    (plain("ADD_N", "int32"), "qnn.add_n", {}, (2, 3)),
    (unary("LOGICAL_NOT", T((2, 3), "bool"), T((2, 3), "bool")), "qnn.logical_not", {}, (2, 3)),
    (unary("CAST", T((2, 3), "float32"), T((2, 3), "uint32")), "qnn.cast", {}, (2, 3)),
    (
        One("SELECT", [T((2, 3), "bool"), T((2, 3)), T((2, 3))], T((2, 3))),
        "qnn.select",
        {},
        (2, 3),
    ),
    (
        One("SELECT_V2", [T((3,), "bool"), T((2, 1)), T(())], T((2, 3))),
        "qnn.select",
        {},
        (2, 3),
    ),
    (
        One("AVERAGE_POOL_2D", [X], T((1, 4, 4, 4)), options=POOL),
        "qnn.average_pool2d",
        {"size": (3, 2), "stride": (1, 1), "padding": ((0, 0), (0, 0)), "activation": "NONE"},
        (1, 4, 4, 4),
    ),
    (
        One("MAX_POOL_2D", [X], T((1, 6, 5, 4)), options={**POOL, "padding": "SAME"}),
        "qnn.max_pool2d",
        {"size": (3, 2), "padding": ((1, 1), (0, 1))},
        (1, 6, 5, 4),
    ),
    (
        One("SUM", [X, integers(1, 2)], T((1, 4)), options={"keep_dims": False}),
        "qnn.sum",
        {"axes": (1, 2)},
        (1, 4),
    ),
    *(
        (One(name, [X, integers(-1)], T((1, 6, 5))), f"qnn.{name.lower()}", {"axes": (3,)}, (1, 6, 5))
        for name in ("REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD")
    ),
    *(
        (
            One(name, [T((2, 3), "bool", None), integers(0)], T((3,), "bool", None)),
            f"qnn.{name.lower()}",
            {"axes": (0,)},
            (3,),
        )
        for name in ("REDUCE_ANY", "REDUCE_ALL")
    ),
    (
        One("L2_POOL_2D", [T((1, 6, 5, 4), "float32", None)], T((1, 4, 4, 4), "float32", None), options=POOL),
        "qnn.l2_pool2d",
        {"size": (3, 2)},
        (1, 4, 4, 4),
    ),
    *(
        (
            One(name, [X, integers(9, 3)], T((1, 9, 3, 4)), options={"half_pixel_centers": True}),
            f"qnn.{name.lower()}",
            {"align_corners": False, "half_pixel_centers": True},
            (1, 9, 3, 4),
        )
        for name in ("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR")
    ),
    *(
        (
            One(name, [X, integers(-1)], T((1, 6, 5), "int64", None)),
            f"qnn.{name.lower()}",
            {"axis": 3},
            (1, 6, 5),
        )
        for name in ("ARG_MAX", "ARG_MIN")
    ),
    (
        One(
            "CUMSUM",
            [T((2, 3), "int32", None), integers(1)],
            T((2, 3), "int32", None),
            options={"reverse": True},
        ),
        "qnn.cumsum",
        {"axis": 1, "exclusive": False, "reverse": True},
        (2, 3),
    ),
    (
        One("MEAN", [X, integers(-2, 1, 2)], T((1, 4)), options={"keep_dims": False}),
        "qnn.mean",
        {"axes": (1, 2), "keep_dims": False},
        (1, 4),
    ),
    (
        One("MEAN", [X, integers(3)], T((1, 6, 5, 1)), options={"keep_dims": True}),
        "qnn.mean",
        {"axes": (3,), "keep_dims": True},
        (1, 6, 5, 1),
    ),
    (unary("SOFTMAX", SOFTMAX_OUT, beta=0.5), "qnn.softmax", {"beta": 0.5}, (2, 3)),
    (unary("LOGISTIC", T((2, 3), scale=1 / 256, zero_point=-128)), "qnn.logistic", {}, (2, 3)),
    (unary("TANH"), "qnn.tanh", {}, (2, 3)),
    (unary("HARD_SWISH"), "qnn.hard_swish", {}, (2, 3)),
    (unary("RELU"), "qnn.relu", {}, (2, 3)),
    (unary("RELU6"), "qnn.relu6", {}, (2, 3)),
    (unary("RELU_N1_TO_1"), "qnn.relu_n1_to_1", {}, (2, 3)),
    (unary("RELU_0_TO_1"), "qnn.relu_0_to_1", {}, (2, 3)),
    (unary("QUANTIZE", x=T((2, 3), "float32")), "qnn.quantize", {}, (2, 3)),
    (unary("QUANTIZE", T((2, 3), "uint8")), "qnn.requantize", {}, (2, 3)),
    (unary("DEQUANTIZE", T((2, 3), "float32")), "qnn.dequantize", {}, (2, 3)),
    (
        One("CONCATENATION", [T((2, 3)), T((2, 4))], T((2, 7)), options={"axis": -1}),
        "qnn.concat",
        {"axis": 1},
        (2, 7),
    ),
    (
        One(
            "CONCATENATION",
            [T((2, 3), "uint8", 0.1), T((1, 3), "uint8")],
            T((3, 3), "uint8"),
            options={"axis": 0},
        ),
        "qnn.concat",
        {"axis": 0},
        (3, 3),
    ),
    (
        One("PAD", [T((2, 3)), T((2, 2), "int64", None, data=[[0, 1], [2, 3]])], T((3, 8))),
        "qnn.pad",
        {"before": (0, 2), "after": (1, 3), "value": None},
        (3, 8),
    ),
    (
        One("PADV2", [T((2,)), T((1, 2), "int32", data=[[1, 0]]), T((1,), data=[-5])], T((3,))),
        "qnn.pad",
        {"before": (1,), "after": (0,), "value": -5},
        (3,),
    ),
    (One("RESHAPE", [T((2, 3)), integers(3, -1)], T((3, 2))), "qnn.reshape", {}, (3, 2)),
    (One("RESHAPE", [T((2, 3))], T((6,)), options={"new_shape": [-1]}), "qnn.reshape", {}, (6,)),
    (One("RESHAPE", [T((1, 1)), integers()], T(())), "qnn.reshape", {}, ()),
    (One("RESHAPE", [T((1, 1))], T(()), options={"new_shape": [0]}), "qnn.reshape", {}, ()),
    (One("SQUEEZE", [T((1, 2, 1))], T((2,))), "qnn.reshape", {}, (2,)),
    (One("SQUEEZE", [T((1, 2, 1))], T((1, 2)), options={"squeeze_dims": [-1]}), "qnn.reshape", {}, (1, 2)),
    (One("EXPAND_DIMS", [T((2, 3)), integers(-1)], T((2, 3, 1))), "qnn.reshape", {}, (2, 3, 1)),
    (
        One("PACK", [T((2, 3))] * 2, T((2, 2, 3)), options={"axis": 1, "values_count": 2}),
        "qnn.pack",
        {"axis": 1},
        (2, 2, 3),
    ),
    *[
        (One(builtin, [T((2, 3), "float32", None)], T((2, 3), "float32", None)), name, {}, (2, 3))
        for builtin, name in (
            ("ABS", "qnn.abs"),
            ("CEIL", "qnn.ceil"),
            ("COS", "qnn.cos"),
            ("ELU", "qnn.elu"),
            ("EXP", "qnn.exp"),
            ("FLOOR", "qnn.floor"),
            ("LOG", "qnn.log"),
            ("LOG_SOFTMAX", "qnn.log_softmax"),
            ("L2_NORMALIZATION", "qnn.l2_normalization"),
            ("NEG", "qnn.neg"),
            ("ROUND", "qnn.round"),
            ("RSQRT", "qnn.rsqrt"),
            ("SIGN", "qnn.sign"),
            ("SIN", "qnn.sin"),
            ("SQRT", "qnn.sqrt"),
            ("SQUARE", "qnn.square"),
        )
    ],
    (
        One("LEAKY_RELU", [T((2, 3))], T((2, 3)), options={"alpha": 0.25}),
        "qnn.leaky_relu",
        {"alpha": 0.25},
        (2, 3),
    ),
    (
        One("GELU", [T((2, 3))], T((2, 3)), options={"approximate": True}),
        "qnn.gelu",
        {"approximate": True},
        (2, 3),
    ),
    (One("PRELU", [T((2, 3)), T((3,), data=[1, 2, 3])], T((2, 3))), "qnn.prelu", {}, (2, 3)),
    (
        One(
            "LOCAL_RESPONSE_NORMALIZATION",
            [T((1, 2, 2, 3), "float32", None)],
            T((1, 2, 2, 3), "float32", None),
            options={"radius": 2, "bias": 1.0, "alpha": 0.5, "beta": 0.75},
        ),
        "qnn.local_response_normalization",
        {"radius": 2, "bias": 1.0, "alpha": 0.5, "beta": 0.75},
        (1, 2, 2, 3),
    ),
    (
        One("STRIDED_SLICE", [T((4, 5)), integers(-1, 0), integers(0, 3), integers(-2, 1)], T((2, 3))),
        "qnn.strided_slice",
        {"begin": (3, 0), "stride": (-2, 1), "size": (2, 3)},
        (2, 3),
    ),
]


@pytest.mark.parametrize(
    ("model", "name", "attributes", "shape"), CASES, ids=[f"{c[0].builtin}-{i}" for i, c in enumerate(CASES)]
)
def test_an_operator_becomes_one_node(
    model: One, name: str, attributes: dict[str, Any], shape: tuple[int, ...]
) -> None:
    imported = model.load()
    (node,) = imported.graph.nodes
    assert name == node.op.NAME
    assert {key: getattr(node.op, key) for key in attributes} == attributes
    assert imported.outputs[0].type.shape == shape
    assert imported.graph.outputs[0].type.dtype == model.result.dtype
    assert node.origin == f"operator 0 ({model.builtin}) {imported.outputs[0].name!r}"


SHAPES = {"BROADCAST_ARGS", "RANGE", "RANK", "SHAPE", "WHERE"}
"""Operators whose results are constants; tests/test_importer_movement.py has theirs."""


def test_every_importer_is_covered() -> None:
    """By a case above or by a generator of random models."""
    drawn = {
        operator.builtin
        for name, seed in product(GENERATORS, range(8))
        for graph in read_model(draw_model(name, seed).file).subgraphs
        for operator in graph.operators
    }
    assert set(IMPORTERS) == drawn - {"CUSTOM"} | {case[0].builtin for case in CASES} | SHAPES


@pytest.mark.parametrize(
    ("length", "size", "stride", "dilation", "padding", "extent"),
    [
        (8, 3, 2, 1, (0, 1), 4),
        (7, 3, 2, 1, (1, 1), 4),
        (5, 2, 3, 1, (0, 0), 2),
        (8, 3, 1, 3, (3, 3), 8),
        (1, 3, 1, 1, (1, 1), 1),
    ],
)
def test_same_padding_is_made_explicit(
    length: int, size: int, stride: int, dilation: int, padding: tuple[int, int], extent: int
) -> None:
    """The stride counts, the odd element goes behind, and a stride beyond the window needs none."""
    model = conv(
        T((8, size, 1, 4), data=True),
        x=T((1, length, 1, 4)),
        out=T((1, extent, 1, 8)),
        stride_h=stride,
        dilation_h_factor=dilation,
    )
    assert model.op().padding == (padding, (0, 0))  # type: ignore[attr-defined]


def test_where_of_a_constant_is_known() -> None:
    condition = T((2, 2), "bool", data=np.array([[True, False], [True, True]]))
    (output,) = One("WHERE", [condition], T((3, 2), "int64")).load().graph.outputs
    assert output.data is not None
    assert output.data.tolist() == [[0, 0], [1, 0], [1, 1]]


def test_a_sum_has_the_type_of_its_second_operand() -> None:
    model = binary("ADD", T((1, 6, 5, 4), "float32", scale=0.25, name="y"))
    (output,) = model.load().graph.outputs
    assert str(output.type).startswith("i8[1x6x5x4]<0x1.0000000000000p-2:0")


def test_weights_and_bias_keep_their_quantization() -> None:
    scales = [0.25 * (i + 1) for i in range(8)]
    w = T((8, 3, 3, 4), scale=scales, zero_point=[0] * 8, axis=0, data=True)
    (node,) = conv(w, bias(8, [0.125 * (i + 1) for i in range(8)])).load().graph.nodes
    _, weights, vector = node.inputs
    assert weights is not None and weights.type.quant.scales == tuple(scales)
    assert weights.type.quant.axis == 0
    assert vector is not None and len(vector.type.quant.scales) == 8


def test_a_bias_without_scale_stays_without() -> None:
    (node,) = conv(b=bias(8, None)).load().graph.nodes
    assert node.inputs[2] is not None and node.inputs[2].type.quantization is None


def test_a_bias_of_any_rank_becomes_a_vector() -> None:
    shaped = T((1, 1, 1, 8), "int32", 0.25, data=np.arange(8))
    (node,) = conv(b=shaped).load().graph.nodes
    vector = node.inputs[2]
    assert vector is not None and vector.type.shape == (8,) and vector.data is not None
    np.testing.assert_array_equal(vector.data, np.arange(8))


def test_what_keeps_the_delegate_away_is_recorded() -> None:
    """Operands of run time, a CONV_2D bias that is no vector, a wrong depth multiplier."""
    w = T((1, 3, 3, 8), data=True)
    shaped = T((1, 1, 1, 8), "int32", 0.25, data=np.arange(8))
    delegable = {
        name: model.op().constant_weights  # type: ignore[attr-defined]
        for name, model in {
            "conv": conv(),
            "conv with shaped bias": conv(b=shaped),
            "conv with bias of run time": conv(b=bias(8, data=None)),
            "depthwise": depthwise(w, depth_multiplier=2),
            "depthwise without multiplier": depthwise(w),
        }.items()
    }
    assert [name for name, taken in delegable.items() if taken] == ["conv", "depthwise"]


def test_one_scale_with_an_axis_is_one_scale() -> None:
    (node,) = conv(T((8, 3, 3, 4), axis=3, data=True)).load().graph.nodes
    assert node.inputs[1] is not None and node.inputs[1].type.quant.axis is None


def test_uint8_weights_keep_the_axis_that_decides_about_delegation() -> None:
    x, out = T((1, 6, 5, 4), "uint8"), T((1, 6, 5, 8), "uint8")
    (node,) = depthwise(T((1, 3, 3, 8), "uint8", axis=3, data=True), x=x, out=out).load().graph.nodes
    assert node.inputs[1] is not None and node.inputs[1].type.quant.axis == 3
    assert not node.inputs[1].type.quant.per_channel


@pytest.mark.parametrize(("builtin", "expected"), [("ADD", [5, 7]), ("SUB", [-3, -3]), ("MUL", [4, 10])])
def test_integer_arithmetic_on_constants_is_folded(builtin: str, expected: list[int]) -> None:
    model = One(builtin, [integers(1, 2), integers(4, 5)], T((2,), "int32"))
    graph = model.load().graph
    assert not graph.nodes
    assert graph.outputs[0].data is not None
    np.testing.assert_array_equal(graph.outputs[0].data, expected)


@pytest.mark.parametrize("builtin", sorted(IMPORTERS))
def test_the_interpreter_registers_the_same_versions(builtin: str, oracle: Oracle) -> None:
    """Beyond the last version the interpreter finds no operator; at it, it complains of something else."""
    versions = IMPORTERS[builtin].versions
    for version in (versions[-1], versions[-1] + 1):
        model = ModelBuilder()
        x = model.tensor((1,), "float32")
        model.operator(builtin, [x], [model.tensor((1,), "float32")], version)
        message = ""
        try:
            oracle.details(model.build([x], [x]), mode="builtin")
        except OracleRefused as error:
            message = str(error)
        assert ("Didn't find op" in message) == (version not in versions), message
