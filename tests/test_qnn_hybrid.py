"""Weighted operators of float activations and integer weights against their lowering and the interpreter."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from qimport.ir.types import Quantization, TensorType
from qimport.oracle import Oracle
from qimport.qnn.hybrid_dense import HybridDense, stored_nibbles
from tests.cases import Draw, Operand, OperatorCase
from tests.one_operator.hybrid import CASES, matmul_case


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("make", CASES.values(), ids=CASES)
def test_random_case(make: Callable[[Draw], OperatorCase], seed: int, oracle: Oracle) -> None:
    make(Draw.of(seed)).check(oracle)


@pytest.mark.parametrize("seed", range(20))
def test_batch_matmul_of_computed_matrices(seed: int, oracle: Oracle) -> None:
    """The delegate takes these and gives nonsense, so only the other modes exist."""
    case = matmul_case(Draw.of(seed), computed=True)
    case.check(oracle, ("reference", "builtin"))
    assert case.op.unsupported(case.call("xnnpack")) is not None


def square_case(weights: Operand) -> OperatorCase:
    """Rows that are units: the result is the weights as the kernel sees them, 127 times their scale of 1."""
    depth, outputs = weights.type.shape[1], weights.type.shape[0]
    units = np.concatenate([np.eye(depth), -np.eye(depth)]).astype(np.float32) * 127
    x = Operand(TensorType("float32", units.shape), value=units)
    out = TensorType("float32", (2 * depth, outputs))
    return OperatorCase(HybridDense(), (x, weights, None), out, "FULLY_CONNECTED", {}, version=9)


def one_scale(dtype: str, codes: np.ndarray) -> Operand:
    """Constant weights of scale 1."""
    return Operand(TensorType(dtype, codes.shape, Quantization((1.0,), (0,))), codes.astype(np.int8))


def test_smallest_weight_keeps_its_sign_in_whole_vectors(oracle: Oracle) -> None:
    """Under a negative code -128 counts as 128 among the first 16 of 19 weights."""
    results = square_case(one_scale("int8", np.full((3, 19), -128))).check(oracle)
    assert [row[0] for row in results["reference"][:19]] == [-128.0 * 127] * 19
    assert [row[0] for row in results["reference"][19:]] == [-128.0 * 127] * 16 + [128.0 * 127] * 3


@pytest.mark.parametrize("depth", [32, 36, 50, 62, 64, 100])
def test_smallest_int4_weight_spoils_its_neighbours(depth: int, oracle: Oracle) -> None:
    codes = np.random.default_rng(depth).integers(-8, 8, (4, depth))
    results = square_case(one_scale("int4", codes)).check(oracle)
    assert np.array_equal(results["builtin"][:depth].T, 127 * stored_nibbles(codes))
    assert np.array_equal(results["reference"][:depth].T, 127 * codes)
