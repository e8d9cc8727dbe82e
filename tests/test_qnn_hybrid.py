"""Weighted operators of float activations and integer weights against their lowering and the interpreter."""

from __future__ import annotations

import pytest

from qimport.oracle import Oracle
from tests.cases import Draw
from tests.one_operator.hybrid import conv_case, dense_case, depthwise_case, matmul_case, transpose_case


@pytest.mark.parametrize("seed", range(40))
def test_dense(seed: int, oracle: Oracle) -> None:
    dense_case(Draw.of(seed)).check(oracle)


@pytest.mark.parametrize("seed", range(40))
def test_conv2d(seed: int, oracle: Oracle) -> None:
    conv_case(Draw.of(seed)).check(oracle)


@pytest.mark.parametrize("seed", range(40))
def test_depthwise_conv2d(seed: int, oracle: Oracle) -> None:
    depthwise_case(Draw.of(seed)).check(oracle)


@pytest.mark.parametrize("seed", range(40))
def test_transpose_conv(seed: int, oracle: Oracle) -> None:
    transpose_case(Draw.of(seed)).check(oracle)


@pytest.mark.parametrize("seed", range(40))
def test_batch_matmul(seed: int, oracle: Oracle) -> None:
    matmul_case(Draw.of(seed)).check(oracle)


@pytest.mark.parametrize("seed", range(20))
def test_batch_matmul_of_computed_matrices(seed: int, oracle: Oracle) -> None:
    """The delegate takes these and gives nonsense, so only the other modes exist."""
    case = matmul_case(Draw.of(seed), computed=True)
    case.check(oracle, ("reference", "builtin"))
    assert case.op.unsupported(case.call("xnnpack")) is not None
