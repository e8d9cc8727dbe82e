"""FULLY_CONNECTED against its lowering and the interpreter."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from qimport.errors import VerifyError
from qimport.ir.graph import Call
from qimport.ir.types import Quantization, TensorType
from qimport.oracle import Oracle
from qimport.qnn.dense import Dense
from tests.cases import ACTIVATIONS, Draw, Operand, OperatorCase
from tests.single_op import quantized


def random_case(seed: int) -> OperatorCase:
    """Any rank, tails, quantization; with and without bias; constant and computed weights."""
    draw = Draw.of(seed)
    dtype, depth, outputs = draw.dtype(), int(draw.rng.integers(1, 34)), int(draw.rng.integers(1, 34))
    keep = bool(draw.pick(True, False))
    lead = draw.pick((1,), (3,), (2, 3), (1, 2, 2))
    x = draw.tensor(dtype, (*lead, depth))
    w = draw.weights(dtype, (outputs, depth), 0, per_channel=bool(draw.pick(True, False)))
    rows = int(np.prod(lead))
    out = draw.weighted_output(x, w, depth, (*lead, outputs) if keep else (rows, outputs))
    bias = draw.bias(x, w.type, outputs) if draw.pick(True, True, False) else None
    if dtype == "int8" and len(w.type.quant.scales) == 1 and draw.pick(True, False, False):
        w = replace(w, type=draw.tensor(dtype, w.type.shape, w.type.quant.scale))
    if draw.pick(True, False, False, False):
        w = Operand(w.type, value=w.data)
    return dense_case(draw.fed(x), w, bias, out, draw.pick(*ACTIVATIONS), keep)


def dense_case(
    x: Operand,
    w: Operand,
    bias: Operand | None,
    out: TensorType,
    activation: str = "NONE",
    keep_num_dims: bool = False,
) -> OperatorCase:
    """A dense layer and its file."""
    op = Dense(activation, constant_weights=w.data is not None)
    options = {"fused_activation_function": activation, "keep_num_dims": keep_num_dims}
    return OperatorCase(op, (x, w, bias), out, "FULLY_CONNECTED", options)


@pytest.mark.parametrize("seed", range(60))
def test_equals_interpreter(seed: int, oracle: Oracle) -> None:
    random_case(seed).check(oracle)


def test_reference_rescales_in_float64(oracle: Oracle) -> None:
    """C05: with these scales one rounding and two give different codes; the modes differ in ties as well."""
    draw = Draw.of(0)
    x, w = draw.tensor("int8", (256, 32), 0.0235), draw.weights("int8", (64, 32), 0, False)
    w = replace(w, type=quantized("int8", (64, 32), 0.0113, 0))
    case = dense_case(draw.fed(x), w, draw.bias(x, w.type, 64), draw.tensor("int8", (256, 64), 0.31))
    results = case.check(oracle)
    assert (results["reference"] != results["builtin"]).sum() > 0


def test_one_scale_per_channel(oracle: Oracle) -> None:
    """C15: every output channel has a scale of its own."""
    x = quantized("int8", (1, 8), 1.0, 0)
    fed = Operand(x, value=np.ones(x.shape, np.int8))
    w = Operand(
        TensorType("int8", (4, 8), Quantization((1.0, 2.0, 4.0, 8.0), (0,) * 4, 0)), np.ones((4, 8), np.int8)
    )
    case = dense_case(fed, w, None, quantized("int8", (1, 4), 2.0, 0))
    assert all(codes.ravel().tolist() == [4, 8, 16, 32] for codes in case.check(oracle).values())


@pytest.mark.parametrize(("dtype", "per_channel"), [("int4", False), ("int2", False), ("int2", True)])
@pytest.mark.parametrize("depth", [6, 7, 8])
def test_delegation_of_narrow_weights(dtype: str, per_channel: bool, depth: int, oracle: Oracle) -> None:
    """Rows of whole bytes, and in int2 a scale per row."""
    draw = Draw.of(depth)
    x, w = draw.tensor("int8", (3, depth)), draw.weights("int8", (5, depth), 0, per_channel)
    lowest = -8 if dtype == "int4" else -2
    narrow = draw.rng.integers(lowest, -lowest, (5, depth)).astype(np.int8)
    w = Operand(replace(w.type, dtype=dtype), narrow)
    case = dense_case(draw.fed(x), w, None, draw.weighted_output(x, w, depth, (3, 5)))
    replace(case, version=13).check(oracle)
    whole = depth % (2 if dtype == "int4" else 4) == 0
    taken = case.op.kernel_family(case.call("xnnpack")) == "xnnpack"
    assert taken == (whole and (per_channel or dtype == "int4"))


def test_weight_zero_point(oracle: Oracle) -> None:
    """C19: int8 weights with zero point 3 meet an input with zero point -7."""
    x, wt = quantized("int8", (1, 2), 1.0, -7), quantized("int8", (1, 2), 1.0, 3)
    w = Operand(wt, np.array([[5, 1]], np.int8))
    case = dense_case(
        Operand(x, value=np.array([[3, -8]], np.int8)), w, None, quantized("int8", (1, 1), 1.0, 0)
    )
    assert all(codes.item() == 2 * 10 + -2 * -1 for codes in case.check(oracle).values())
    assert case.op.kernel_family(case.call("xnnpack")) == "builtin"


def test_rows_come_from_all_dimensions(oracle: Oracle) -> None:
    """C21: rank 3 with keep_num_dims, and rows that are not the last dimension."""
    draw = Draw.of(2)
    x, w = draw.tensor("int8", (1, 30, 5)), draw.weights("int8", (5, 5), 0, True)
    kept = draw.weighted_output(x, w, 5, (1, 30, 5))
    dense_case(draw.fed(x), w, None, kept, keep_num_dims=True).check(oracle)
    w = draw.weights("int8", (4, 75), 0, True)
    dense_case(draw.fed(x), w, None, draw.weighted_output(x, w, 75, (2, 4))).check(oracle)


@pytest.mark.parametrize("zero", [-128, -1, 0, 1, 127])
def test_reference_overflow(zero: int, oracle: Oracle) -> None:
    """A rescale that leaves int32 gives INT32_MIN, and zero points are added modulo 2^32."""
    x = quantized("int8", (2, 1), 1.0, 0)
    fed = Operand(x, value=np.array([[127], [-128]], np.int8))
    w = Operand(quantized("int8", (1, 1), 1.0, 0), np.array([[127]], np.int8))
    results = dense_case(fed, w, None, quantized("int8", (2, 1), 2.0**-20, zero)).check(oracle)
    wanted = 127 if zero < 0 else -128
    assert results["reference"].ravel().tolist() == [wanted, wanted]


@pytest.mark.parametrize(("zero", "wanted"), [(-128, 127), (-1, 127), (0, -128), (127, -128)])
def test_results_below_int32_wrap_in_xnnpack(zero: int, wanted: int, oracle: Oracle) -> None:
    """-2^30 times 2: a negative zero point is added modulo 2^32."""
    x = quantized("int8", (2, 3), 1.0, 0)
    w = Operand(quantized("int8", (5, 3), 2.0, 0), np.ones((5, 3), np.int8))
    bias = Operand(quantized("int32", (5,), 2.0, 0), np.full(5, -(2**30), np.int32))
    fed = Operand(x, value=np.zeros(x.shape, np.int8))
    results = dense_case(fed, w, bias, quantized("int8", (2, 5), 1.0, zero)).check(oracle)
    assert set(results["xnnpack"].reshape(-1).tolist()) == {wanted}


def test_bias_scales_may_be_one_or_many_in_int8(oracle: Oracle) -> None:
    draw = Draw.of(4)
    x = draw.tensor("int8", (3, 9))
    for per_channel in (False, True):
        w = draw.weights("int8", (6, 9), 0, per_channel)
        out, data = draw.weighted_output(x, w, 9, (3, 6)), draw.bias(x, w.type, 6).data
        product = float(np.float32(x.quant.scale * w.type.quant.scale))
        for count in (1, 6):
            q = Quantization((product,) * count, (0,) * count, 0 if count > 1 else None)
            results = dense_case(draw.fed(x), w, Operand(TensorType("int32", (6,), q), data), out).check(
                oracle
            )
            assert "xnnpack" in results


X, W, OUT = (quantized("int8", shape, 1.0, 0) for shape in ((3, 4), (5, 4), (3, 5)))


@pytest.mark.parametrize(
    ("label", "x", "w", "out"),
    [
        ("C1", X, W, quantized("int16", (3, 5), 1.0, 0)),
        ("C1", X, W.with_shape((5, 2, 2)), OUT),
        ("C2", X, W.with_shape((5, 5)), OUT),
        ("C2", X, W, OUT.with_shape((5, 3))),
        ("C2", X, W, OUT.with_shape((1, 5))),
        ("C3", X, replace(W, quantization=Quantization((1.0,) * 5, (0, 0, 1, 0, 0), 0)), OUT),
        ("C3", X, replace(W, quantization=Quantization((1.0,) * 4, (0,) * 4, 1)), OUT),
    ],
)
def test_constraints(label: str, x: TensorType, w: TensorType, out: TensorType) -> None:
    """C20 of the type combinations: what no kernel knows is refused."""
    Dense().verify(Call((X, W, None), (OUT,)))
    with pytest.raises(VerifyError, match=label):
        Dense().verify(Call((x, w, None), (out,)))
