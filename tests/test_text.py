"""The text form: round trips of random graphs, names, constants, and a parser that survives garbage."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qimport import prim
from qimport.errors import CompilerBug, ParseError
from qimport.ir.graph import Array, Builder, Graph, Node, Operation, Value
from qimport.ir.text import (
    blob_name,
    collect_blobs,
    format_array,
    parse_array,
    parse_graph,
    print_graph,
    random_array,
)
from qimport.ir.types import DTYPES, INTEGER_RANGE, Quantization, TensorType

FILETESTS = sorted(Path(__file__).with_name("filetests").glob("*.qir"))

names = st.text(max_size=6) | st.sampled_from(["a", "a.1", "0", "model/conv;1"])
dtypes = st.sampled_from(sorted(DTYPES))
shapes = st.lists(st.integers(0, 3), max_size=4).map(tuple)


@st.composite
def quantizations(draw: st.DrawFn, shape: tuple[int, ...]) -> Quantization | None:
    """None, one scale (with or without an axis) or one per channel; any positive float32 scales."""
    axis = draw(st.sampled_from([None, *(axis for axis, size in enumerate(shape) if size)]))
    count = 1 if axis is None or draw(st.booleans()) else shape[axis]
    scale = st.floats(2.0**-149, 2.0**127, width=32)
    scales = draw(st.lists(scale, min_size=count, max_size=count))
    zeros = draw(st.lists(st.integers(-(2**31), 2**31 - 1), min_size=count, max_size=count))
    return draw(st.none() | st.just(Quantization(tuple(scales), tuple(zeros), axis)))


@st.composite
def tensor_types(draw: st.DrawFn) -> TensorType:
    shape = draw(shapes)
    return TensorType(draw(dtypes), shape, draw(quantizations(shape)))


def arrays(type_: TensorType) -> st.SearchStrategy[Array]:
    """Arbitrary bits that the type has: for floats every NaN, infinity and subnormal."""
    spare = {"bool": 7, "int2": 6, "int4": 4}.get(type_.dtype, 0)

    def view(raw: bytes) -> Array:
        bits = np.frombuffer(raw, np.uint8)
        if spare:
            bits = bits >> spare if type_.dtype == "bool" else (bits.view(np.int8) >> spare).view(np.uint8)
        return bits.view(type_.numpy).reshape(type_.shape)

    return st.binary(min_size=type_.nbytes, max_size=type_.nbytes).map(view)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Straight-line graphs of operations that accept every type, with constants among the operands."""
    values = [Value(draw(tensor_types()), draw(names)) for _ in range(draw(st.integers(1, 3)))]
    inputs, build = tuple(values), Builder()
    for _ in range(draw(st.integers(0, 5))):
        build.origin = draw(st.text(max_size=5))
        x = draw(st.sampled_from(values))
        if draw(st.booleans()):
            type_ = draw(tensor_types())
            x = Value(type_, draw(names), draw(arrays(type_)))
        rank = len(x.type.shape)
        pads = tuple(draw(st.integers(0, 2)) for _ in range(rank))
        padded = tuple(size + pad for size, pad in zip(x.type.shape, pads, strict=True))
        whole = st.integers(*INTEGER_RANGE.get(x.type.dtype, (-(2**63), 2**63)))
        value = draw(whole if x.type.dtype in INTEGER_RANGE else whole | st.floats(allow_nan=False))
        op, shape = draw(
            st.sampled_from(
                [
                    (prim.Reshape(), (x.type.size,)),
                    (prim.Pad(pads, (0,) * rank, value), padded),
                    (prim.Transpose(tuple(reversed(range(rank)))), x.type.shape[::-1]),
                ]
            )
        )
        values.append(build.emit(op, (x,), TensorType(x.type.dtype, shape), draw(names)))
    outputs = tuple(draw(st.lists(st.sampled_from(values), max_size=3)))
    return Graph(draw(names), inputs, outputs, tuple(build.nodes))


def assert_same(left: Graph, right: Graph) -> None:
    """Equal but for the names of values and of the graph."""
    seen: dict[Value, Value] = {}

    def same(a: Value | None, b: Value | None) -> None:
        assert (a is None) == (b is None)
        if a is not None and b is not None:
            assert seen.setdefault(a, b) is b
            assert a.type == b.type
            assert (None if a.data is None else a.data.tobytes()) == (
                None if b.data is None else b.data.tobytes()
            )

    def all_same(xs: Sequence[Value | None], ys: Sequence[Value | None]) -> None:
        for x, y in zip(xs, ys, strict=True):
            same(x, y)

    all_same(left.inputs, right.inputs)
    all_same(left.outputs, right.outputs)
    for m, n in zip(left.nodes, right.nodes, strict=True):
        assert (m.op, m.origin) == (n.op, n.origin)
        all_same(m.inputs, n.inputs)
        all_same(m.outputs, n.outputs)


