"""What takes the place of fixed-point arithmetic on two codes: where it is found; no byte changes."""

from __future__ import annotations

import numpy as np
import pytest

from qimport import prim, qnn
from qimport.ir.graph import Builder, Graph, Value, verify_graph
from qimport.ir.interpret import interpret
from qimport.ir.rewrite import remove_dead_nodes
from qimport.ir.types import TensorType
from qimport.lower.fuse import fuse
from qimport.lower.pairs import combine_pairs, equal_sum
from qimport.lower.pipeline import lower
from qimport.lower.products import Bilinear, equal_scaling
from qimport.lower.rule import Emitter
from qimport.numerics import X86_NUMERICS, Numerics
from qimport.qnn.unary import code_range
from tests.single_op import expect_same, quantized, random_codes


def names(graph: Graph) -> list[str]:
    return [node.op.NAME.removeprefix("prim.") for node in graph.nodes]


def sum_of(op: qnn.Add | qnn.Sub, dtype: str, scales: tuple[float, float, float], zero: int) -> Graph:
    """One operator on all pairs of codes."""
    build, types = Builder(), [quantized(dtype, (256, 256), scale, zero) for scale in scales]
    a, b = Value(types[0], "a"), Value(types[1], "b")
    result = build.emit(op, (a, b), types[2])
    return Graph("sum", (a, b), (result,), tuple(build.nodes))


@pytest.mark.parametrize("mode", X86_NUMERICS)
@pytest.mark.parametrize(("dtype", "zero"), [("int8", -7), ("uint8", 130), ("int8", 0)])
@pytest.mark.parametrize(
    "scales", [(0.0523891, 0.0312477, 0.0718303), (0.5, 0.5, 1.0), (0.002, 0.3, 0.21), (0.1, 0.1, 0.1)]
)
def test_sums_of_codes(mode: Numerics, dtype: str, zero: int, scales: tuple[float, float, float]) -> None:
    """Equal scales give ties, which reference kernels round away from zero."""
    codes = code_range(dtype).astype(dtype)
    arrays = [np.repeat(codes[:, np.newaxis], 256, 1), np.repeat(codes[np.newaxis, :], 256, 0)]
    for op in (qnn.Add(), qnn.Sub(), qnn.Add("RELU6")):
        graph = sum_of(op, dtype, scales, zero)
        lowered = lower(graph, mode)
        assert names(lowered) == ["pair_sum"], op
        expect_same(interpret(lowered, arrays)[0], interpret(graph, arrays, mode)[0], f"{op} in {mode}")


def test_sums_that_no_factors_give_stay() -> None:
    """All results lie near multiples of 1/70, many of them on ties, which the roundings before scatter."""
    graph = sum_of(qnn.Add(), "int8", (0.05, 0.031, 0.07), -7)
    assert "pair_sum" not in names(lower(graph, "reference"))
    assert names(lower(graph, "xnnpack")) == ["pair_sum"]


def test_elements_that_are_rounded_differently_stay_apart() -> None:
    """The last elements of a run, in builtin mode."""
    build, types = Builder(), [quantized("uint8", (3, 9), scale, 100) for scale in (0.05, 0.031, 0.07)]
    a, b = Value(types[0], "a"), Value(types[1], "b")
    result = build.emit(qnn.Add(), (a, b), types[2])
    graph, rng = Graph("sum", (a, b), (result,), tuple(build.nodes)), np.random.default_rng(1)
    arrays = [random_codes(rng, type_) for type_ in types[:2]]
    expect_same(
        interpret(lower(graph, "builtin"), arrays)[0], interpret(graph, arrays, "builtin")[0], "two roundings"
    )


class Codes(Emitter):
    """A graph of two int8 inputs in the making."""

    def __init__(self, shape: tuple[int, ...], other: tuple[int, ...]) -> None:
        super().__init__()
        self.a, self.b = (Value(TensorType("int8", s), name) for s, name in ((shape, "a"), (other, "b")))

    def total(self, factor: Value | float = 0.7) -> Value:
        """a * factor + b as int32."""
        scaled = self.binary("mul", self.cast(self.a, "int32"), 3)
        if isinstance(factor, Value):
            scaled = self.binary("mul", scaled, factor)
        else:
            scaled = self.rescale(scaled, factor)
        return self.binary("add", scaled, self.cast(self.b, "int32"))

    def summed(self, *results: Value) -> list[str]:
        """Operations after the pass, which may change no byte."""
        graph = Graph("test", (self.a, self.b), results, tuple(self.nodes))
        verify_graph(graph)
        result = remove_dead_nodes(combine_pairs(graph, "reference"))
        verify_graph(result)
        arrays = [random_codes(np.random.default_rng(2), value.type) for value in graph.inputs]
        for found, wanted in zip(interpret(result, arrays), interpret(graph, arrays), strict=True):
            expect_same(found, wanted, "summed")
        return names(result)


def test_one_operand_may_be_repeated() -> None:
    for other in ((1, 1, 1, 6), (6,), (), (1, 4, 1, 1)):
        e = Codes((1, 4, 5, 6), other)
        assert e.summed(e.clamp(e.total(), 3, -128, 127, "int8")) == ["pair_sum"]


def test_a_wide_result_and_one_with_another_reader_stay() -> None:
    e = Codes((40,), (40,))
    total = e.total()
    arithmetic = ["cast", "binary", "rescale", "cast", "binary"]
    assert e.summed(total) == arithmetic
    assert e.summed(e.clamp(total, 0, -128, 127, "int8"), total) == [*arithmetic, "pair_sum"]


