"""The hook for custom operators, as its page describes it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import qimport
from qimport import OperatorContext
from qimport.errors import ArgumentError, UnsupportedError
from qimport.frontend.custom import CUSTOM_IMPORTERS
from qimport.qnn import Relu
from tests.flatbuffer_builder import ModelBuilder

PAGE = Path(__file__).resolve().parents[1] / "docs" / "custom-operators.md"


@pytest.fixture(autouse=True)
def registrations() -> Iterator[None]:
    """What a test registers goes with it."""
    before = dict(CUSTOM_IMPORTERS)
    yield
    CUSTOM_IMPORTERS.clear()
    CUSTOM_IMPORTERS.update(before)


def silu_file(dtype: str = "int8") -> bytes:
    """A model of one custom operator."""
    model = ModelBuilder()
    x = model.tensor((2, 5), dtype, 0.05, 3)
    y = model.tensor((2, 5), dtype, 0.04, -90 if dtype == "int8" else 38)
    model.operator("CUSTOM", [x], [y], custom_code="Silu")
    return model.build([x], [y])


def test_the_example_of_the_page_runs() -> None:
    (example,) = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    scope = {"file": silu_file()}
    exec(compile(example, str(PAGE), "exec"), scope)
    x = np.array([[-128, -3, 0, 3, 9], [20, 60, 90, 100, 127]], np.int8)
    (y,) = scope["model"].run([x])  # type: ignore[attr-defined]
    real = (x.astype(np.float64) - 3) * 0.05
    wanted = real / (1 + np.exp(-real)) / 0.04 - 90
    assert np.abs(y - np.clip(wanted, -128, 127)).max() < 2

    with pytest.raises(UnsupportedError, match=r"CUSTOM Silu.*expected int8"):
        qimport.compile(silu_file("uint8"))


def test_an_unknown_custom_operator_is_refused_by_name_with_the_way_out() -> None:
    with pytest.raises(UnsupportedError, match=r"CUSTOM Silu.*register_custom_operator"):
        qimport.compile(silu_file())


@pytest.mark.parametrize("emitted", [0, 2])
def test_a_function_emits_every_result_once(emitted: int) -> None:
    @qimport.register_custom_operator("Silu")
    def relu(context: OperatorContext) -> None:
        for _ in range(emitted):
            context.emit(Relu(), [context.input(0)], (2, 5))

    with pytest.raises(ArgumentError, match=f"'Silu' emits {emitted} results, but operator 0 has 1"):
        qimport.compile(silu_file())


def test_what_is_no_function_is_not_registered() -> None:
    with pytest.raises(ArgumentError, match="by its name"):
        qimport.register_custom_operator(None)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="no function that imports Silu"):
        qimport.register_custom_operator("Silu")(7)  # type: ignore[arg-type]


def test_arguments_of_another_kind_are_refused_in_words() -> None:
    with pytest.raises(ArgumentError, match="batch is 'x'; expected a whole number"):
        qimport.compile(silu_file(), batch="x")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="expected a mapping from names to sizes"):
        qimport.compile(silu_file(), shapes="t0=5")  # type: ignore[arg-type]
