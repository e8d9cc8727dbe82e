"""Primitives with nonsense attributes or operands: a VerifyError, or a graph that evaluates; nothing else."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
import pytest

from qimport import prim
from qimport.errors import VerifyError
from qimport.ir.graph import OPERATIONS, Array, Call, Operation
from qimport.ir.types import TensorType


def types(*texts: str) -> tuple[TensorType, ...]:
    """``int8:2,3`` and so on."""
    pairs = [text.partition(":") for text in texts]
    return tuple(TensorType(d, tuple(int(n) for n in shape.split(",") if n)) for d, _, shape in pairs)


SOUND: list[tuple[Operation, tuple[TensorType, ...]]] = [
    (
        prim.Mac((2, 1), (1, 2), ((1, 0), (0, 1)), 2, 3),
        types("int8:1,6,8,4", "int8:6,3,2,2", "int32:6", "int32:1,3,7,6"),
    ),
    (
        prim.Window("max", (3, 2), (2, 1), ((1, 1), (0, 0))),
        types("int8:1,7,5,3", "int8:1,4,4,3"),
    ),
    (prim.Reduce("sum", (1,)), types("int8:2,3", "int32:2,1")),
    (prim.Reduce("max_last", (0,), "finite"), types("float32:2,3", "float32:1,3")),
    (prim.RowSum("lanes"), types("float32:2,35", "float32:2,1")),
    (prim.RescaledProduct((1,), 3, 1 << 30, -2), types("int8:2,3", "int32:2,1")),
    (prim.Sample(), types("int16:1,25,26,3", "int32:4", "int32:5", "int16:1,4,5,3")),
    (
        prim.Interpolate("eleventh_bits"),
        types("int8:1,25,26,3", *("int32:4",) * 3, *("int32:5",) * 3, "int8:1,4,5,3"),
    ),
    (prim.ArgReduce("max"), types("int8:2,3,4", "int64:2,4")),
    (prim.TopK(True), types("float32:2,5", "int32:2,3")),
    (prim.Cumulate(True, False), types("float32:2,3,4", "float32:2,3,4")),
    (
        prim.Detect(2, 3, 1, 2, False, 0.5, 0.5),
        types("float32:5,4", "float32:5,3", "float32:31"),
    ),
    (
        prim.FloatMac((2, 1), (1, 2), 2),
        types("float32:1,6,8,4", "float32:3,2,2,6", "float32:6", "float32:1,2,6,6"),
    ),
    (prim.Fma(), types(*("float32:2,3",) * 4)),
    (prim.PairSum(20, -128, 100), types("int8:2,3", "uint8:2,1", "int64:3", "int8:2,3")),
    (
        prim.ScaleCodes(-3, 20, 5, -128, 100),
        types("int8:2,3", "int32:2,1", "int32:2,1", "int32:1", "int8:2,3"),
    ),
    (prim.Fft(4), types("float64:3,8,2", "float64:4,2", "float64:3,8,2")),
    (prim.Activation16("tanh", 3), types("int16:2,3", "int16:2,3")),
    (
        prim.LayerNorm16(1 << 30, -3, 5),
        types("int16:2,3", "int16:3", "int32:3", "int16:2,3"),
    ),
    (prim.Gather(1), types("int8:2,3,4", "int32:5", "int8:2,5,4")),
    (prim.GatherNd(), types("int8:2,3,4", "int32:5,2", "int8:5,4")),
    (prim.ScatterNd("set"), types("int8:2,3", "int32:4,1", "int8:4,3", "int8:2,3")),
    (prim.DynamicSlice(), types("int8:2,3", "int32:2", "int8:1,2")),
    (prim.UpdateSlice(), types("int8:2,3", "int8:1,2", "int32:2", "int8:2,3")),
    (prim.Pad((0, 1), (2, 0), 7), types("int8:2,3", "int8:4,4")),
    (prim.Slice((0, 2), (1, -1)), types("int8:2,3", "int8:1,3")),
    (prim.Concat(1), types("int8:2,3", "int8:2,4", "int8:2,7")),
    (prim.Transpose((1, 0)), types("int8:2,3", "int8:3,2")),
    (prim.Reshape(), types("int8:2,3", "int8:6")),
    (prim.Bitcast(), types("float32:2,3,2", "complex64:2,3")),
    (prim.Broadcast(), types("int8:2,1", "int8:2,3")),
    (prim.Compare("less"), types("int32:2,3", "int32:3", "bool:2,3")),
    (prim.Select(), types("bool:3", "int8:2,3", "int8:2,3", "int8:2,3")),
    (prim.Clamp(3, -100, 100), types("int32:2,3", "int8:2,3")),
    (prim.Binary("add"), types("int32:2,3", "int32:3", "int32:2,3")),
    (prim.Cast(), types("int8:2,3", "int32:2,3")),
    (prim.Rescale("double_away", "double_up", 2), types("int32:2,3", "int32:3", "int32:3", "int32:2,3")),
    (prim.Rescale("float32_even"), types("int32:2,3", "float32:1", "int32:2,3")),
    (prim.Lut(), types("int8:2,3", "uint8:256", "uint8:2,3")),
    (prim.Lut16(), types("int16:2,3", "int16:513", "int16:2,3")),
    (prim.LeadingZeros(), types("int32:2,3", "int32:2,3")),
    (prim.Math("exp"), types("float32:2,3", "float32:2,3")),
    (prim.DivRound(), types("int32:2,3", "int32:1,3", "int32:2,3")),
    (prim.ToInt("away"), types("float32:2,3", "int32:2,3")),
    (prim.Softmax("float"), types("uint8:2,3", "float32:256", "uint8:2,3")),
]
"""Operations with operand types and, last, the result type."""

WITH_BODIES = {"prim.if", "prim.while"}
"""Operations on graphs; tests/test_qnn_control_flow.py has theirs."""


def nonsense(value: object) -> Iterator[object]:
    """Values of the attribute's own kind that are rarely right: other numbers, names, lengths of tuples."""
    if isinstance(value, tuple):
        yield from (value[:-1], (*value, value[0]), ())
        for position, part in enumerate(value):
            yield from ((*value[:position], wrong, *value[position + 1 :]) for wrong in nonsense(part))
    elif isinstance(value, str):
        yield "nonsense"
    elif isinstance(value, int):
        yield from (0, 1, -1, 2, 5, 1000, -1000)


