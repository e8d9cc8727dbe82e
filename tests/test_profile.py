"""Times of single kernel calls."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from qimport.compiler import trace
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
