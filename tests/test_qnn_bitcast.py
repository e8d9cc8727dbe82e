"""BITCAST against its lowering and the interpreter."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from qimport import prim
from qimport.errors import ModelError, UnsupportedError, VerifyError
from qimport.ir.graph import Call
from qimport.ir.types import TensorType
from qimport.oracle import Oracle
from qimport.qnn.bitcast import Bitcast
from tests.cases import Draw
from tests.importer_models import One, T
from tests.one_operator.bitcast import bitcast_case


@pytest.mark.parametrize("seed", range(30))
def test_bitcast(seed: int, oracle: Oracle) -> None:
    bitcast_case(Draw.of(seed)).check(oracle)


def cast(source: str, shape: Sequence[int], target: str, wanted: Sequence[int]) -> One:
    return One("BITCAST", [T(shape, source, None, name="x")], T(wanted, target, None, name="y"))


def test_elements_that_make_no_whole_are_a_model_error() -> None:
    sentence = r"elements of int8 of shape \(2, 3\) do not make int32"
    with pytest.raises(ModelError, match=sentence):
        cast("int8", (2, 3), "int32", (2,)).load()


@pytest.mark.parametrize(("source", "target"), [("int8", "bool"), ("complex64", "int64")])
def test_refused_types(source: str, target: str) -> None:
    with pytest.raises(UnsupportedError, match="the element type is"):
        cast(source, (2,), target, (2,)).load()


@pytest.mark.parametrize("op", [Bitcast(), prim.Bitcast()])
@pytest.mark.parametrize(
    ("source", "target", "label"),
    [
        (("int8", (2,)), ("bool", (2,)), "C1"),
        (("int4", (2,)), ("int8", (2,)), "C1"),
        (("int8", (2,)), ("uint8", (2, 1)), "C2"),
        (("int8", (2, 3)), ("int32", (2,)), "C2"),
        (("int32", (2,)), ("int8", (2, 2)), "C2"),
    ],
)
def test_nonsense_is_refused(
    op: Bitcast | prim.Bitcast,
    source: tuple[str, tuple[int, ...]],
    target: tuple[str, tuple[int, ...]],
    label: str,
) -> None:
    with pytest.raises(VerifyError, match=label):
        op.verify(Call((TensorType(*source),), (TensorType(*target),)))
