"""Weighted operators on integers: specification, lowering, interpreter, delegation, refusals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from qimport.errors import UnsupportedError, VerifyError
from qimport.ir.graph import Call
from qimport.ir.interpret import interpret
from qimport.ir.types import Quantization, TensorType
from qimport.lower.pipeline import lower
from qimport.numerics import X86_NUMERICS
from qimport.oracle import Oracle, OracleRefused
from qimport.qnn.base import QnnOperation
from qimport.qnn.batch_matmul import BatchMatmul
from qimport.qnn.conv2d import Conv2d
from qimport.qnn.dense import Dense
from qimport.qnn.depthwise_conv2d import DepthwiseConv2d
from qimport.qnn.transpose_conv import TransposeConv
from tests.importer_models import T, bias, conv, dense, load, reasons
from tests.one_operator import OneOperator, draw_model, weighted
from tests.single_op import expect_same, quantized

NAMES = [
    *(f"CONV_2D {name}" for name in weighted.CONVOLUTIONS),
    *(f"DEPTHWISE_CONV_2D {name}" for name in weighted.DEPTHWISE),
    *(f"FULLY_CONNECTED {name}" for name in weighted.DENSE),
    *(f"TRANSPOSE_CONV {name}" for name in weighted.TRANSPOSED),
    *(f"BATCH_MATMUL {name}" for name in weighted.PRODUCTS),
]


@pytest.mark.parametrize("seed", range(900, 903))
@pytest.mark.parametrize("name", NAMES)
def test_equals_interpreter(name: str, seed: int, oracle: Oracle) -> None:
    check(draw_model(name, seed), oracle)


def check(model: OneOperator, oracle: Oracle) -> None:
    """Compare bytes, refusals and delegation in every mode."""
    graph, (inputs,) = load(model.file).graph, model.invocations
    (node,) = graph.nodes
    assert isinstance(node.op, QnnOperation)
    for mode in X86_NUMERICS:
        if node.op.unsupported(node.call(mode)) is not None:
            with pytest.raises(UnsupportedError):
                lower(graph, mode)
            continue
        specified = interpret(graph, inputs, mode)[0]
        expect_same(interpret(lower(graph, mode), inputs)[0], specified, f"{model.text} lowered in {mode}")
        expect_same(specified, oracle.run(model.file, inputs, mode).outputs[0], f"{model.text} in {mode}")
    if node.op.unsupported(node.call("xnnpack")) is None:
        taken = bool(oracle.delegated_ops(model.file))
        assert taken == node.op.xnnpack_takes(node.call("xnnpack")), f"{model.text} delegated: {taken}"
    else:
        with pytest.raises(OracleRefused):
            oracle.run(model.file, inputs, "xnnpack")


def test_64_bit_sums_do_not_wrap(oracle: Oracle) -> None:
    """C24: sums beyond int32, with a bias of 2^40."""
    x = quantized("int16", (1, 1, 1, 700), 2.0**-8, 0)
    w, y = quantized("int8", (3, 1, 1, 700), 2.0**-8, 0), quantized("int16", (1, 1, 1, 3), 2.0**10, 0)
    call = Call((x, w, TensorType("int64", (3,))), (y,), (
        np.full(x.shape, 32767, np.int16), np.full(w.shape, 127, np.int8), np.array([0, 2**40, -(2**40)])
    ))  # fmt: skip
    (codes,) = Conv2d().evaluate(call)
    assert codes.ravel().tolist() == [round(32767 * 127 * 700 / 2**26), 16384 + 43, -16384 + 43]


X8, X16 = quantized("int8", (1, 3, 3, 4), 0.5, 1), quantized("int16", (1, 3, 3, 4), 0.5, 0)
W8, U8 = quantized("int8", (8, 2, 2, 4), 0.5, 0), quantized("uint8", (8, 2, 2, 4), 0.5, 9)
Y8, Y16 = quantized("int8", (1, 6, 6, 8), 0.5, 1), quantized("int16", (1, 6, 6, 8), 0.5, 0)
MATRIX, MATRICES = quantized("int8", (2, 3), 0.5, 0), quantized("int8", (5, 3, 4), 0.5, 0)
PRODUCT = quantized("int8", (5, 2, 4), 0.5, 0)


def refuses(op: QnnOperation, label: str, *types: TensorType | None) -> None:
    """The last of ``types`` is the result."""
    output = types[-1]
    assert output is not None
    with pytest.raises(VerifyError, match=label):
        op.verify(Call(types[:-1], (output,)))


def test_constraints_of_transpose_conv() -> None:
    op = TransposeConv((2, 2))
    op.verify(Call((X8, W8, None), (Y8,)))
    op.verify(Call((X16, W8, TensorType("int64", (8,))), (Y16,)))
    refuses(op, "C1", X8, U8, None, Y8)
    refuses(op, "C1", X8.with_shape((3, 3, 4)), W8, None, Y8)
    refuses(op, "C2", X8, W8.with_shape((8, 2, 2, 3)), None, Y8)
    refuses(op, "C2", X8, W8, None, Y8.with_shape((2, 6, 6, 8)))
    refuses(replace(op, stride=(0, 1)), "C2", X8, W8, None, Y8)
    refuses(op, "C3", X8, replace(W8, quantization=Quantization((0.5,), (3,))), None, Y8)
    refuses(op, "C3", replace(X16, quantization=Quantization((0.5,), (3,))), W8, None, Y16)
    refuses(op, "C4", X8, W8, TensorType("int64", (8,)), Y8)
    refuses(op, "C4", X8, W8, TensorType("int32", (7,)), Y8)
    refuses(replace(op, activation="TANH"), "C5", X8, W8, None, Y8)


def test_constraints_of_batch_matmul() -> None:
    op = BatchMatmul()
    op.verify(Call((MATRIX, MATRICES), (PRODUCT,)))
    refuses(op, "C1", MATRIX, replace(MATRICES, dtype="int16"), PRODUCT)
    refuses(op, "C1", replace(MATRIX, dtype="uint8"), MATRICES, PRODUCT)
    refuses(op, "C2", MATRIX, MATRICES.with_shape((5, 4, 3)), PRODUCT)
    refuses(op, "C2", MATRIX, MATRICES, PRODUCT.with_shape((2, 4)))
    refuses(op, "C2", MATRIX.with_shape((3,)), MATRICES, PRODUCT)
    sixteen = [replace(type_, dtype="int16") for type_ in (MATRIX, PRODUCT)]
    shifted = replace(MATRICES, quantization=Quantization((0.5,), (3,)))
    refuses(op, "C3", sixteen[0], shifted, sixteen[1])


def test_constraints_of_types() -> None:
    wide = quantized("int16", (1, 3, 3, 8), 0.5, 0)
    refuses(Conv2d(padding=((0, 1), (0, 1))), "C1", X8, W8, None, wide)
    refuses(Conv2d(padding=((0, 1), (0, 1))), "C3", X16, replace(W8, quantization=Quantization((0.5,), (1,))),
            TensorType("int64", (8,)), wide)  # fmt: skip
    depthwise = W8.with_shape((1, 2, 2, 8))
    refuses(DepthwiseConv2d(padding=((0, 1), (0, 1))), "C4", X16, depthwise, TensorType("int32", (8,)), wide)
    rows, four = quantized("int8", (9, 4), 0.5, 0), quantized("int4", (8, 4), 0.5, 3)
    refuses(Dense(), "C3", rows, four, None, quantized("int8", (9, 8), 0.5, 0))


def test_a_bias_that_the_options_do_not_state() -> None:
    """The interpreter reads an int32 bias beside int16 as int64, unless quantized_bias_type says INT32."""
    x, y = T((1, 6, 5, 4), "int16", name="x"), T((1, 6, 5, 8), "int16", name="y")
    (reason,) = reasons(conv(x=x, out=y).file())
    assert "quantized_bias_type makes the interpreter read int64" in reason.sentence
    load(conv(x=x, out=y, quantized_bias_type="INT32").file())
    x, y = T((2, 4), "int16", name="x"), T((2, 3), "int16", name="y")
    imported = load(dense(x=x, out=y, b=bias(3, 0.25)).file())
    with pytest.raises(UnsupportedError, match="reads it as int64"):
        lower(imported.graph, "reference")
    lower(imported.graph, "builtin")
    (reason,) = reasons(dense(x=x, out=y, b=bias(3, 0.25), quantized_bias_type="INT64").file())
    assert "quantized_bias_type says int64" in reason.sentence


def test_several_scales_on_the_right_count_as_zero(oracle: Oracle) -> None:
    """Kernels of BATCH_MATMUL know one scale per tensor."""
    make = weighted.Weighted(weighted.Draw.of(1), weighted.combination("int16 int8 - int16"))
    a = quantized("int16", (2, 3), 0.01, 0)
    b = TensorType("int8", (3, 4), Quantization((0.5, 0.25, 0.5, 0.125), (0,) * 4, 1))
    inputs = [make.feed(a), make.constant(b, np.ones((3, 4), np.int8))]
    model = make.finish("BATCH_MATMUL", inputs, quantized("int16", (2, 4), 0.01, 0), 4)
    check(model, oracle)
