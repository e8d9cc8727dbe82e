"""Weighted operators of floats against their lowering and the interpreter."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from qimport.oracle import Oracle
from tests.cases import Draw, OperatorCase
from tests.one_operator.float_weighted import CASES


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("make", CASES.values(), ids=CASES)
def test_random_case(make: Callable[[Draw], OperatorCase], seed: int, oracle: Oracle) -> None:
    make(Draw.of(seed)).check(oracle)