def test_factors_per_channel_and_channels_that_round_differently_stay() -> None:
    e = Codes((5, 3), (5, 3))
    per_channel = e.constant(np.array([1, 2, 3], np.int32))
    assert "pair_sum" not in e.summed(e.clamp(e.total(per_channel), 0, -128, 127, "int8"))
    e = Codes((5, 3), (5, 3))
    one, half = e.constant(np.array([2**30], np.int32)), e.constant(np.array([-1], np.int32))
    rounded = e.emit(
        prim.Rescale("double_away", "double_up", 2), (e.total(), one, half), TensorType("int32", (5, 3))
    )
    assert "pair_sum" not in e.summed(e.clamp(rounded, 0, -128, 127, "int8"))


def test_products_of_one_shape_and_choices_stay() -> None:
    e = Codes((40,), (40,))
    product = e.binary("mul", e.cast(e.a, "int32"), e.cast(e.b, "int32"))
    larger = e.binary("max", e.total(), 5)
    for value in (e.rescale(product, 0.02), larger):
        assert "pair_sum" not in e.summed(e.clamp(value, 0, -128, 127, "int8"))


def test_one_pair_that_differs_refutes_a_sum() -> None:
    operands = [code_range("int8")] * 2
    total = operands[0][:, np.newaxis] * 0.6180339 + operands[1][np.newaxis, :] * 0.7320508 + 0.5
    codes = np.clip(np.floor(total).astype(np.int64), -128, 127)
    found = equal_sum(codes, operands, (0.6180339, 0.7320508))
    assert found is not None
    sums = operands[0][:, np.newaxis] * found.a + operands[1][np.newaxis, :] * found.b + found.offset
    assert np.array_equal(np.clip(sums >> found.shift, -128, 127), codes)
    codes[100, 140] += 1
    assert equal_sum(codes, operands, (0.6180339, 0.7320508)) is None
    assert equal_sum(codes, operands, (0.0, 0.0)) is None
    assert equal_sum(codes, operands, (1e6, 1.0)) is None


@pytest.mark.parametrize("mode", X86_NUMERICS)
def test_a_convolution_ends_with_the_sum(mode: Numerics) -> None:
    rng, build = np.random.default_rng(3), Builder()
    image = Value(quantized("int8", (1, 4, 4, 5), 0.05, 3), "image")
    weights = Value(
        quantized("int8", (5, 1, 1, 5), 0.02, 0), "w", rng.integers(-127, 128, (5, 1, 1, 5)).astype(np.int8)
    )
    bias = Value(quantized("int32", (5,), 0.001, 0), "b", rng.integers(-999, 999, 5).astype(np.int32))
    x = build.emit(
        qnn.Conv2d(), (image, weights, bias), quantized("int8", image.type.shape, 0.0617234, -4), "conv"
    )
    y = build.emit(qnn.Add(), (x, image), quantized("int8", image.type.shape, 0.0812345, 9), "sum")
    graph = Graph("residual", (image,), (y,), tuple(build.nodes))
    lowered, fed = lower(graph, mode), random_codes(rng, image.type)
    expect_same(interpret(lowered, [fed])[0], interpret(graph, [fed], mode)[0], mode)
    (group,) = fuse(lowered)
    assert [node.op.NAME for node in group.nodes] == [
        "prim.mac",
        "prim.rescale",
        "prim.clamp",
        "prim.pair_sum",
    ]


def gated(op: qnn.Mul, dtype: str, zero: int, gate_zero: int, scales: tuple[float, float, float]) -> Graph:
    """A product with one code per column, for all pairs of codes."""
    build = Builder()
    a = Value(quantized(dtype, (256, 256), scales[0], zero), "a")
    gate = Value(quantized(dtype, (1, 256), scales[1], gate_zero), "gate")
    result = build.emit(op, (gate, a), quantized(dtype, (256, 256), scales[2], zero + 3))
    return Graph("gated", (a, gate), (result,), tuple(build.nodes))


@pytest.mark.parametrize("mode", X86_NUMERICS)
@pytest.mark.parametrize(
    ("dtype", "zero", "gate_zero"), [("int8", -57, -128), ("uint8", 100, 0), ("int8", 5, 9)]
)
def test_products_with_a_repeated_gate(mode: Numerics, dtype: str, zero: int, gate_zero: int) -> None:
    codes = code_range(dtype).astype(dtype)
    arrays = [np.repeat(codes[:, np.newaxis], 256, 1), codes[np.newaxis, :]]
    for op in (qnn.Mul(), qnn.Mul("RELU")):
        graph = gated(op, dtype, zero, gate_zero, (0.0523891, 1 / 256, 0.0501234))
        lowered = lower(graph, mode)
        if gate_zero != 9 or mode == "xnnpack":  # rounding away from zero needs a gate of one sign
            assert names(lowered) == ["lut", "lut", "scale_codes"]
            assert [len(group.nodes) for group in fuse(lowered)] == [1, 1, 1], "the gate is looked up once"
        expect_same(interpret(lowered, arrays)[0], interpret(graph, arrays, mode)[0], f"{op} in {mode}")


def test_one_pair_that_differs_refutes_a_scaling() -> None:
    x = code_range("int8")
    real = Bilinear(3.0, 0.0, 0.0, 0.0078123)
    codes = np.clip(np.floor(x[:, np.newaxis] * x * real.ab + 3.5).astype(np.int64), -128, 127)
    assert equal_scaling(codes, (x, x), real) is not None
    codes[100, 140] += 1
    assert equal_scaling(codes, (x, x), real) is None
    assert equal_scaling(codes, (x, x), Bilinear(3.0, 0.0, 0.0, 1e6)) is None
    assert equal_scaling(codes, (x, x), Bilinear(3.0, 1.0, 0.0, 1e-3)) is None
