"""Worker process of :mod:`qimport.oracle`: the only module that imports ``ai_edge_litert``.

The first frame tells the installed version. A request names its model by SHA-256; for an unknown one the
reply is ``("model?", None)`` and the request comes again with the content.
"""

from __future__ import annotations

import ctypes
import time
from collections import OrderedDict
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import numpy as np

from qimport.oracle import Array, Resize
from qimport.worker import serve

KEPT_MODELS = 8
KEPT_INTERPRETERS = 16
"""How many models and prepared interpreters one worker holds; the least recently used one goes first."""

ARENA_GAP = 1024
"""Most bytes between neighbours in the arena, whose tensors are aligned to 64."""

STATEFUL_OPS = frozenset(
    {"VAR_HANDLE", "CALL_ONCE", "HASHTABLE", "RANDOM_UNIFORM", "RANDOM_STANDARD_NORMAL", "MULTINOMIAL"}
)
"""Operators whose state outlives ``reset_all_variables``: their models get a fresh interpreter per run."""


class _MallocInfo(ctypes.Structure):
    """``struct mallinfo2`` of glibc: ten sizes, of which the fifth and the eighth count bytes in use."""

    _fields_ = [(f"field_{position}", ctypes.c_size_t) for position in range(10)]


def _heap_in_use() -> int | None:
    """Bytes in use on the C heap, or None where the C library is not glibc 2.33 or newer."""
    try:
        mallinfo2 = ctypes.CDLL(None).mallinfo2
    except (AttributeError, OSError):
        return None
    mallinfo2.restype = _MallocInfo
    info = mallinfo2()
    return int(info.field_4) + int(info.field_7)  # mapped blocks, blocks of the heap proper


