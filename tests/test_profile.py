"""Times of single kernel calls."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from qimport import prim
from qimport.compiler import trace
from qimport.ir.graph import Builder, Value
from qimport.ir.types import TensorType
from qimport.lower.kernel import multiply_accumulates
from qimport.profile import profile

MODEL = Path(__file__).parents[1] / "models" / "digits_int8_qat.tflite"


def test_every_call_is_timed() -> None:
    compilation = trace(MODEL)
    inputs = [np.zeros(info.shape, info.dtype) for info in compilation.inputs]
    times = profile(compilation, inputs, rounds=3)
    assert len(times) == len(compilation.plan.calls)
    assert all(0 < time.seconds < 1 for time in times)
    assert sum(time.macs for time in times) > 0
    assert [time.row for time in times] == list(compilation.program.rows)


def test_products_are_those_of_a_window_per_result() -> None:
    builder, x = Builder(), Value(TensorType("float32", (1, 5, 6, 4)), "x")
    w, bias = (builder.constant(np.zeros(shape, np.float32)) for shape in ((3, 2, 4, 7), (7,)))
    op = prim.FloatMac()
    builder.emit(op, (x, w, bias), op.result_type(x.type, w.type))
    assert multiply_accumulates(builder.nodes[0]) == (3 * 5 * 7) * (3 * 2 * 4)
