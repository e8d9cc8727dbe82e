"""SOFTMAX on 8-bit rows of every kind: random, constant, one-hot, long."""

from __future__ import annotations

import numpy as np
import pytest

from qimport.errors import UnsupportedError, VerifyError
from qimport.ir.graph import Array, Call
from qimport.ir.interpret import interpret
from qimport.ir.types import INTEGER_RANGE
from qimport.lower.pipeline import lower
from qimport.oracle import Oracle, OracleRefused
from qimport.qnn import Softmax
from tests.single_op import Case, quantized, scales_and_zeros


def softmax_case(
    dtype: str, shape: tuple[int, ...], scale: float, zero_point: int, beta: float = 1.0
) -> Case:
    beta = float(np.float32(beta))
    after = quantized(dtype, shape, 1 / 256, INTEGER_RANGE[dtype][0])
    before = quantized(dtype, shape, scale, zero_point)
    return Case(Softmax(beta), (before,), after, "SOFTMAX", version=2, options={"beta": beta})


def rows(rng: np.random.Generator, dtype: str, length: int) -> Array:
    """Rows of the whole range, of a few neighbouring codes, constant ones, and one-hot ones."""
    lowest, highest = INTEGER_RANGE[dtype]
    one_hot = np.full(length, lowest)
    one_hot[length // 2] = highest
    return np.stack(
        [
            rng.integers(lowest, highest + 1, length),
            rng.integers(lowest, highest + 1, length) // 16,
            np.full(length, lowest),
            np.full(length, highest),
            one_hot,
        ]
    ).astype(dtype)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("length", [1, 2, 3, 10, 33, 257])
def test_rows_equal_the_interpreter(dtype: str, length: int, oracle: Oracle) -> None:
    rng = np.random.default_rng(length)
    for scale, zero in scales_and_zeros(rng, dtype, 3):
        for beta in (1.0, 3.7):
            softmax_case(dtype, (5, length), scale, zero, beta).check(oracle, [rows(rng, dtype, length)])


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("scale", [2**-15, 2**-16, 1 / 65535, 0.02, 1e-8])
@pytest.mark.parametrize("zero_point", [0, -(2**15), 9])
def test_results_of_16_bits_have_any_scale(dtype: str, scale: float, zero_point: int, oracle: Oracle) -> None:
    before, after = quantized(dtype, (5, 9), 0.07, 3), quantized("int16", (5, 9), scale, zero_point)
    case = Case(Softmax(1.0), (before,), after, "SOFTMAX", version=2, options={"beta": 1.0})
    case.check(oracle, [rows(np.random.default_rng(2), dtype, 9)])


@pytest.mark.parametrize("shape", [(5,), (2, 3, 5), (1, 2, 2, 7)])
@pytest.mark.parametrize("beta", [1.0, 0.5])
def test_the_last_axis_is_normalized(shape: tuple[int, ...], beta: float, oracle: Oracle) -> None:
    codes = np.random.default_rng(6).integers(-128, 128, shape).astype(np.int8)
    softmax_case("int8", shape, 0.07, 3, beta).check(oracle, [codes])


def test_sums_just_below_the_limit(oracle: Oracle) -> None:
    softmax_case("int8", (1, 511), 0.1, 0).check(oracle, [np.zeros((1, 511), np.int8)])
    falling = -np.minimum(np.arange(1001) // 8, 128).astype(np.int8).reshape(1, -1)
    softmax_case("int8", (1, 1001), 0.1, 0).check(oracle, [falling])


def test_rows_the_reference_kernel_dies_of(oracle: Oracle) -> None:
    case, equal = softmax_case("int8", (1, 512), 0.1, 0), np.zeros((1, 512), np.int8)
    with pytest.raises(OracleRefused, match="SIGABRT"):
        oracle.run(case.file(), [equal], "reference")
    for graph in (case.graph(), lower(case.graph(), "reference")):
        assert interpret(graph, [equal])[0].tolist() == [[-128] * 512]
    case.check(oracle, [equal], ["builtin", "xnnpack"])


@pytest.mark.parametrize("length", [8192, 8193, 8703])
def test_the_sum_of_the_reference_kernel_wraps(length: int, oracle: Oracle) -> None:
    """8193 equal logits look like a single one."""
    softmax_case("int8", (1, length), 0.1, 0).check(oracle, [np.zeros((1, length), np.int8)])


@pytest.mark.parametrize("change", [{"scale": 1 / 128}, {"zero_point": 0}, {"beta": 0.0}])
def test_what_the_kernel_refuses(change: dict[str, float]) -> None:
    after = quantized("int8", (4,), change.get("scale", 1 / 256), int(change.get("zero_point", -128)))
    with pytest.raises(VerifyError, match=r"\(C[23]\)"):
        Softmax(change.get("beta", 1.0)).verify(Call((quantized("int8", (4,), 0.1, 0),), (after,)))


def test_factors_up_to_the_end_of_float32(oracle: Oracle) -> None:
    codes = np.random.default_rng(0).integers(-128, 128, (5, 6)).astype(np.int8)
    for scale, beta in ((0.1, 3.4e38), (1e30, 1.0)):
        softmax_case("int8", (5, 6), scale, 0, beta).check(oracle, [codes])
    case = softmax_case("int8", (5, 6), 10.0, 0, 3.4e38)
    case.check(oracle, [codes], ["reference"])
    for mode in ("builtin", "xnnpack"):
        with pytest.raises(UnsupportedError, match=r"beta is 3\.4e\+39; expected a float32"):
            lower(case.graph(), mode)
