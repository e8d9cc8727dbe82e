"""Tables in place of elementwise arithmetic: which values become one, and that no byte changes."""

from __future__ import annotations

import numpy as np
import pytest

from qimport import prim, qnn
from qimport.ir.graph import Array, Builder, Graph, Value, verify_graph
from qimport.ir.interpret import interpret
from qimport.ir.rewrite import remove_dead_nodes
from qimport.ir.types import TensorType
from qimport.lower.fuse import fuse
from qimport.lower.pipeline import lower
from qimport.lower.rule import Emitter
from qimport.lower.tabulate import tabulate
from qimport.numerics import X86_NUMERICS, Numerics
from tests.single_op import expect_same, quantized

EVERY_CODE = np.arange(-128, 128).astype(np.int8)


class Codes(Emitter):
    """A graph of one int8 input in the making."""

    def __init__(self, shape: tuple[int, ...] = (256,)) -> None:
        super().__init__()
        self.x = Value(TensorType("int8", shape), "x")

    def scaled(self, x: Value, factor: float, zero_point: int = 0) -> Value:
        """Codes of codes or int32 numbers times a factor."""
        wide = x if x.type.dtype == "int32" else self.cast(x, "int32")
        return self.clamp(self.rescale(wide, factor), zero_point, -128, 127, "int8")

    def graph(self, *results: Value) -> Graph:
        """What leads to ``results``."""
        graph = Graph("test", (self.x,), results, tuple(self.nodes))
        verify_graph(graph)
        return graph


def tabulated(graph: Graph) -> list[str]:
    """Operations after the pass, which may change no byte for any code."""
    result = remove_dead_nodes(tabulate(graph, "reference"))
    verify_graph(result)
    x = np.resize(EVERY_CODE, graph.inputs[0].type.shape)
    for found, wanted in zip(interpret(result, [x]), interpret(graph, [x]), strict=True):
        expect_same(found, wanted, "tabulated")
    return [node.op.NAME.removeprefix("prim.") for node in result.nodes]


def test_integer_and_float_arithmetic_become_one_table() -> None:
    e = Codes()
    real = e.binary("mul", e.math("tanh", e.binary("mul", e.cast(e.x, "float32"), 0.03)), 127.0)
    sigmoid = e.clamp(e.emit(prim.ToInt("even"), (real,), TensorType("int32", (256,))), 3, -128, 127, "int8")
    product = e.binary("mul", e.cast(e.x, "int32"), e.cast(sigmoid, "int32"))
    assert tabulated(e.graph(e.scaled(product, 0.01))) == ["lut"]


def test_a_chosen_value_and_a_reshape_do_not_hide_the_source() -> None:
    e = Codes()
    wide = e.cast(e.reshape(e.x, (4, 64)), "int32")
    leaky = e.select(e.compare("less", wide, 0), e.rescale(wide, 0.1), wide)
    assert tabulated(e.graph(e.clamp(leaky, 7, -128, 100, "int8"))) == ["lut", "reshape"]


def test_what_gives_every_code_back_disappears() -> None:
    e = Codes()
    doubled = e.binary("shift_left", e.cast(e.x, "int32"), 1)
    assert tabulated(e.graph(e.scaled(doubled, 0.5))) == []


def test_a_factor_per_channel_stays_arithmetic_unless_all_are_equal() -> None:
    for factors, left in (((3, 4), ["cast", "binary", "clamp"]), ((3, 3), ["lut"])):
        e = Codes((128, 2))
        product = e.binary("mul", e.cast(e.x, "int32"), e.constant(np.array(factors, np.int32)))
        assert tabulated(e.graph(e.clamp(product, 0, -128, 127, "int8"))) == left


def test_channels_that_round_differently_stay_arithmetic() -> None:
    e, one = Codes((64, 4)), np.array([2**30], np.int32)
    for leftover, left in (("double_up", ["cast", "rescale", "clamp"]), ("double_away", ["lut"])):
        factors = e.constant(one), e.constant(np.array([-1], np.int32))
        wide = e.cast(e.x, "int32")
        op = prim.Rescale("double_away", leftover, 3)
        rounded = e.emit(op, (wide, *factors), wide.type)
        assert tabulated(e.graph(e.clamp(rounded, 0, -128, 127, "int8"))) == left