def misshapen(type_: TensorType) -> Iterator[TensorType]:
    """Other element types, ranks and extents."""
    shapes = [(), (0,), (1,), type_.shape[1:], (*type_.shape, 2), tuple(n + 1 for n in type_.shape)]
    yield from (TensorType(type_.dtype, shape) for shape in shapes)
    yield from (TensorType(dtype, type_.shape) for dtype in ("uint8", "int16", "int32", "float32", "bool"))


def mutants(op: Operation, signature: tuple[TensorType, ...]) -> Iterator[tuple[Operation, list[TensorType]]]:
    """One attribute or one type changed, or an operand missing."""
    for field in dataclasses.fields(op):  # type: ignore[arg-type]
        for value in nonsense(getattr(op, field.name)):
            yield dataclasses.replace(op, **{field.name: value}), list(signature)  # type: ignore[type-var]
    for position, type_ in enumerate(signature):
        for other in misshapen(type_):
            yield op, [*signature[:position], other, *signature[position + 1 :]]
    for count in range(len(signature) - 1):
        yield op, [*signature[:count], signature[-1]]


def operands(call: Call) -> tuple[Array, ...]:
    """Small positive elements of each type."""
    rng = np.random.default_rng(0)
    return tuple(rng.integers(1, 20, t.shape).astype(t.numpy) for t in call.inputs if t is not None)


@pytest.mark.parametrize(("op", "signature"), SOUND, ids=lambda value: getattr(value, "NAME", ""))
def test_nonsense_is_refused_in_words(op: Operation, signature: tuple[TensorType, ...]) -> None:
    op.verify(Call(signature[:-1], signature[-1:]))
    refused = 0
    for mutant, (*inputs, output) in mutants(op, signature):
        call = Call(tuple(inputs), (output,))
        try:
            mutant.verify(call)
        except VerifyError:
            refused += 1
            continue
        (found,) = mutant.evaluate(dataclasses.replace(call, arrays=operands(call)))
        assert (found.dtype, found.shape) == (output.numpy, output.shape), (mutant, inputs)
    assert refused > 5


def test_every_primitive_is_there() -> None:
    names = {name for name in OPERATIONS if name.startswith("prim.")}
    assert {op.NAME for op, _ in SOUND} | WITH_BODIES == names