@settings(max_examples=150, deadline=None)
@given(graphs(), st.sampled_from([0, 4, 64]))
def test_round_trip(graph: Graph, max_inline: int) -> None:
    text = print_graph(graph, max_inline=max_inline)
    parsed = parse_graph(text, collect_blobs(graph, max_inline=max_inline))
    assert_same(graph, parsed)
    assert print_graph(parsed, max_inline=max_inline) == text


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_constants_survive_bit_by_bit(data: st.DataObject) -> None:
    type_ = data.draw(tensor_types())
    array = data.draw(arrays(type_))
    text = format_array(array, 256)
    if text.startswith("blob"):
        complex_or_odd = type_.dtype == "complex64" or np.isnan(array).any()
        assert complex_or_odd, "only complex numbers and NaNs without a name may need a blob"
    else:
        assert parse_array(text, type_).tobytes() == array.tobytes()


def test_names_become_legal_and_unique() -> None:
    values = [Value(TensorType("int8", (1,)), name) for name in ("a b", "a_b", "", "", "a_b", "a_b.1", "é")]
    text = print_graph(Graph("my graph", tuple(values), (), ()))
    assert text.startswith("graph @my_graph(")
    assert [part.partition(":")[0] for part in text.split("%")[1:]] == [
        "a_b", "a_b.1", "0", "1", "a_b.2", "a_b.1.1", "_"
    ]  # fmt: skip
    assert print_graph(parse_graph(text)) == text


def test_constants_choose_the_shortest_exact_form() -> None:
    assert format_array(np.zeros(3, np.float32)) == "dense[0x0.0p+0, 0x0.0p+0, 0x0.0p+0]"
    assert format_array(np.full(100, 7, np.int8)) == "splat(7)"
    assert format_array(np.arange(100, dtype=np.int8)).startswith('blob("')
    assert format_array(np.array([0.0] * 99 + [-0.0])).startswith('blob("'), "zeros differ in sign"
    odd_nan = np.array([0x7FC00001], np.uint32).view(np.float32)
    assert format_array(odd_nan).startswith('blob("')
    assert format_array(np.array([np.nan, np.inf, -np.inf], np.float16)) == "dense[nan, inf, -inf]"


def test_constants_that_are_only_results_stand_before_states() -> None:
    text = """graph @g(%x: i8[2]) {
  %sum = state i8[2] dense[0, 0]
  %after = constant i8[2] dense[1, 2]
  %result = constant i8[2] dense[3, 4]
  next %sum = %after
  return %result, %x
}
"""
    assert print_graph(parse_graph(text)) == text


def test_blobs_are_checked() -> None:
    array = np.arange(100, dtype=np.int32)
    text = f'graph @g() {{ %x = constant i32[100] blob("{blob_name(array)}") return %x }}'
    with pytest.raises(ParseError, match="was not given"):
        parse_graph(text)
    for wrong in (array[:50], array + 1):
        with pytest.raises(ParseError, match="does not hold"):
            parse_graph(text, {blob_name(array): wrong})
    same_bytes = parse_graph(text.replace("i32[100]", "u8[400]"), {blob_name(array): array})
    assert same_bytes.outputs[0].data is not None
    assert same_bytes.outputs[0].data.tobytes() == array.tobytes()


def test_fill_covers_the_whole_type() -> None:
    for short, low, high in (("int8", -128, 127), ("uint8", 0, 255), ("bool", 0, 1)):
        drawn = random_array(TensorType(short, (4000,)), 1)
        assert (int(drawn.min()), int(drawn.max())) == (low, high)
        assert drawn.dtype.name == short
    assert parse_array("fill(seed=3)", TensorType("float32", (5,))).dtype == np.float32


def test_illegal_attribute_values_are_our_bug() -> None:
    @dataclass(frozen=True)
    class Odd(Operation):
        NAME = "test.odd"
        payload: object

    x = Value(TensorType("int8", (1,)), "x")
    for payload in ([1], np.int64(3)):
        node = Node(Odd(payload), (x,), (Value(x.type),))
        with pytest.raises(CompilerBug, match="no attribute value"):
            print_graph(Graph("g", (x,), (), (node,)))