class Prepared:
    """One interpreter with allocated tensors, and what its making cost."""

    def __init__(
        self,
        content: bytes,
        resolver: str,
        *,
        resize: Resize | None,
        threads: int = 1,
        preserve: bool = False,
    ) -> None:
        from ai_edge_litert.interpreter import Interpreter, OpResolverType

        self._content = content
        self._interpreter = Interpreter(
            model_content=content,
            experimental_op_resolver_type=OpResolverType[resolver],
            num_threads=threads,
            experimental_preserve_all_tensors=preserve,
        )
        self._inputs = [item["index"] for item in self._interpreter.get_input_details()]
        for position, shape in (resize or {}).items():
            if position >= len(self._inputs):
                raise ValueError(f"there is no input {position} to resize, the model has {len(self._inputs)}")
            self._interpreter.resize_tensor_input(self._inputs[position], shape)
        operators = self._interpreter._get_ops_details()
        self._operator_count = len(operators)
        self.reusable = STATEFUL_OPS.isdisjoint(operator["op_name"] for operator in operators)
        self._heap_before = _heap_in_use()
        self._interpreter.allocate_tensors()

    def run(self, inputs: list[Array], invocations: int, preserve: bool) -> dict[str, Any]:
        """Invoke from the reset state; the fields of OracleResult."""
        outputs = self.run_sequence([inputs] * invocations)[-1]
        return {"outputs": outputs, "tensors": self._values() if preserve else {}}

    def run_sequence(self, sequence: list[list[Array]]) -> list[list[Array]]:
        """Outputs of one invocation per list of inputs, from the reset state on."""
        self._interpreter.reset_all_variables()
        outputs = []
        for inputs in sequence:
            # Inputs share the arena with later tensors, so each invocation needs them again.
            self._set(inputs)
            self._interpreter.invoke()
            outputs.append(self._outputs())
        return outputs

    def run_signature(self, key: str, sequence: list[dict[str, Array]]) -> list[dict[str, Array]]:
        """The same for a signature."""
        self._interpreter.reset_all_variables()
        runner = self._interpreter.get_signature_runner(key)
        return [{name: np.array(array) for name, array in runner(**arrays).items()} for arrays in sequence]

    def memory(self, inputs: list[Array]) -> dict[str, Any]:
        """Fields of OracleMemory; only right for an interpreter that has not been invoked."""
        self._set(inputs)
        self._interpreter.invoke()
        now = _heap_in_use()
        heap_bytes = None if now is None or self._heap_before is None else now - self._heap_before
        return {"arena_bytes": self._measure_arena(), "heap_bytes": heap_bytes}

    def time(self, inputs: list[Array], rounds: int, warmup: int) -> list[float]:
        """Seconds of each of successive invocations.

        Inputs are set outside the clock, and only once where that is safe: they share the arena with later
        tensors, whose bytes do as codes or floats, but not as indices.
        """
        seconds = []
        indices = any(array.dtype.kind in "iu" and array.dtype.itemsize > 2 for array in inputs)
        for number in range(warmup + rounds):
            if indices or number == 0:
                self._set(inputs)
            start = time.perf_counter()
            self._interpreter.invoke()
            seconds.append(time.perf_counter() - start)
        return seconds[warmup:]

    def details(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Fields of TensorDetail for each input and output."""
        described = self._interpreter.get_input_details(), self._interpreter.get_output_details()
        inputs, outputs = ([_detail(item) for item in items] for items in described)
        return inputs, outputs

    def delegated_ops(self) -> set[int]:
        """Operators inside delegate nodes.

        A delegate node lists only the tensors at its border, and the operators it replaced stay in the node
        list: those are the ones met walking back from its outputs to its inputs.
        """
        nodes = self._interpreter._get_ops_details()
        originals, added = nodes[: self._operator_count], nodes[self._operator_count :]
        producer = {int(tensor): node for node in originals for tensor in node["outputs"]}
        taken: set[int] = set()
        for delegate in added:
            border = {int(tensor) for tensor in delegate["inputs"]}
            waiting = [int(tensor) for tensor in delegate["outputs"]]
            while waiting:
                tensor = waiting.pop()
                node = producer.get(tensor)
                if tensor in border or node is None or node["index"] in taken:
                    continue
                taken.add(node["index"])
                waiting.extend(int(operand) for operand in node["inputs"])
        return taken

    def _set(self, inputs: list[Array]) -> None:
        if len(inputs) != len(self._inputs):
            raise ValueError(f"{len(inputs)} inputs given, the model has {len(self._inputs)}")
        for index, value in zip(self._inputs, inputs, strict=True):
            self._interpreter.set_tensor(index, value)

    def _outputs(self) -> list[Array]:
        details = self._interpreter.get_output_details()
        return [self._interpreter.get_tensor(item["index"]) for item in details]

    def _values(self) -> dict[int, Array]:
        values = {}
        for item in self._readable():
            try:
                values[int(item["index"])] = self._interpreter.get_tensor(item["index"])
            except ValueError:  # no data: inside a subgraph the interpreter rewrote, or never used
                continue
        return values

    def _readable(self) -> list[dict[str, Any]]:
        """Tensors that hold numbers: reading a resource or string tensor as an array ends the process."""
        return [
            item for item in self._interpreter.get_tensor_details() if np.dtype(item["dtype"]).kind in "biufc"
        ]

    def _measure_arena(self) -> int | None:
        """Span of the tensors that lie in one block with the first input.

        The interpreter does not tell its arena size, but gives out addresses. Constants lie in the model,
        persistent and dynamic tensors in allocations of their own; inside the arena tensors follow each other
        closely.
        """
        start = int(np.frombuffer(self._content, np.uint8).__array_interface__["data"][0])
        span: list[int] = []
        holds_input = False
        for low, high, index in sorted(self._addresses()):
            if start <= low < start + len(self._content):
                continue
            if not span or low > span[1] + ARENA_GAP:
                if holds_input:
                    break
                span = [low, high]
            span[1] = max(span[1], high)
            holds_input |= bool(self._inputs) and index == self._inputs[0]
        return span[1] - span[0] if holds_input else None

    def _addresses(self) -> list[tuple[int, int, int]]:
        """First and last address and index of each tensor of the first subgraph that has data."""
        blocks = []
        for item in self._readable():
            index = int(item["index"])
            try:
                view = self._interpreter._interpreter.tensor(self._interpreter._interpreter, index)
            except ValueError:
                continue
            address = int(view.__array_interface__["data"][0])
            blocks.append((address, address + view.nbytes, index))
            del view  # the interpreter refuses to invoke while a view lives
        return blocks


def _detail(item: dict[str, Any]) -> dict[str, Any]:
    quantization = item["quantization_parameters"]
    return {
        "index": int(item["index"]),
        "name": str(item["name"]),
        "shape": tuple(int(size) for size in item["shape"]),
        "shape_signature": tuple(int(size) for size in item["shape_signature"]),
        "dtype": np.dtype(item["dtype"]),
        "scales": tuple(float(scale) for scale in quantization["scales"]),
        "zero_points": tuple(int(zero) for zero in quantization["zero_points"]),
        "quantized_dimension": int(quantization["quantized_dimension"]),
    }


class Worker:
    """Answers requests; keeps models and prepared interpreters."""

    def __init__(self) -> None:
        self._models: OrderedDict[str, bytes] = OrderedDict()
        self._prepared: OrderedDict[tuple[Any, ...], Prepared] = OrderedDict()

    def answer(self, request: dict[str, Any]) -> tuple[str, Any]:
        """Reply to one request: ``ok`` and a value, ``model?``, or ``refused`` and why."""
        digest = request["digest"]
        if "content" in request:
            _keep(self._models, digest, request["content"], KEPT_MODELS)
        if digest not in self._models:
            return "model?", None
        self._models.move_to_end(digest)
        try:
            return "ok", self._perform(request)
        except (ValueError, RuntimeError, MemoryError) as error:
            # What failed half-way may be in any state.
            for key in [key for key in self._prepared if key[0] == digest]:
                del self._prepared[key]
            return "refused", " ".join(str(error).split()) or type(error).__name__

    def _perform(self, request: dict[str, Any]) -> Any:
        prepared = self._prepare(request)
        command: str = request["command"]
        perform: dict[str, Callable[[], Any]] = {
            "run": lambda: prepared.run(request["inputs"], request["invocations"], request["preserve"]),
            "run_sequence": lambda: prepared.run_sequence(request["sequence"]),
            "run_signature": lambda: prepared.run_signature(request["key"], request["sequence"]),
            "time": lambda: prepared.time(request["inputs"], request["rounds"], request["warmup"]),
            "memory": lambda: prepared.memory(request["inputs"]),
            "details": prepared.details,
            "delegated_ops": prepared.delegated_ops,
        }
        return perform[command]()

    def _prepare(self, request: dict[str, Any]) -> Prepared:
        digest, resolver, resize = request["digest"], request["resolver"], request.get("resize")
        threads, preserve = request.get("threads", 1), request.get("preserve", False)
        key = (digest, resolver, tuple(sorted((resize or {}).items())), threads, preserve)
        prepared = self._prepared.get(key)
        if prepared is None:
            prepared = Prepared(
                self._models[digest], resolver, resize=resize, threads=threads, preserve=preserve
            )
            if prepared.reusable:
                _keep(self._prepared, key, prepared, KEPT_INTERPRETERS)
        else:
            self._prepared.move_to_end(key)
        return prepared


def _keep(store: OrderedDict[Any, Any], key: Any, value: Any, limit: int) -> None:
    store[key] = value
    store.move_to_end(key)
    if len(store) > limit:
        store.popitem(last=False)


def _say_first() -> tuple[str, str]:
    """The installed version, or why there is none."""
    try:
        import ai_edge_litert.interpreter  # noqa: F401 - fails here, not in the first request
    except ImportError as error:
        return "missing", str(error)
    return "ready", version("ai-edge-litert")


if __name__ == "__main__":
    serve(_say_first, Worker().answer)
