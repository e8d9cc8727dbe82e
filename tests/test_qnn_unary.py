"""8-bit functions: every code of several quantizations, in every mode, against the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

from qimport.errors import VerifyError
from qimport.ir.types import INTEGER_RANGE
from qimport.oracle import Oracle
from qimport.qnn.hard_swish import HardSwish
from qimport.qnn.relu import RELU_FAMILY, Relu
from qimport.qnn.tabulated import Logistic, Tanh
from qimport.qnn.unary import UnaryOperation
from tests.single_op import Case, all_codes, quantized, scales_and_zeros

UNARY: tuple[type[UnaryOperation], ...] = (Logistic, Tanh, HardSwish, *RELU_FAMILY)
VERSIONS = {"LOGISTIC": 2, "TANH": 2, "RELU": 2, "RELU6": 2}
DRAWS = 6


def unary_case(
    op: UnaryOperation, dtype: str, before: tuple[float, int], after: tuple[float, int], size: int = 256
) -> Case:
    builtin = op.TFLITE[0]
    types = quantized(dtype, (size,), *before), quantized(dtype, (size,), *after)
    return Case(op, types[:1], types[1], builtin, version=VERSIONS.get(builtin, 1))


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("kind", UNARY)
def test_every_code_equals_the_interpreter(kind: type[UnaryOperation], dtype: str, oracle: Oracle) -> None:
    rng = np.random.default_rng(len(kind.__name__))
    pairs = zip(scales_and_zeros(rng, dtype, DRAWS), scales_and_zeros(rng, dtype, DRAWS), strict=True)
    for extra, (before, after) in enumerate(pairs):
        result = (1 / 256, INTEGER_RANGE[dtype][0]) if kind is Logistic else after
        case = unary_case(kind(), dtype, before, result, 256 + extra)
        case.check(oracle, [all_codes(dtype, extra)])


def test_logistic_accepts_any_zero_point(oracle: Oracle) -> None:
    case = unary_case(Logistic(), "int8", (0.1, 3), (1 / 256, 17))
    case.check(oracle, [all_codes("int8")])


def test_tanh_of_huge_values_saturates(oracle: Oracle) -> None:
    case = unary_case(Tanh(), "int8", (50.0, 0), (1 / 128, 0))
    case.check(oracle, [all_codes("int8")])


def test_hard_swish_of_128_is_45() -> None:
    case = unary_case(HardSwish(), "uint8", (0.13308307528495789, 105), (0.075572937726974487, 5), 1)
    op = case.graph().nodes[0]
    result = op.op.evaluate(op.call("reference", (np.array([128], np.uint8),)))[0]
    assert result.tolist() == [45]


def test_only_tabulated_functions_are_delegated(oracle: Oracle) -> None:
    for kind in UNARY:
        case = unary_case(kind(), "int8", (0.05, -3), (1 / 256, -128))
        node = case.graph().nodes[0]
        taken = bool(oracle.delegated_ops(case.file()))
        assert kind().xnnpack_takes(node.call("xnnpack")) == taken == (kind in (Logistic, Tanh))


@pytest.mark.parametrize(
    ("op", "before", "after", "message"),
    [
        (Logistic(), (0.1, 0), (0.005, -128), r"\(C3\) .* LOGISTIC must be 1/256, not 0\.00"),
        (Relu(), (1e30, 0), (1e-5, 0), r"\(C3\) .* more than 2\^31 times"),
        (HardSwish(), (1.0, 0), (0.001, 0), r"\(C3\) the input scale 1\.0 of HARD_SWISH"),
    ],
)
def test_quantization_the_kernel_refuses(
    op: UnaryOperation, before: tuple[float, int], after: tuple[float, int], message: str
) -> None:
    with pytest.raises(VerifyError, match=message):
        unary_case(op, "int8", before, after).graph()


def test_types_are_checked() -> None:
    x, other = quantized("int8", (4,), 0.1, 0), quantized("uint8", (4,), 0.1, 0)
    with pytest.raises(VerifyError, match=r"\(C1\)"):
        Case(Relu(), (x,), other, "RELU").graph()
    with pytest.raises(VerifyError, match=r"\(C2\)"):
        Case(Relu(), (x,), x.with_shape((2, 2)), "RELU").graph()
