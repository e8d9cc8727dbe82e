"""The lowering pipeline: what each pass removes or makes, and that no byte changes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pytest

from qimport import prim, qnn
from qimport.errors import CompilerBug, UnsupportedError
from qimport.ir.graph import Array, Builder, Call, Graph, Value, verify_graph
from qimport.ir.interpret import interpret
from qimport.ir.rewrite import Site, merge_duplicates, remove_dead_nodes, rewrite
from qimport.ir.types import TensorType
from qimport.lower.fold import fold_constants
from qimport.lower.padding import explicit_padding
from qimport.lower.pipeline import lower, run_passes
from qimport.lower.qdq import remove_conversions
from qimport.lower.rule import Emitter
from qimport.lower.simplify import simplify
from qimport.numerics import X86_NUMERICS, Numerics
from qimport.qnn.base import QnnOperation
from tests.random_graphs import RandomGraph
from tests.single_op import expect_same, quantized, random_codes

REFERENCE: Numerics = "reference"


def names(graph: Graph) -> list[str]:
    return [node.op.NAME.split(".")[1] for node in graph.nodes]


def finish(build: Builder, inputs: list[Value], *outputs: Value) -> Graph:
    graph = Graph("test", tuple(inputs), outputs, tuple(build.nodes))
    verify_graph(graph)
    return graph


def codes(shape: tuple[int, ...], seed: int = 0, dtype: str = "int8") -> Array:
    return random_codes(np.random.default_rng(seed), TensorType(dtype, shape))


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("seed", range(25))
def test_lowering_and_passes_change_no_byte(seed: int, dtype: str) -> None:
    graph = RandomGraph(seed, dtype).grow(8)
    x = codes(graph.inputs[0].type.shape, seed, dtype)
    for mode in X86_NUMERICS:
        lowered = lower(graph, mode)
        pairs = zip(interpret(lowered, [x]), interpret(graph, [x], mode), strict=True)
        for found, wanted in pairs:
            expect_same(found, wanted, f"seed {seed} in {mode}")


def test_names_and_origins_survive() -> None:
    build = Builder(origin="operator 3 (RELU)")
    x = Value(quantized("int8", (4,), 0.1, 0), "image")
    y = build.emit(qnn.Relu(), (x,), quantized("int8", (4,), 0.2, 0), "activated")
    lowered = lower(finish(build, [x], y), REFERENCE)
    (node,) = lowered.nodes
    assert (node.origin, node.outputs[0].name) == ("operator 3 (RELU)", "activated")
    assert lowered.inputs[0].name == "image"
    assert lowered.inputs[0].type.quantization is None


def test_the_old_graph_stays_as_it_was() -> None:
    graph = RandomGraph(3, "int8").grow(8)
    nodes, before = graph.nodes, [(node.inputs, node.outputs, node.op) for node in graph.nodes]
    lower(graph, "builtin")
    assert graph.nodes is nodes
    assert [(node.inputs, node.outputs, node.op) for node in graph.nodes] == before


@dataclass(frozen=True)
class Unlowered(QnnOperation):
    NAME = "qnn.test_unlowered"

    def verify(self, call: Call) -> None: ...


def test_an_operation_without_rule_is_our_bug() -> None:
    build, x = Builder(), Value(TensorType("int8", (4,)), "x")
    y = build.emit(Unlowered(), (x,), x.type)
    with pytest.raises(CompilerBug, match=r"no lowering rule for qnn\.test_unlowered"):
        lower(finish(build, [x], y), REFERENCE)


def test_a_pass_that_breaks_the_graph_is_named() -> None:
    build, x = Builder(), Value(TensorType("int8", (4,)), "x")
    y = build.emit(prim.Reshape(), (x,), TensorType("int8", (2, 2)))

    def forget_nodes(graph: Graph, _: Numerics) -> Graph:
        return Graph(graph.name, graph.inputs, graph.outputs, ())

    with pytest.raises(CompilerBug, match="pass forget_nodes broke the graph: graph result"):
        run_passes(finish(build, [x], y), (forget_nodes,), REFERENCE)


def test_rewrite_replaces_and_shares() -> None:
    build, x = Builder(), Value(TensorType("int8", (4,)), "x")
    kept = build.emit(prim.Reshape(), (x,), TensorType("int8", (2, 2)), "kept")
    gone = build.emit(prim.Reshape(), (kept,), TensorType("int8", (4,)), "gone")
    graph = finish(build, [x], gone)

    def rule(_: Builder, site: Site) -> tuple[Value] | None:
        return (x,) if site.node.outputs[0].type == x.type else None

    result = rewrite(graph, Builder(), rule)
    assert result.outputs == (x,)
    assert result.nodes == (graph.nodes[0],)
    assert remove_dead_nodes(result).nodes == ()


def test_duplicates_merge_but_zeros_of_two_signs_do_not() -> None:
    build, x = Builder(), Value(TensorType("float32", (2,)), "x")
    padded = TensorType("float32", (3,))
    results = [build.emit(prim.Pad((0,), (1,), value), (x,), padded) for value in (0.0, -0.0, 0.0)]
    merged = merge_duplicates(finish(build, [x], *results))
    assert [merged.outputs.index(value) for value in merged.outputs] == [0, 1, 0]


def test_equal_constants_merge() -> None:
    emit, x = Emitter(), Value(TensorType("int8", (4,)), "x")
    tables = [np.arange(256).astype(np.int16) for _ in range(2)]
    results = [emit.lut(x, table) for table in tables]
    assert names(merge_duplicates(finish(emit, [x], *results))) == ["lut"]


def test_shape_arithmetic_folds() -> None:
    build, x = Builder(), Value(quantized("int8", (2, 3, 4), 0.1, 0), "x")
    shape = build.emit(qnn.Shape(), (x,), TensorType("int32", (3,)))
    batch = build.emit(qnn.StridedSlice((0,), (1,), (1,)), (shape,), TensorType("int32", ()))
    rest = build.constant(np.array(12, np.int32))
    target = build.emit(qnn.Pack(0), (batch, rest), TensorType("int32", (2,)))
    seven = build.constant(np.array([7], np.int32))
    more = build.emit(qnn.Concat(0), (target, seven), TensorType("int32", (3,)))
    folded = fold_constants(finish(build, [x], more), REFERENCE)
    assert folded.nodes == ()
    assert folded.outputs[0].data is not None
    assert folded.outputs[0].data.tolist() == [2, 12, 7]


def test_constants_fold_in_the_arithmetic_of_the_mode() -> None:
    type_ = quantized("int8", (9,), 0.3, 7)
    data = np.arange(-60, 75, 15).astype(np.int8)
    for mode in X86_NUMERICS:
        build = Builder()
        weights = Value(type_, "weights", data)
        real = build.emit(qnn.Dequantize(), (weights,), TensorType("float32", (9,)))
        graph = finish(build, [], real)
        lowered = lower(graph, mode)
        assert lowered.nodes == ()
        expect_same(interpret(lowered, [])[0], interpret(graph, [], mode)[0], mode)


def test_few_constant_bytes_do_not_become_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qimport.lower.fold.FREE_BYTES", 100)
    for size, operations in ((8, []), (32, ["binary", "rescale", "clamp"])):
        build = Builder()
        column, row = (
            Value(quantized("int8", shape, 0.3, 7), "constant", np.arange(size, dtype=np.int8).reshape(shape))
            for shape in ((size, 1), (1, size))
        )
        total = build.emit(qnn.Add(), (column, row), quantized("int8", (size, size), 0.4, -3))
        graph = finish(build, [], total)
        lowered = lower(graph, REFERENCE)
        assert names(lowered) == operations
        expect_same(interpret(lowered, [])[0], interpret(graph, [], REFERENCE)[0], f"{size} x {size}")


def round_trip(
    size: int, scale: float, zero: int, dtype: str = "int8", scale_out: float | None = None
) -> Graph:
    """Codes -> float32 -> codes."""
    build, x = Builder(), Value(quantized(dtype, (size,), scale, zero), "x")
    real = build.emit(qnn.Dequantize(), (x,), TensorType("float32", (size,)))
    y = build.emit(qnn.Quantize(), (real,), quantized(dtype, (size,), scale_out or scale, zero))
    return finish(build, [x], y)


@pytest.mark.parametrize("mode", X86_NUMERICS)
@pytest.mark.parametrize(("dtype", "zero"), [("int8", -128), ("uint8", 131), ("int16", 0)])
def test_a_round_trip_that_gives_every_code_back_disappears(mode: Numerics, dtype: str, zero: int) -> None:
    graph = round_trip(20, 0.25, zero, dtype)
    assert remove_dead_nodes(remove_conversions(graph, mode)).nodes == ()
    assert lower(graph, mode).nodes == ()


@pytest.mark.parametrize("mode", X86_NUMERICS)
def test_a_round_trip_to_another_scale_becomes_one_table(mode: Numerics) -> None:
    graph = round_trip(16, 0.25, 3, scale_out=0.3)
    assert remove_conversions(graph, mode).nodes == graph.nodes
    assert names(lower(graph, mode)) == ["lut"]


def test_a_round_trip_that_overflows_stays() -> None:
    """The scale times the largest code is no finite float32: what looks like an identity is none."""
    graph, x = round_trip(19, 3e36, 0), codes((19,))
    for mode in X86_NUMERICS:
        assert remove_conversions(graph, mode).nodes == graph.nodes
        expect_same(interpret(lower(graph, mode), [x])[0], interpret(graph, [x], mode)[0], mode)


def test_quantize_then_dequantize_stays() -> None:
    build, x = Builder(), Value(TensorType("float32", (16,)), "x")
    rounded = build.emit(qnn.Quantize(), (x,), quantized("int8", (16,), 0.1, 0))
    y = build.emit(qnn.Dequantize(), (rounded,), x.type)
    graph = finish(build, [x], y)
    assert remove_conversions(graph, REFERENCE).nodes == graph.nodes


def test_requantize_to_the_same_type_disappears() -> None:
    build, x = Builder(), Value(quantized("int8", (5,), 0.1, 3), "x")
    y = build.emit(qnn.Requantize(), (x,), x.type)
    for mode in X86_NUMERICS:
        assert lower(finish(build, [x], y), mode).nodes == ()


def test_requantize_of_int32_to_a_narrower_type_stays() -> None:
    build, x = Builder(), Value(quantized("int32", (5,), 0.1, 0), "x")
    y = build.emit(qnn.Requantize(), (x,), quantized("int8", (5,), 0.1, 0))
    assert "rescale" in names(lower(finish(build, [x], y), REFERENCE))


def test_tables_of_tables_are_one_table() -> None:
    build, x = Builder(), Value(quantized("int8", (5,), 0.1, 3), "x")
    y = build.emit(qnn.Tanh(), (x,), quantized("int8", (5,), 1 / 128, 0))
    z = build.emit(qnn.Reshape(), (y,), quantized("int8", (5, 1), 1 / 128, 0))
    relu = build.emit(qnn.Relu(), (z,), quantized("int8", (5, 1), 0.01, -5))
    lowered = lower(finish(build, [x], relu), REFERENCE)
    assert names(lowered) == ["lut", "reshape"]


def test_a_shared_table_result_is_kept_for_its_other_reader() -> None:
    build, x = Builder(), Value(quantized("int8", (5,), 0.1, 3), "x")
    y = build.emit(qnn.Tanh(), (x,), quantized("int8", (5,), 1 / 128, 0))
    z = build.emit(qnn.Relu(), (y,), quantized("int8", (5,), 0.01, -5))
    graph = finish(build, [x], y, z)
    lowered = lower(graph, REFERENCE)
    assert [node.inputs[0] for node in lowered.nodes] == [lowered.inputs[0]] * 2


def test_a_constant_of_one_element_may_have_more_dimensions_than_a_table() -> None:
    build, x = Builder(), Value(quantized("int8", (1, 1, 1, 5), 0.1, 3), "x")
    y = build.emit(qnn.Tanh(), (x,), quantized("int8", (1, 1, 1, 5), 1 / 128, 0))
    one = build.constant(np.full((1, 1, 1, 1), 77, np.int8), type_=quantized("int8", (1, 1, 1, 1), 0.01, 4))
    z = build.emit(qnn.Add(), (one, y), quantized("int8", (1, 1, 1, 5), 0.02, 9))
    graph, fed = finish(build, [x], z), codes((1, 1, 1, 5))
    lowered = lower(graph, REFERENCE)
    assert names(lowered) == ["lut"]
    expect_same(interpret(lowered, [fed])[0], interpret(graph, [fed], REFERENCE)[0], "ADD behind TANH")


def test_what_no_result_needs_is_not_refused() -> None:
    build, x = Builder(), Value(quantized("int8", (1, 4, 4, 1), 0.5, 0), "x")
    pooled = build.emit(
        qnn.MaxPool2d((2, 2), (2, 2)), (x,), quantized("int8", (1, 2, 2, 1), 0.4, 0), "pooled"
    )
    whole = build.emit(qnn.Relu(), (x,), x.type, "whole")
    graph = finish(build, [x], whole)
    assert names(lower(graph, "xnnpack")) == names(lower(graph, REFERENCE))
    with pytest.raises(UnsupportedError):
        lower(finish(build, [x], whole, pooled), "xnnpack")


def test_slices_of_concatenations_read_the_part() -> None:
    emit, a, b = Emitter(), Value(TensorType("int8", (2, 3)), "a"), Value(TensorType("int8", (2, 4)), "b")
    both = emit.concat((a, b), 1)
    whole = emit.slice(both, (0, 3), (2, 4), (1, 1))
    inside = emit.slice(both, (1, 2), (1, 2), (1, -1))
    across = emit.slice(both, (0, 2), (2, 2), (1, 1))
    graph = finish(emit, [a, b], whole, inside, across)
    simple = remove_dead_nodes(simplify(graph, REFERENCE))
    assert names(simple) == ["concat", "slice", "slice"]
    assert simple.outputs[0] is b
    arrays = [codes((2, 3)), codes((2, 4), 1)]
    for found, wanted in zip(interpret(simple, arrays), interpret(graph, arrays), strict=True):
        expect_same(found, wanted, "slices")


def test_a_slice_of_a_constant_part_of_a_concatenation_folds() -> None:
    build, x = Builder(), Value(TensorType("int32", (3,)), "x")
    known = build.constant(np.arange(7, dtype=np.int32))
    both = build.emit(qnn.Concat(0), (x, known), TensorType("int32", (10,)), "both")
    part = build.emit(qnn.StridedSlice((5,), (1,), (4,)), (both,), TensorType("int32", (4,)), "part")
    lowered = lower(finish(build, [x], part), REFERENCE)
    assert lowered.nodes == ()
    assert np.array_equal(interpret(lowered, [np.zeros(3, np.int32)])[0], [2, 3, 4, 5])


def padded_mac(zero: int, pad_value: int | None) -> Graph:
    """A 3x3 product with padding, behind a pad of its own unless ``pad_value`` is None."""
    rng, build = np.random.default_rng(5), Builder()
    x = Value(TensorType("int8", (1, 4, 5, 2)), "x")
    image = x
    if pad_value is not None:
        pad = prim.Pad((0, 1, 0, 0), (0, 0, 1, 0), pad_value)
        image = build.emit(pad, (x,), TensorType("int8", (1, 5, 6, 2)), "padded")
    w = build.constant(rng.integers(-128, 128, (3, 3, 3, 2)).astype(np.int8))
    bias = build.constant(rng.integers(-99, 99, 3).astype(np.int32))
    mac = prim.Mac(padding=((1, 0), (2, 1)), input_zero=zero)
    y = build.emit(mac, (image, w, bias), mac.result_type(image.type, w.type), "y")
    return finish(build, [x], y)


@pytest.mark.parametrize("zero", [-128, 0, 127])
@pytest.mark.parametrize(("pad_value", "left"), [(None, {"pad": 1}), (7, {"pad": 2}), ("zero", {"pad": 1})])
def test_padding_becomes_explicit(zero: int, pad_value: int | str | None, left: dict[str, int]) -> None:
    value = zero if isinstance(pad_value, str) else pad_value
    graph = padded_mac(zero, value)
    result = remove_dead_nodes(simplify(explicit_padding(graph, REFERENCE), REFERENCE))
    assert Counter(names(result)) == Counter({"mac": 1, **left})
    assert all(node.op.padding == ((0, 0), (0, 0)) for node in result.nodes if isinstance(node.op, prim.Mac))
    x = codes((1, 4, 5, 2))
    expect_same(interpret(result, [x])[0], interpret(graph, [x])[0], "padding")
