"""The comparison with the interpreter finds what differs, and where it begins."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qimport import verify
from qimport.arrays import Array
from qimport.model import CompiledModel, Session
from qimport.oracle import Oracle, OracleResult
from qimport.verify import compare, verify_model

DIGITS = Path(__file__).resolve().parents[1] / "models" / "digits_int8_ptq.tflite"


class Altered:
    """An interpreter that has element 3 of some tensors and outputs wrong."""

    def __init__(self, oracle: Oracle, tensors: Sequence[int] = (), outputs: Sequence[int] = ()) -> None:
        self._oracle, self._tensors, self._outputs = oracle, tensors, outputs
        self.version = oracle.version

    def run(self, *arguments: Any, **keywords: Any) -> OracleResult:
        result = self._oracle.run(*arguments, **keywords)
        self._alter(*(result.tensors[i] for i in self._tensors if i in result.tensors))
        self._alter(*(result.outputs[i] for i in self._outputs))
        return result

    def run_sequence(self, *arguments: Any, **keywords: Any) -> list[list[Array]]:
        results = self._oracle.run_sequence(*arguments, **keywords)
        for outputs in results:
            self._alter(*(outputs[i] for i in self._outputs))
        return results

    @staticmethod
    def _alter(*arrays: Array) -> None:
        for array in arrays:
            array.reshape(-1)[3] ^= 1


def test_a_wrong_output_is_told_with_its_first_element(oracle: Oracle) -> None:
    report = verify_model(DIGITS, Altered(oracle, outputs=[0]), seeds=[4, 5])  # type: ignore[arg-type]
    assert not report.equal
    assert report.layer is None
    assert [(item.seed, item.differing, item.index) for item in report.comparisons] == [
        (4, 1, (0, 3)),
        (5, 1, (0, 3)),
    ]
    found, expected = report.comparisons[0].found, report.comparisons[0].expected
    assert found == expected ^ 1
    assert json.loads(json.dumps(report.as_dict()))["comparisons"][0]["index"] == [0, 3]


def test_the_first_wrong_tensor_is_told_with_its_operator(oracle: Oracle) -> None:
    altered = Altered(oracle, tensors=[12, 14, 15])
    report = verify_model(DIGITS, altered, seeds=[0], per_layer=True)  # type: ignore[arg-type]
    assert report.layer is not None
    assert (report.layer.stage, report.layer.tensor) == ("qnn", 12)
    assert "MAX_POOL_2D" in report.layer.operator
    assert report.layer.comparison.index == (0, 0, 0, 3)
    assert not report.equal, "also where all outputs are equal"
    assert not any(item.differing for item in report.comparisons)


def test_wrong_code_is_told_from_wrong_lowering(oracle: Oracle, monkeypatch: pytest.MonkeyPatch) -> None:
    run = CompiledModel.run

    def wrong(self: CompiledModel, *arguments: Any, **keywords: Any) -> Any:
        results = run(self, *arguments, **keywords)
        results[-1].reshape(-1)[0] ^= 1
        return results

    monkeypatch.setattr(CompiledModel, "run", wrong)
    report = verify_model(DIGITS, oracle, seeds=[0], per_layer=True)
    assert report.layer is not None
    assert (report.layer.stage, report.layer.tensor) == ("code", 16)

    call = Session.call

    def wrong_when_fused(self: Session, inputs: Sequence[Array]) -> list[Array]:
        results = call(self, inputs)
        results[-1].reshape(-1)[0] ^= 1
        return results

    monkeypatch.setattr(CompiledModel, "run", run)
    monkeypatch.setattr(Session, "call", wrong_when_fused)
    report = verify_model(DIGITS, oracle, seeds=[0], per_layer=True)
    assert report.layer is not None
    assert (report.layer.stage, report.layer.tensor) == ("fused", 16)
    assert "SOFTMAX" in report.layer.operator


def test_a_wrong_lowering_is_told_from_a_wrong_specification(
    oracle: Oracle, monkeypatch: pytest.MonkeyPatch
) -> None:
    interpret = verify.interpret

    def wrong(graph: Any, *arguments: Any) -> Any:
        results = interpret(graph, *arguments)
        if any(node.op.NAME.startswith("prim.") for node in graph.nodes):
            results[0] = results[0] ^ np.int8(1)
        return results

    monkeypatch.setattr(verify, "interpret", wrong)
    report = verify_model(DIGITS, oracle, seeds=[0], per_layer=True)
    assert report.layer is not None
    assert (report.layer.stage, report.layer.comparison.differing) == ("prim", 8 * 8 * 16)


def test_comparison_is_of_bytes() -> None:
    """-0.0 is not 0.0, one NaN is another NaN only with the same bits, and scalars have an index."""
    zeros = np.zeros(3, np.float32)
    assert compare(0, "x", -zeros, zeros).differing == 3
    nan = np.array(np.nan, np.float32)
    assert compare(0, "x", nan, nan).differing == 0
    assert compare(0, "x", -nan, nan).index == ()


@pytest.mark.parametrize(
    "other", [np.zeros((3, 2), np.int8), np.zeros((2, 3), np.uint8), np.zeros(0, np.int8)]
)
def test_other_shapes_and_types_differ_everywhere(other: np.ndarray) -> None:
    result = compare(0, "x", np.zeros((2, 3), np.int8), other)
    assert result.differing == max(other.size, 1)
    assert replace(result, differing=0) == compare(0, "x", other, other)


def test_the_distance_of_floats_is_counted() -> None:
    expected = np.array([1, -1, 0, 2], np.float32)
    found = np.array([np.nextafter(np.float32(1), np.float32(2)), -1, -0.0, 2], np.float32)
    assert compare(0, "x", found, expected).units == 1
    tiny = np.array([-1e-45, 1e-45], np.float32)
    assert compare(0, "x", tiny, -tiny).units == 2
    assert compare(0, "x", np.zeros(2, np.int8), np.ones(2, np.int8)).units is None
