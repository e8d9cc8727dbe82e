"""Functions of one tensor of every element type: specification, lowering, interpreter, delegation."""

from __future__ import annotations

import numpy as np
import pytest

from qimport.errors import UnsupportedError
from qimport.ir.interpret import interpret
from qimport.lower.pipeline import lower
from qimport.numerics import X86_NUMERICS
from qimport.oracle import Oracle
from qimport.qnn.log_softmax import LogSoftmax
from qimport.qnn.prelu import SLOPES
from qimport.qnn.relu import LeakyRelu
from qimport.qnn.softmax import Softmax
from qimport.qnn.tabulated import Elu
from qimport.qnn.unary import UnaryOperation
from tests.cases import Draw, Operand, OperatorCase
from tests.one_operator.unary import KINDS, drawn, prelu_case
from tests.single_op import expect_close, expect_same, quantized

ALL = [(kind, dtype) for kind in KINDS for dtype in kind.TYPES]


@pytest.mark.parametrize(("kind", "dtype"), ALL)
def test_function_equals_the_interpreter(kind: type[UnaryOperation], dtype: str, oracle: Oracle) -> None:
    for seed in (100, 101):
        case = drawn(kind, dtype, Draw.of(seed))
        if dtype != "float32":
            case.check(oracle)
        else:
            check_within_bound(case, oracle)


def check_within_bound(case: OperatorCase, oracle: Oracle) -> None:
    """The lowering has the bytes of the specification, which is as close to the interpreter as it
    promises."""
    for mode in X86_NUMERICS:
        if case.op.unsupported(case.call(mode)) is not None:
            continue
        specified = interpret(case.graph(), case.inputs, mode)[0]
        expect_same(
            interpret(lower(case.graph(), mode), case.inputs)[0], specified, f"{case} lowered in {mode}"
        )
        answer = oracle.run(case.file(), case.inputs, mode).outputs[0]
        expect_close(specified, answer, case.op.ulp_bound(case.call(mode)), f"{case} in {mode}")
    taken = bool(oracle.delegated_ops(case.file()))
    assert taken == case.op.xnnpack_takes(case.call("xnnpack")), f"{case} delegated: {taken}"


@pytest.mark.parametrize("dtype", SLOPES)
def test_prelu_equals_the_interpreter(dtype: str, oracle: Oracle) -> None:
    for seed in range(4):
        case = prelu_case(dtype, Draw.of(seed))
        for mode in X86_NUMERICS:
            specified = interpret(case.graph(), case.inputs, mode)[0]
            expect_same(interpret(lower(case.graph(), mode), case.inputs)[0], specified, str(case))
            expect_same(specified, oracle.run(case.file(), case.inputs, mode).outputs[0], f"{case} in {mode}")


def test_what_has_no_reference_kernel_is_refused_there() -> None:
    case = drawn(Elu, "int8", Draw.of(1))
    with pytest.raises(UnsupportedError, match="no reference kernel of ELU"):
        lower(case.graph(), "reference")


def test_negative_slopes_of_int16_tie_differently_in_the_optimized_kernel(oracle: Oracle) -> None:
    type_ = quantized("int16", (8,), 2.0**-10, 0)
    x = Operand(type_, value=np.arange(-8, 0).astype(np.int16))
    case = OperatorCase(LeakyRelu(-0.5), (x,), type_, "LEAKY_RELU", {"alpha": -0.5}, version=2)
    results = case.check(oracle)
    assert results["reference"].tolist() == [4, 3, 3, 2, 2, 1, 1, 0]
    assert results["builtin"].tolist() == [4, 4, 3, 3, 2, 2, 1, 1]


def test_rows_of_many_equal_logits(oracle: Oracle) -> None:
    """The sum of 512 equal exponentials fills what an 8-bit kernel can hold; 16-bit results have room."""
    x = Operand(quantized("int8", (2, 600), 0.1, 0), value=np.zeros((2, 600), np.int8))
    out = quantized("int16", (2, 600), 1 / 32768, 0)
    OperatorCase(Softmax(1.0), (x,), out, "SOFTMAX", {"beta": 1.0}).check(oracle)
    result = quantized("int8", (2, 600), 1 / 16, 127)
    OperatorCase(LogSoftmax(), (x,), result, "LOG_SOFTMAX", version=2).check(oracle, ("builtin", "xnnpack"))