def test_two_sources_and_repeated_elements_stay_arithmetic() -> None:
    e = Codes((4, 1))
    row = e.cast(e.reshape(e.x, (1, 4)), "int32")
    total = e.binary("add", e.cast(e.x, "int32"), row)
    assert tabulated(e.graph(e.clamp(total, 0, -128, 127, "int8"))).count("lut") == 0


@pytest.mark.parametrize("also", ["first", "hidden"])
def test_a_byte_that_is_stored_anyway_is_read_rather_than_what_it_came_from(also: str) -> None:
    e = Codes()
    hidden = e.scaled(e.emit(prim.Reduce("sum", (0,)), (e.x,), TensorType("int32", (1,))), 0.01)
    first = e.scaled(hidden, 0.7)
    second = e.scaled(e.cast(first, "int32"), 0.9, 5)
    twice = e.concat((first, hidden if also == "hidden" else first), 0)
    result = remove_dead_nodes(tabulate(e.graph(second, twice), "reference"))
    tables = [node for node in result.nodes if isinstance(node.op, prim.Lut)]
    (reader,) = (node for node in tables if node.outputs[0] is result.outputs[0])
    assert (reader.inputs[0] is hidden) == (also == "hidden")


def test_wide_results_are_looked_up_only_for_expensive_arithmetic() -> None:
    e = Codes()
    real = e.cast(e.x, "float32")
    assert tabulated(e.graph(e.binary("mul", real, 0.5))) == ["cast", "binary"]
    assert tabulated(e.graph(e.math("exp", real))) == ["lut"]
    assert tabulated(e.graph(e.cast(e.scaled(e.x, 0.3), "int32"))) == ["lut", "cast"]


def test_one_step_on_bytes_stays() -> None:
    e = Codes()
    assert tabulated(e.graph(e.binary("max", e.x, 3))) == ["binary"]


def swish(shape: tuple[int, ...]) -> tuple[Graph, Array]:
    """conv -> x * sigmoid(x)."""
    rng, build = np.random.default_rng(3), Builder()
    image = Value(quantized("int8", shape, 0.05, 3), "image")
    weights = Value(
        quantized("int8", (5, 1, 1, shape[3]), 0.02, 0),
        "w",
        rng.integers(-127, 128, (5, 1, 1, shape[3])).astype(np.int8),
    )
    bias = Value(quantized("int32", (5,), 0.001, 0), "b", rng.integers(-999, 999, 5).astype(np.int32))
    result = (*shape[:3], 5)
    x = build.emit(qnn.Conv2d(), (image, weights, bias), quantized("int8", result, 0.06, -4), "conv")
    gate = build.emit(qnn.Logistic(), (x,), quantized("int8", result, 1 / 256, -128), "gate")
    y = build.emit(qnn.Mul(), (x, gate), quantized("int8", result, 0.05, -100), "swish")
    graph = Graph("swish", (image,), (y,), tuple(build.nodes))
    verify_graph(graph)
    return graph, rng.integers(-128, 128, shape).astype(np.int8)


@pytest.mark.parametrize("mode", X86_NUMERICS)
def test_a_convolution_ends_with_the_table_of_its_activation(mode: Numerics) -> None:
    graph, image = swish((1, 4, 4, 3))
    lowered = lower(graph, mode)
    expect_same(interpret(lowered, [image])[0], interpret(graph, [image], mode)[0], mode)
    (group,) = fuse(lowered)
    assert [node.op.NAME for node in group.nodes] == ["prim.mac", "prim.rescale", "prim.clamp", "prim.lut"]


def test_a_table_of_a_gate_is_looked_up_once_and_not_for_every_pixel() -> None:
    e = Codes((8, 1, 32))
    gate = e.emit(prim.Reduce("max", (0,)), (e.x,), TensorType("int8", (1, 1, 32)))
    product = e.binary("mul", e.cast(e.x, "int32"), e.cast(e.lut(gate, EVERY_CODE[::-1].copy()), "int32"))
    groups = fuse(e.graph(e.scaled(product, 0.01)))
    assert [len(group.nodes) for group in groups] == [2, 5]
