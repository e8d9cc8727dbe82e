"""One operation, three ways: its ``evaluate``, its lowering interpreted, and the TFLite interpreter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from qimport.ir.graph import Array, Builder, Graph, Value
from qimport.ir.interpret import interpret
from qimport.ir.types import INTEGER_RANGE, Quantization, TensorType
from qimport.lower.pipeline import lower
from qimport.numerics import X86_NUMERICS, Numerics
from qimport.oracle import Oracle
from qimport.qnn.base import QnnOperation
from tests.flatbuffer_builder import ModelBuilder


def quantized(dtype: str, shape: Sequence[int], scale: float, zero_point: int) -> TensorType:
    """A type with one scale, rounded to float32 as the file rounds it."""
    return TensorType(dtype, tuple(shape), Quantization((float(np.float32(scale)),), (zero_point,)))


@dataclass(frozen=True)
class Case:
    """An operation with its types, and how the file writes it.

    ``constants`` are operands of the file that are attributes here.
    """

    op: QnnOperation
    inputs: tuple[TensorType, ...]
    output: TensorType
    builtin: str
    constants: tuple[Array, ...] = ()
    version: int = 1
    options: Mapping[str, Any] = field(default_factory=dict)

    def graph(self) -> Graph:
        """The qnn graph of the one node."""
        builder = Builder()
        inputs = tuple(Value(type_, f"x{i}") for i, type_ in enumerate(self.inputs))
        return Graph("case", inputs, (builder.emit(self.op, inputs, self.output, "y"),), tuple(builder.nodes))

    def file(self) -> bytes:
        """The .tflite file of the one operator."""
        model = ModelBuilder()
        inputs = [add_tensor(model, type_) for type_ in self.inputs]
        extra = [model.tensor(array.shape, array.dtype.name, data=array) for array in self.constants]
        output = add_tensor(model, self.output)
        model.operator(self.builtin, [*inputs, *extra], [output], self.version, **self.options)
        return model.build(inputs, [output])

    def check(
        self, oracle: Oracle | None, arrays: Sequence[Array], modes: Sequence[Numerics] = X86_NUMERICS
    ) -> None:
        """Compare bytes in every mode; without ``oracle`` only our own two ways."""
        graph, file = self.graph(), self.file()
        for mode in modes:
            specified = interpret(graph, arrays, mode)[0]
            lowered = interpret(lower(graph, mode), arrays)[0]
            expect_same(lowered, specified, f"{self} lowered in {mode}")
            if oracle is not None:
                answer = oracle.run(file, list(arrays), mode).outputs[0]
                expect_same(specified, answer, f"{self} in {mode}")


def add_tensor(model: ModelBuilder, type_: TensorType) -> int:
    """Enter a tensor of ``type_`` into a file."""
    quant = type_.quantization
    if quant is None:
        return model.tensor(type_.shape, type_.dtype)
    scales, zero_points = list(quant.scales), list(quant.zero_points)
    return model.tensor(type_.shape, type_.dtype, scales, zero_points, quant.axis or 0)


def expect_same(found: Array, wanted: Array, what: str) -> None:
    """Fail with the number of different elements and the first of them."""
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype), what
    left, right = (np.ascontiguousarray(a).reshape(-1) for a in (found, wanted))
    size = left.dtype.itemsize
    differ = (left.view(np.uint8) != right.view(np.uint8)).reshape(-1, size).any(axis=1)
    if differ.any():
        first = int(np.flatnonzero(differ)[0])
        example = f"[{first}] is {left[first]}, not {right[first]}"
        pytest.fail(f"{what}: {differ.sum()} of {left.size} differ; {example}")


def all_codes(dtype: str, extra: int = 0) -> Array:
    """Every 8-bit code once, and ``extra`` more for leftovers of blocks."""
    lowest, highest = INTEGER_RANGE[dtype]
    codes = np.arange(lowest, highest + 1)
    return np.concatenate([codes, np.resize(codes[::-37], extra)]).astype(dtype)


def random_codes(rng: np.random.Generator, type_: TensorType) -> Array:
    """Uniform codes of an integer type."""
    lowest, highest = INTEGER_RANGE[type_.dtype]
    return rng.integers(lowest, highest, type_.shape, endpoint=True).astype(type_.numpy)


def scales_and_zeros(rng: np.random.Generator, dtype: str, count: int) -> Iterator[tuple[float, int]]:
    """Natural scales and powers of two (ties); zero points at the ends, in the middle and anywhere."""
    lowest, highest = INTEGER_RANGE[dtype]
    zeros = [lowest, highest, (lowest + highest + 1) // 2]
    for index in range(count):
        natural = float(np.exp(rng.uniform(np.log(0.002), np.log(0.3))))
        scale = 2.0 ** int(rng.integers(-9, 0)) if index % 2 else natural
        yield scale, zeros[index % 4] if index % 4 < 3 else int(rng.integers(lowest, highest + 1))


def expect_close(found: Array, wanted: Array, bound: int, what: str) -> None:
    """Fail where floats are more than ``bound`` units in the last place apart; NaNs equal each other."""
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype), what
    distance = ulp_distance(found, wanted)
    assert distance.max(initial=0) <= bound, f"{what}: {distance.max()} units in the last place apart"


def ulp_distance(found: Array, wanted: Array) -> Array:
    """How many float32 numbers lie between two arrays' elements; 0 for two NaNs."""

    if found.dtype == np.complex64:
        found, wanted = (
            np.ascontiguousarray(array).reshape(-1).view(np.float32) for array in (found, wanted)
        )

    def ordered(array: Array) -> Array:
        bits = np.ascontiguousarray(array).view(np.int32).astype(np.int64)
        return np.where(bits < 0, -(bits & 0x7FFFFFFF), bits)

    both = np.isnan(found.astype(np.float64)) & np.isnan(wanted.astype(np.float64))
    return np.where(both, 0, np.abs(ordered(found) - ordered(wanted)))
