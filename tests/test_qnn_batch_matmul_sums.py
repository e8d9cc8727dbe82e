"""BATCH_MATMUL of int8 matrices with an int32 result against its lowering and the interpreter."""

from __future__ import annotations

import pytest

from qimport.errors import UnsupportedError
from qimport.oracle import Oracle
from tests.cases import Draw
from tests.importer_models import One, T
from tests.one_operator.batch_matmul_sums import sums_case


@pytest.mark.parametrize("seed", range(20))
def test_sums(seed: int, oracle: Oracle) -> None:
    sums_case(Draw.of(seed)).check(oracle)


@pytest.mark.parametrize(
    ("right", "sentence"),
    [
        (T((2, 3), "int4", data=True), "the element type is int4; expected int8"),
        (T((3,)), "there are 1 dimensions; expected 2 to 5"),
    ],
)
def test_refusals(right: T, sentence: str) -> None:
    with pytest.raises(UnsupportedError, match=sentence):
        One("BATCH_MATMUL", [T((4, 2)), right], T((4, 3), "int32", None)).load()
