"""Worker process of :mod:`qimport.peers`: the only module that imports ``openvino``.

It holds one model at a time. Requests are ``("prepare", ...)``, which compiles a model and answers with its
outputs for the given inputs, and ``("time", ...)``, which calls it on the same inputs again.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from qimport.worker import serve, successive_calls

Array = npt.NDArray[Any]

SETTINGS = {"NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY"}


class Worker:
    """Answers requests."""

    def __init__(self) -> None:
        self._request: Any = None
        self._tensors: list[Any] = []

    def answer(self, request: tuple[Any, ...]) -> tuple[str, Any]:
        """Reply to one request: ``ok`` and a value, or ``refused`` and why."""
        command, *arguments = request
        try:
            return "ok", getattr(self, command)(*arguments)
        except (RuntimeError, ValueError, TypeError, MemoryError) as error:
            lines = [line for line in str(error).splitlines() if not line.startswith("Exception from")]
            return "refused", " ".join(" ".join(lines).split()) or type(error).__name__

    def prepare(self, content: bytes, inputs: Sequence[Array], threads: int) -> list[Array]:
        """Compile for the shapes of ``inputs``, run once, and return the outputs."""
        import openvino

        core = openvino.Core()
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "model.tflite")
            file.write_bytes(content)
            model = core.read_model(file)
        if len(model.inputs) != len(inputs):
            raise ValueError(f"{len(inputs)} inputs given, the model has {len(model.inputs)}")
        model.reshape({position: list(array.shape) for position, array in enumerate(inputs)})
        compiled = core.compile_model(model, "CPU", {**SETTINGS, "INFERENCE_NUM_THREADS": threads})
        self._request = compiled.create_infer_request()
        self._tensors = [openvino.Tensor(array) for array in inputs]  # memory that the request reads
        for position, tensor in enumerate(self._tensors):
            self._request.set_input_tensor(position, tensor)
        self._request.infer()
        return [np.array(self._request.get_output_tensor(i).data) for i in range(len(model.outputs))]

    def time(self, calls: int) -> list[float]:
        """Seconds of each of ``calls`` calls after an untimed one."""
        return successive_calls(self._request.infer, calls)


def _say_first() -> tuple[str, str]:
    """The installed version, or why there is none."""
    try:
        import openvino  # noqa: F401 - fails here, not in the first request
    except ImportError as error:
        return "missing", str(error)
    return "ready", version("openvino")


if __name__ == "__main__":
    serve(_say_first, Worker().answer)
