"""FULLY_CONNECTED and EMBEDDING_LOOKUP with a scale per block: specification, lowering, interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from qimport.errors import ModelError, UnsupportedError
from qimport.frontend.importer import import_model
from qimport.frontend.schema import read_model
from qimport.ir.graph import Graph
from qimport.ir.interpret import interpret
from qimport.lower.pipeline import lower
from qimport.numerics import X86_NUMERICS
from qimport.oracle import Oracle
from tests.flatbuffer_builder import ModelBuilder
from tests.one_operator import OneOperator, draw_model
from tests.single_op import expect_same


def drawn(seed: int, builtin: str = "FULLY_CONNECTED") -> OneOperator:
    return draw_model(f"{builtin} blockwise", seed)


def graph_of(file: bytes) -> Graph:
    return import_model(read_model(file)).graph


@pytest.mark.parametrize("builtin", ["FULLY_CONNECTED", "EMBEDDING_LOOKUP"])
@pytest.mark.parametrize("seed", range(20))
def test_blockwise(seed: int, builtin: str, oracle: Oracle) -> None:
    model = drawn(seed, builtin)
    graph, inputs = graph_of(model.file), model.invocations[0]
    for mode in X86_NUMERICS:
        specified = interpret(graph, inputs, mode)[0]
        expect_same(interpret(lower(graph, mode), inputs)[0], specified, f"{model.text} lowered in {mode}")
        expect_same(specified, oracle.run(model.file, inputs, mode).outputs[0], f"{model.text} in {mode}")


@pytest.mark.parametrize("seed", range(20))
def test_what_the_delegate_takes(seed: int, oracle: Oracle) -> None:
    model = drawn(seed)
    (node,) = (node for node in graph_of(model.file).nodes if node.op.NAME == "qnn.blockwise_dense")
    takes = node.op.xnnpack_takes(node.call("xnnpack"))  # type: ignore[attr-defined]
    assert takes == bool(oracle.delegated_ops(model.file))


def dense(
    block: int = 4, dtype: str = "int4", scales: str = "float16", value: float = 1.0, at: int | None = None
) -> bytes:
    model = ModelBuilder()
    x, out = model.tensor((1, 8), "float32"), model.tensor((1, 2), "float32")
    table: Any = np.full((2, 2), value)
    where = model.tensor((2, 2), scales, data=table, name="scales")
    blockwise = (where if at is None else at, -1, block)
    w = model.tensor((2, 8), dtype, data=np.ones((2, 8), np.int8), name="w", blockwise=blockwise)
    model.operator("FULLY_CONNECTED", [x, w, -1], [out], 9)
    return model.build([x], [out])


@pytest.mark.parametrize(
    ("file", "sentence"),
    [
        (dense(block=3), "blocks of 3 do not divide rows of 8"),
        (dense(block=0), "blocks of 0 do not divide rows of 8"),
        (dense(block=8), r"the scales of blocks are float16\[2, 2\]; expected 2 constants of float16"),
        (
            dense(scales="float32"),
            r"the scales of blocks are float32\[2, 2\]; expected 4 constants of float16",
        ),
        (dense(value=0.0), "a block has a scale that is not positive and finite"),
        (dense(value=np.inf), "a block has a scale that is not positive and finite"),
        (dense(dtype="int8"), "the quantization scheme BlockwiseQuantization is not supported"),
    ],
)
def test_refusals(file: bytes, sentence: str) -> None:
    with pytest.raises(UnsupportedError, match=sentence):
        graph_of(file)


def test_scales_that_do_not_exist_are_a_model_error() -> None:
    with pytest.raises(ModelError, match="the scales of 'w' are tensor 99, which does not exist"):
        graph_of(dense(at=99))