def test_error_points_at_the_place() -> None:
    with pytest.raises(ParseError) as caught:
        parse_graph("graph @g(%x: i8[4]) {\n  %y = prim.cast(%z) : i32[4]\n  return %y\n}\n")
    assert (caught.value.line, caught.value.column) == (2, 18)
    assert str(caught.value).splitlines()[-1].index("^") - 2 == 17


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("graph @g() { return } x", "expected the end of the text"),
        ("graph @g(%x: i8[4] %y: i8[4]) { return }", r"expected ',' or '\)'"),
        ("graph @g(%x: i8[99999999999]) { return }", "expected a shape"),
        ("graph @g(%x: i8[9999999999]) { return }", "dimensions or"),
        (f"graph @g(%x: i8[{'x'.join('1' * 65)}]) {{ return }}", "more than 64 dimensions"),
        ("graph @g(%x: i8[4]<0:0>) { return }", "positive float32"),
        ("graph @g(%x: i8[4]<1e-60:0>) { return }", "positive float32"),
        ("graph @g(%x: i8[4]<1e60:0>) { return }", "does not fit"),
        ("graph @g(%x: i8[4]<inf:0>) { return }", "positive float32"),
        ("graph @g(%x: i8[4]<1:0 @1>) { return }", "integer from 0 to 0"),
        ("graph @g() { %x, %y = constant i8[1] splat(1) return }", "one name"),
        ("graph @g() { %x, %x = prim.mac() : i8[1], i8[1] return }", "one name for several"),
        ("graph @g() { %x = constant i8[1] blub(1) return }", "did you mean blob"),
        ("graph @g() { %x = constant f32[1] dense[0x1p99999] return }", "out of range"),
        ("graph @g() { %x = constant f32[1] dense[1e999] return }", "out of range"),
        (f"graph @g() {{ %x = constant i8[1] dense[{'9' * 5000}] return }}", "out of range"),
        ("graph @g() { %x = constant i8[2000000000] splat(1) return }", "must come from a blob"),
        ("graph @g(%x: i8[4]) { %y = prim.concat(%x) {axis=0, axis=0} : i8[4] return }", "given twice"),
        ("graph @g(%x: i8[4]) { %y = prim.concat(%x) {axis=7} : i8[4] return }", "has no dimension 7"),
        ("graph @g(%x: i8[4]) { %y = prim.concat(%x) {axis=True} : i8[4] return }", "must be int"),
        ("graph @g(%x: i8[4]) { %y = prim.concat(%x) {axis=" + "(" * 99 + " return }", "nested too deeply"),
        ("graph @g(%x: i8[4]) { %y = prim.reshape(%x) : i8[4], i8[4] return }", "1 results, but 2 result"),
        ('graph @g(%x: i8[4]) { %y = prim.reshape(%x) : i8[4] from "\\q" return }', "bad escape"),
        (
            'graph @g(%x: i8[4]) { %y = prim.reduce(%x) {kind="mex", axes=(0)} : i8[1] return }',
            'one of "sum"',
        ),
    ],
)
def test_errors(text: str, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        parse_graph(text)


def test_garbage_gives_parse_errors_only() -> None:
    rng = random.Random(7)
    texts = [path.read_text(encoding="utf-8") for path in FILETESTS]
    alphabet = '%@(){}[]<>:,;="_-.x019eifnapT \n\\\x00é' + "dense"
    for _ in range(3000):
        text = rng.choice(texts)
        for _ in range(rng.randint(1, 4)):
            start = rng.randrange(len(text))
            end = min(len(text), start + rng.choice([0, 1, 1, 5, 40]))
            other = rng.choice(texts)
            cut = rng.randrange(len(other))
            patch = rng.choice(["", rng.choice(alphabet), rng.choice(alphabet) * 3, other[cut : cut + 12]])
            text = text[:start] + patch + text[end:]
        with contextlib.suppress(ParseError):
            parse_graph(text)


def test_printing_and_parsing_take_linear_time() -> None:
    def chain(length: int) -> float:
        build, start = Builder(), Value(TensorType("int8", (4,)), "x")
        value = start
        for _ in range(length):
            value = build.emit(prim.Reshape(), (value,), value.type, "same name")
        begin = time.perf_counter()
        parse_graph(print_graph(Graph("chain", (start,), (value,), tuple(build.nodes))))
        return time.perf_counter() - begin

    chain(500)
    short = min(chain(500) for _ in range(3))
    assert chain(10000) < 80 * short, "20 times the length took more than 80 times as long"


def test_large_constants_print_fast() -> None:
    array = np.random.default_rng(0).integers(-128, 128, 24 << 20, np.int8)
    graph = Graph("weights", (), (Value(TensorType(array.dtype.name, array.shape), "w", array),), ())
    begin = time.perf_counter()
    text = print_graph(graph)
    assert time.perf_counter() - begin < 1.0, "24 MB take 0.06 s on an idle machine"
    assert len(text) < 200
