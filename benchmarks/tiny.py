"""Networks of microseconds, called as one calls the TFLite interpreter: ``Interpreter.invoke()``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from common import markdown, mean, zoo

from qimport import Interpreter
from qimport.benchmark import contest
from qimport.oracle import random_inputs
from qimport.peers import Bound, Peers

PATTERNS = ("mlperftiny__*", "tinymaix__*")
PEERS = ("tflite", "openvino")
SECONDS = 1.5


@dataclass(frozen=True)
class Input:
    """An input as random values are drawn for it."""

    shape: tuple[int, ...]
    dtype: Any


def table() -> str:
    """Microseconds and ratios."""
    rows, to_best = [], []
    files = [file for pattern in PATTERNS for file in sorted(zoo().glob(f"zoo/{pattern}.tflite"))]
    with Peers(PEERS) as peers:
        for file in files:
            model = Interpreter(str(file))
            model.allocate_tensors()
            details = model.get_input_details()
            inputs = random_inputs([Input(tuple(map(int, d["shape"])), d["dtype"]) for d in details], 0)
            for detail, array in zip(details, inputs, strict=True):
                model.set_tensor(detail["index"], array)
            outputs = [model.tensor(detail["index"])() for detail in model.get_output_details()]
            content = file.read_bytes()
            contestants = {"qimport": Bound(model.invoke, outputs), **peers.contestants(content, inputs)}
            wanted = peers.oracle.run(content, inputs, model.numerics).outputs
            timings, _ = contest(contestants, wanted, seconds=SECONDS)
            ours, *others = (timing.minimum for timing in timings)
            to_best.append(min(others) / ours)
            times = [f"{seconds * 1e6:.1f}" for seconds in (ours, *others)]
            exact = "DIFFER" if timings[0].differing else "equal"
            rows.append([file.stem, *times, f"{to_best[-1]:.2f}", exact])
    rows.append(["geometric mean", "", "", "", mean(to_best), ""])
    columns = ["network", "qimport us", "XNNPACK us", "OpenVINO us", "best / qimport", "our outputs"]
    return markdown(columns, rows)


if __name__ == "__main__":
    print(table())
