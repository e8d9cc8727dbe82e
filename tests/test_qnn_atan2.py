"""ATAN2 against its lowering, the interpreter and NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from qimport.errors import ModelError, UnsupportedError
from qimport.ir.graph import Call
from qimport.ir.interpret import interpret
from qimport.ir.types import TensorType
from qimport.lower.pipeline import lower
from qimport.oracle import Oracle
from qimport.qnn.atan2 import Atan2
from tests.cases import Draw
from tests.importer_models import One, T
from tests.one_operator.atan2 import coordinates
from tests.single_op import expect_close, expect_same


@pytest.mark.parametrize("seed", range(6))
def test_atan2(seed: int, oracle: Oracle) -> None:
    shape = (3, 200)
    y, x = (coordinates(Draw.of(seed + offset), shape) for offset in (0, 1000))
    operand = T(shape, "float32", None)
    model = One("ATAN2", [operand, operand], operand)
    graph = model.load().graph
    found = interpret(graph, [y, x])[0]
    expect_same(interpret(lower(graph, "reference"), [y, x])[0], found, "lowered")
    expect_close(found, oracle.run(model.file(), [y, x], "builtin").outputs[0], 1, "the interpreter")


def test_float64_rounds_to_the_nearest_number() -> None:
    rng = np.random.default_rng(0)
    y, x = (rng.standard_normal(100_000).astype(np.float32) for _ in range(2))
    type_ = TensorType("float32", y.shape)
    (found,) = Atan2().evaluate(Call((type_, type_), (type_,), (y, x)))
    exact = np.arctan2(y.astype(np.float64), x.astype(np.float64)).astype(np.float32)
    assert (found == exact).all()


def test_refusals() -> None:
    with pytest.raises(UnsupportedError, match="the element type is float64; expected float32"):
        One("ATAN2", [T((2,), "float64", None)] * 2, T((2,), "float64", None)).load()
    with pytest.raises(ModelError, match="expected the same"):
        One("ATAN2", [T((2,), "float32", None), T((1,), "float32", None)], T((2,), "float32", None)).load()
