"""Segments: specification, lowering, interpreter, refusals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from qimport.errors import ModelError, UnsupportedError
from qimport.frontend.importer import import_model
from qimport.frontend.schema import read_model
from qimport.ir.interpret import interpret
from qimport.lower.pipeline import lower
from tests.importer_models import One, T, integers
from tests.one_operator import GENERATORS, draw_model
from tests.single_op import expect_same


@pytest.mark.parametrize("name", [name for name in GENERATORS if "SEGMENT" in name])
@pytest.mark.parametrize("seed", range(6))
def test_segments(name: str, seed: int) -> None:
    model = draw_model(name, seed)
    graph, inputs = import_model(read_model(model.file)).graph, model.invocations[0]
    lowered = interpret(lower(graph, "reference"), inputs)[0]
    expect_same(lowered, interpret(graph, inputs, "reference")[0], model.text)


def unsorted(x: Sequence[int] = (3, 2), dtype: str = "float32", number: int = 1, segments: int = 2) -> One:
    operands = [T(x, dtype, None, name="x"), integers(0, 1, number), integers(segments)]
    return One("UNSORTED_SEGMENT_SUM", operands, T((segments, 2), dtype, None))


def ascending(*numbers: int) -> One:
    x = T((len(numbers), 2), "float32", None)
    return One("SEGMENT_SUM", [x, integers(*numbers)], T((2, 2), "float32", None))


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (unsorted(dtype="int64"), "the element type is int64; expected int32 or float32"),
        (unsorted(number=2), "a segment number is not below 2"),
        (unsorted(segments=0), r"the number of segments is \[0\]; expected one positive number"),
        (ascending(0, 2), "the segment numbers do not ascend from 0 by 0 or 1"),
        (ascending(1, 2), "the segment numbers do not ascend from 0 by 0 or 1"),
    ],
)
def test_refusals(model: One, sentence: str) -> None:
    with pytest.raises(UnsupportedError, match=sentence):
        model.load()


def test_computed_numbers_that_say_the_shape_are_refused() -> None:
    x, numbers = T((3, 2), "float32", None), T((3,), "int32", None)
    with pytest.raises(UnsupportedError, match="which say the shape of the result, is computed at run time"):
        One("SEGMENT_SUM", [x, numbers], T((2, 2), "float32", None)).load()


def test_rows_without_numbers_are_a_model_error() -> None:
    with pytest.raises(
        ModelError, match=r"segment numbers of shape \(3,\) do not fit rows of shape \(4, 2\)"
    ):
        unsorted(x=(4, 2)).load()


def test_numbers_without_rows_in_the_result_count_nowhere() -> None:
    x, numbers = T((3, 2), "float32", None), T((3,), "int32", None)
    graph = One("UNSORTED_SEGMENT_MAX", [x, numbers, integers(1)], T((1, 2), "float32", None)).load().graph
    arrays = [np.arange(6, dtype=np.float32).reshape(3, 2), np.array([0, 7, -1], np.int32)]
    for result in (interpret(graph, arrays)[0], interpret(lower(graph, "reference"), arrays)[0]):
        assert result.tolist() == [[0, 1]]
