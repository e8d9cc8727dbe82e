"""Weighted operators of floats against their lowering and the interpreter."""

from __future__ import annotations

import pytest

from qimport.oracle import Oracle
from tests.cases import Draw
from tests.one_operator.float_weighted import (
    conv_case,
    dense_case,
    depthwise_case,
    matmul_case,
    transpose_case,
)


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
def test_batch_matmul(seed: int, oracle: Oracle) -> None:
    matmul_case(Draw.of(seed)).check(oracle)


@pytest.mark.parametrize("seed", range(40))
def test_transpose_conv(seed: int, oracle: Oracle) -> None:
    transpose_case(Draw.of(seed)).check(oracle)
