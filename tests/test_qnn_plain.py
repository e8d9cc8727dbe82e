"""Arithmetic, relations, choice and conversion: specification equals lowering; constraints are checked."""

from __future__ import annotations

import pytest

from qimport import qnn
from qimport.errors import VerifyError
from qimport.frontend.importer import import_model
from qimport.frontend.schema import read_model
from qimport.ir.graph import Call
from qimport.ir.interpret import interpret
from qimport.ir.types import TensorType
from qimport.lower.pipeline import lower
from qimport.numerics import X86_NUMERICS
from tests.one_operator import GENERATORS, draw_model
from tests.single_op import expect_same, quantized

MODULES = ("binary", "plain", "quantize")
OURS = sorted(name for name, draw in GENERATORS.items() if draw.__module__.rpartition(".")[2] in MODULES)


@pytest.mark.parametrize("name", OURS)
def test_specification_equals_lowering(name: str) -> None:
    for seed in range(4):
        model = draw_model(name, seed)
        graph = import_model(read_model(model.file)).graph
        for mode in X86_NUMERICS:
            if any(node.op.unsupported(node.call(mode)) for node in graph.nodes):  # type: ignore[attr-defined]
                continue
            for inputs in model.invocations:
                wanted = interpret(graph, inputs, mode)[0]
                found = interpret(lower(graph, mode), inputs)[0]
                expect_same(found, wanted, f"{name} {seed} in {mode}: {model.text}")


FLOATS, INTS, BOOLS = (TensorType(dtype, (4,)) for dtype in ("float32", "int32", "bool"))
CODES, WIDE = quantized("int8", (4,), 0.1, 0), quantized("int16", (4,), 0.1, 0)
OTHER = TensorType("float32", (3,))


@pytest.mark.parametrize(
    ("op", "operands", "result", "label"),
    [
        (qnn.Arithmetic("add"), (FLOATS, INTS), FLOATS, "C1"),
        (qnn.Arithmetic("floor_div"), (BOOLS, BOOLS), BOOLS, "C1"),
        (qnn.Arithmetic("add"), (FLOATS, OTHER), FLOATS, "C2"),
        (qnn.Arithmetic("root"), (FLOATS, FLOATS), FLOATS, "C3"),
        (qnn.Arithmetic("maximum", "RELU"), (FLOATS, FLOATS), FLOATS, "C4"),
        (qnn.AddN(), (FLOATS, INTS), FLOATS, "C1"),
        (qnn.LogicalNot(), (INTS,), BOOLS, "C1"),
        (qnn.Compare("less"), (BOOLS, BOOLS), BOOLS, "C1"),
        (qnn.Compare("less"), (FLOATS, OTHER), BOOLS, "C2"),
        (qnn.Compare("equal"), (CODES, quantized("int8", (4,), 1.0, 0)), BOOLS, "C3"),
        (qnn.Select(), (INTS, FLOATS, FLOATS), FLOATS, "C1"),
        (qnn.Select(), (BOOLS, FLOATS, OTHER), FLOATS, "C2"),
        (qnn.Cast(), (FLOATS,), TensorType("int4", (4,)), "C1"),
        (qnn.Cast(), (FLOATS,), OTHER, "C2"),
        (qnn.Pow(), (INTS, FLOATS), FLOATS, "C1"),
        (qnn.Pow(), (FLOATS, OTHER), FLOATS, "C2"),
        (qnn.Pow(3), (FLOATS, FLOATS), FLOATS, "C3"),
        (qnn.Div(), (CODES, CODES), WIDE, "C1"),
        (qnn.Div(), (CODES, CODES), quantized("int8", (4,), 1e-9, 0), "C4"),
        (
            qnn.Add("NONE", True),
            (quantized("int16", (4,), 0.5, 0),) * 2,
            quantized("int16", (4,), 1, 0),
            "C4",
        ),
        (qnn.Mul(), (WIDE, quantized("int16", (1,), 0.1, 0)), CODES, "C5"),
        (qnn.SquaredDifference(), (CODES, WIDE), CODES, "C1"),
        (qnn.SquaredDifference(), (CODES, CODES), quantized("int8", (3,), 0.1, 0), "C2"),
        (qnn.SquaredDifference(), (CODES, CODES), quantized("int8", (4,), 1e-8, 0), "C3"),
    ],
)
def test_constraints(
    op: qnn.QnnOperation, operands: tuple[TensorType, ...], result: TensorType, label: str
) -> None:
    with pytest.raises(VerifyError, match=rf"\({label}\)"):
        op.verify(Call(operands, (result,)))
