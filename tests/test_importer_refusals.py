"""Each refusal says which tensor, what was found and what is expected."""

from __future__ import annotations

import numpy as np
import pytest

from qimport.errors import ModelError
from tests.importer_models import (
    SOFTMAX_OUT,
    STRIDES,
    One,
    T,
    X,
    bias,
    binary,
    conv,
    dense,
    depthwise,
    integers,
    reasons,
    unary,
)


def number(value: float, dtype: str = "int32") -> T:
    """A constant scalar."""
    return T((), dtype, None, data=np.array(value, dtype))


REFUSALS: list[tuple[str, One, str | None, str]] = [
    (
        "float32 activations and an int32 bias",
        conv(x=T((1, 6, 5, 4), "float32", name="x")),
        "bias",
        "the element type is int32 beside float32 activations; expected float32",
    ),
    (
        "int32 tanh",
        unary("TANH", x=T((2, 3), "int32", name="x")),
        "x",
        "the element type is int32; expected one of int8, uint8, int16, float32",
    ),
    (
        "mixed",
        dense(out=T((2, 3), "int16", name="y")),
        "y",
        "the element type is int16; expected int8",
    ),
    (
        "unquantized",
        unary("TANH", x=T((2, 3), scale=None, name="x")),
        "x",
        "the int8 tensor has no scale; expected a quantized tensor",
    ),
    (
        "per-channel activations",
        unary("RELU", x=T((2, 3), scale=[0.1, 0.2], name="x")),
        "x",
        "it has 2 scales; expected 1",
    ),
    ("step", conv(stride_w=2**15), "x", "stride (1, 32768), dilation (1, 1): expected at most 32767"),
    (
        "dilation",
        conv(dilation_w_factor=2**15),
        "x",
        "stride (1, 1), dilation (1, 32768): expected at most 32767",
    ),
    (
        "window beyond 32 bits",
        One(
            "AVERAGE_POOL_2D",
            [X],
            T((1, 6, 5, 4)),
            options={**STRIDES, "filter_width": 2**31 - 1, "filter_height": 1},
        ),
        "x",
        "windows of (1, 2147483647) reach over (6, 2147483651) elements; expected at most 2147483647",
    ),
    (
        "no bias",
        One("CONV_2D", [X, T((8, 3, 3, 4), data=True, name="w")], T((1, 6, 5, 8)), options={**STRIDES}),
        "w",
        "there is no bias; expected an int32 tensor, as in the interpreter",
    ),
    (
        "bias shape",
        depthwise(T((1, 3, 3, 8), data=True), b=T((1, 8), "int32", data=np.arange(8), name="b")),
        "b",
        "the bias has shape (1, 8); expected a vector",
    ),
    (
        "index type",
        One("MEAN", [X, integers(1, dtype="int64", name="axes")], T((1, 5, 4))),
        "axes",
        "the list of dimensions has element type int64; expected int32",
    ),
    (
        "shape of the shape",
        One("RESHAPE", [T((2, 3)), T((1, 1), "int32", data=[[6]], name="s")], T((6,))),
        "s",
        "the shape is a tensor of shape (1, 1); expected a vector",
    ),
    (
        "pad rank",
        One("PAD", [T((1,) * 6, name="x"), T((6, 2), "int32", data=True)], T((1,) * 6)),
        "x",
        "it has 6 dimensions; expected at most 5",
    ),
    (
        "bias type",
        conv(b=bias(8, dtype="int64", scale=None)),
        "bias",
        "the element type is int64; expected int32",
    ),
    (
        "bias zero point",
        conv(b=bias(8, zero_point=3)),
        "bias",
        "the bias values have zero point 3; expected 0",
    ),
    (
        "bias scale",
        dense(b=bias(3, 0.125)),
        "bias",
        "the bias has scale 0.125; expected 0.25, input scale times weight scale",
    ),
    (
        "weights type",
        conv(T((8, 3, 3, 4), "uint8", data=True, name="w")),
        "w",
        "the element type is uint8; expected int8 or int4",
    ),
    (
        "weights int2",
        conv(T((8, 3, 3, 4), "int2", scale=0.5, data=True, name="w")),
        "w",
        "the element type is int2; expected int8 or int4",
    ),
    (
        "weights uint4",
        dense(w=T((3, 4), "uint4", data=True, name="w")),
        "w",
        "the element type uint4 is not supported",
    ),
    (
        "weights zero point",
        conv(T((8, 3, 3, 4), zero_point=3, data=True, name="w")),
        "w",
        "the weights have zero point 3; expected 0",
    ),
    (
        "weights axis",
        conv(T((8, 3, 3, 4), scale=[0.1] * 4, axis=3, data=True, name="w")),
        "w",
        "the scales run along dimension 3; expected dimension 0",
    ),
    (
        "weights axis depthwise",
        depthwise(T((1, 3, 3, 8), scale=[0.5] * 3, axis=1, data=True, name="w")),
        "w",
        "the scales run along dimension 1; expected dimension 3",
    ),
    (
        "channel zero point",
        dense(w=T((3, 4), scale=[0.1] * 3, zero_point=[0, 2, 0], data=True, name="w")),
        "w",
        "the weights have zero point 2; expected 0",
    ),
    (
        "uint8 per channel",
        dense(
            x=T((2, 4), "uint8"), w=T((3, 4), "uint8", [0.1] * 3, data=True, name="w"), out=T((2, 3), "uint8")
        ),
        "w",
        "the uint8 weights have 3 scales; expected 1",
    ),
    (
        "weights format",
        dense(weights_format="SHUFFLED4x16INT8"),
        "w",
        "the weights have format SHUFFLED4x16INT8; expected DEFAULT",
    ),
    (
        "scale factor",
        dense(out=T((2, 3), scale=1e-12, name="y")),
        "y",
        "input scale * weight scale / output scale is 2.5e+11; expected less than 2^30",
    ),
    (
        "activation",
        conv(fused_activation_function="TANH"),
        None,
        "the fused activation is TANH; expected NONE, RELU, RELU6, RELU_N1_TO_1",
    ),
    (
        "add scale",
        binary("ADD", T((1, 6, 5, 4), scale=2.0**-20, name="y")),
        "y",
        "the scale is 9.53674316e-07; expected more than 9.53674316e-07, the larger input scale / 2^19",
    ),
    (
        "sub scale",
        binary("SUB", T((1, 6, 5, 4), scale=1e-9, name="y")),
        "y",
        "the scale is 9.99999972e-10; expected more than 9.53674316e-07, the larger input scale / 2^19",
    ),
    (
        "mul scale",
        binary("MUL", T((1, 6, 5, 4), scale=1e-40, name="y")),
        "y",
        "the product of the input scales / output scale is 2.50001e+39; expected less than 2^127",
    ),
    (
        "int4 cast",
        unary("CAST", T((2, 3), "float16", name="y"), T((2, 3), "int4", None, data=True, name="x")),
        "x",
        "the element type is int4; expected one of int8, uint8, int16, int32, uint32, int64, bool, float16,"
        " float32, float64",
    ),
    (
        "mixed relation",
        One("LESS", [T((2,), "int32", name="a"), T((2,), "int64", name="b")], T((2,), "bool")),
        "b",
        "the element type is int64; expected int32 like tensor 'a'",
    ),
    (
        "bool order",
        One("LESS", [T((2,), "bool", name="a"), T((2,), "bool", name="b")], T((2,), "bool")),
        "a",
        "the element type is bool; expected one of int8, uint8, int16, int32, int64, float16, float32",
    ),
    (
        "int condition",
        One("SELECT", [T((2,), "int32", name="c"), T((2,)), T((2,))], T((2,))),
        "c",
        "the condition has element type int32; expected bool",
    ),
    (
        "variable where",
        One("WHERE", [T((2,), "bool", name="c")], T((2, 1), "int64")),
        "c",
        "the condition, which decides the shape of the result, is computed at run time; expected a constant",
    ),
    (
        "variable exponent",
        One("POW", [T((2,), "float32"), T((), "float32", name="e")], T((2,), "float32")),
        "e",
        "the exponent of one element is computed at run time; expected a constant",
    ),
    (
        "logistic",
        unary("LOGISTIC", T((2, 3), scale=0.005, name="y")),
        "y",
        "the scale is 0.00499999989; expected 1/256",
    ),
    (
        "softmax scale",
        unary("SOFTMAX", T((2, 3), scale=0.01, zero_point=-128, name="y"), beta=1.0),
        "y",
        "the scale is 0.00999999978; expected 1/256",
    ),
    (
        "softmax zero point",
        unary("SOFTMAX", T((2, 3), scale=1 / 256, name="y"), beta=1.0),
        "y",
        "the zero point is 0; expected -128",
    ),
    (
        "softmax fine scale",
        unary("SOFTMAX", T((2, 3), "int16", scale=5e-10, name="y"), beta=1.0),
        "y",
        "the scale is 4.99999986e-10; expected more than 9.31322575e-10",
    ),
    ("softmax beta", unary("SOFTMAX", SOFTMAX_OUT), None, "beta is 0.0; expected a positive number"),
    (
        "hard swish",
        unary("HARD_SWISH", T((2, 3), scale=0.001, name="y")),
        "y",
        "the scale is 0.00100000005; expected more than 0.00390625",
    ),
    (
        "mean axes",
        One("MEAN", [X, T((1,), "int32", name="axes")], T((1, 4))),
        "axes",
        "the list of dimensions is computed at run time; expected a constant",
    ),
    (
        "concat",
        One(
            "CONCATENATION",
            [T((2, 3), scale=0.05, name="a"), T((2, 4))],
            T((2, 7), name="y"),
            options={"axis": 1},
        ),
        "a",
        "scale 0.0500000007, zero point 0; expected scale 0.5, zero point 0 like the result 'y'",
    ),
    (
        "pack",
        One("PACK", [T((2,), zero_point=1, name="a")], T((1, 2), name="y"), options={"values_count": 1}),
        "a",
        "scale 0.5, zero point 1; expected scale 0.5, zero point 0 like the result 'y'",
    ),
    (
        "expand dims",
        One("EXPAND_DIMS", [T((2,), scale=0.25, name="a"), integers(0)], T((1, 2), name="y")),
        "a",
        "scale 0.25, zero point 0; expected scale 0.5, zero point 0 like the result 'y'",
    ),
    (
        "padv2",
        One(
            "PADV2",
            [T((2,)), T((1, 2), "int32", data=[[1, 0]]), T((1,), zero_point=3, data=[0], name="v")],
            T((3,)),
        ),
        "v",
        "the fill value has zero point 3; expected 0 like the result",
    ),
    (
        "reshape",
        One("RESHAPE", [T((2, 3)), T((2,), "int32", name="s")], T((3, 2))),
        "s",
        "the shape is computed at run time; expected a constant",
    ),
    (
        "quantize",
        unary("QUANTIZE", x=T((2, 3), "int64", name="x")),
        "x",
        "the element type is int64; expected one of float32, int8, uint8, int16, int32",
    ),
    (
        "dequantize",
        unary("DEQUANTIZE", T((2, 3), "float32"), x=T((2, 3), "int32", name="x")),
        "x",
        "the element type is int32; expected one of int8, uint8, int16, float16",
    ),
    (
        "shape type",
        One("SHAPE", [X], T((4,), "float32", name="y")),
        "y",
        "the element type is float32; expected int32 or int64",
    ),
    (
        "empty slice",
        One("STRIDED_SLICE", [T((4,)), integers(3), integers(2), integers(1)], T((0,), name="y")),
        "y",
        "the shape (0,) is empty; expected sizes of at least 1",
    ),
    (
        "huge",
        One(
            "PAD",
            [T((2,)), T((1, 2), "int64", None, data=[[2**33, 0]])],
            T((3,), shape_signature=(-1,), name="y"),
        ),
        "y",
        "tensor 'y' of shape (8589934594,) takes 8589934594 bytes; expected less than 2 GiB",
    ),
]


@pytest.mark.parametrize(
    ("model", "tensor", "sentence"), [r[1:] for r in REFUSALS], ids=[r[0] for r in REFUSALS]
)
def test_a_refusal_names_tensor_finding_and_expectation(
    model: One, tensor: str | None, sentence: str
) -> None:
    (reason,) = reasons(model.file())
    assert (reason.op_index, reason.op, reason.tensor) == (0, model.builtin, tensor)
    assert reason.sentence == sentence


MALFORMED: list[tuple[str, One, str]] = [
    ("operands", One("MEAN", [X], T((1, 4))), "it has 1 operands; expected 2"),
    ("absent", One("ADD", [X, None], T((1, 6, 5, 4))), "operand 1 is missing"),
    ("rank", conv(x=T((6, 5, 4), name="x")), "tensor 'x' has shape (6, 5, 4); expected 4 dimensions"),
    (
        "groups",
        conv(T((8, 3, 3, 3), data=True)),
        "the weights have shape (8, 3, 3, 3) for 4 input channels; expected a depth that divides them",
    ),
    (
        "groups in front",
        conv(T((7, 3, 3, 2), data=True)),
        "the weights have shape (7, 3, 3, 2) for 4 input channels",
    ),
    (
        "depthwise",
        depthwise(T((1, 3, 3, 6), data=True)),
        "the weights have shape (1, 3, 3, 6) for 4 input channels; expected 1 in front and a multiple",
    ),
    (
        "stride",
        conv(stride_h=0),
        "window (3, 3), stride (0, 1), dilation (1, 1): expected sizes of at least 1",
    ),
    (
        "window",
        conv(padding="VALID", x=T((1, 2, 5, 4), name="x")),
        "a window of (3, 3) with dilation (1, 1) does not fit into 2 x 5",
    ),
    ("bias size", conv(b=bias(7)), "the bias 'bias' has 7 elements; expected 8"),
    ("rows", dense(x=T((2, 3), name="x")), "tensor 'x' of shape (2, 3) has no rows of 4 elements"),
    (
        "keep_num_dims",
        dense(x=T((2, 2), name="x"), keep_num_dims=True),
        "tensor 'x' has shape (2, 2); expected 4 elements behind",
    ),
    (
        "broadcast",
        binary("ADD", b=T((3,), name="b")),
        "tensors 'x' of shape (1, 6, 5, 4) and 'b' of shape (3,) do not broadcast",
    ),
    ("axis", One("MEAN", [X, integers(4)], T((1, 4))), "dimension 4 does not exist; the rank is 4"),
    (
        "concat",
        One("CONCATENATION", [T((2, 3)), T((3, 3), name="b")], T((2, 6)), options={"axis": 1}),
        "tensor 'b' has shape (3, 3); expected (2, 3) outside dimension 1",
    ),
    (
        "values_count",
        One("PACK", [T((2,))], T((1, 2)), options={"values_count": 2}),
        "it has 1 operands, but the option values_count says 2",
    ),
    (
        "pads",
        One("PAD", [T((2,)), T((1, 2), "int32", data=[[-1, 0]], name="p")], T((1,))),
        "the padding 'p' holds -1; expected 0 or more",
    ),
    (
        "new shape",
        One("RESHAPE", [T((2, 3)), integers(-1, -1)], T((6,))),
        "the new shape is (-1, -1); expected sizes of at least 0 and at most one -1",
    ),
    (
        "misfit",
        One("RESHAPE", [T((2, 3), name="x"), integers(4)], T((4,))),
        "tensor 'x' of shape (2, 3) does not fit the fixed shape (4,)",
    ),
    (
        "squeeze",
        One("SQUEEZE", [T((2, 1), name="x")], T((2,)), options={"squeeze_dims": [0]}),
        "dimension 0 of tensor 'x' has size 2; expected 1",
    ),
    (
        "slice stride",
        One("STRIDED_SLICE", [T((4,)), integers(0), integers(2), integers(0)], T((2,))),
        "a stride is 0; expected not 0",
    ),
    (
        "slice rank",
        One("STRIDED_SLICE", [T((4,)), integers(0, 0), integers(2, 2), integers(1, 1)], T((2,))),
        "it selects along 2 dimensions with 0 ellipses; the rank is 1",
    ),
    (
        "range away",
        One("RANGE", [number(0), number(5), number(-1)], T((5,), "int32", None)),
        "a step of -1 does not lead from 0 to 5",
    ),
    (
        "range without end",
        One("RANGE", [number(v, "float32") for v in (0, 1, 1e-45)], T((5,), "float32", None)),
        "inf steps of 1.401298464324817e-45 lead from 0.0 to 1.0",
    ),
    (
        "stored shape",
        unary("RELU", T((2, 4), name="y")),
        "its result 'y' has shape (2, 3), but the file says (2, 4)",
    ),
]


@pytest.mark.parametrize(("model", "sentence"), [m[1:] for m in MALFORMED], ids=[m[0] for m in MALFORMED])
def test_a_contradiction_is_a_model_error(model: One, sentence: str) -> None:
    with pytest.raises(ModelError) as raised:
        model.load()
    assert str(raised.value).startswith(f"operator 0 ({model.builtin}): {sentence}")


def test_one_operator_can_have_several_reasons() -> None:
    model = conv(T((8, 3, 3, 4), zero_point=1, data=True), bias(8, zero_point=2))
    assert len(reasons(model.file())) == 2
