"""ADD, SUB and MUL against their lowering and the interpreter."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from qimport.errors import VerifyError
from qimport.frontend.importer import import_model
from qimport.frontend.schema import read_model
from qimport.ir.graph import Builder, Call, Graph, Value
from qimport.ir.interpret import interpret
from qimport.ir.types import INTEGER_RANGE, TensorType
from qimport.lower.pipeline import lower
from qimport.numerics import X86_NUMERICS
from qimport.oracle import Oracle
from qimport.qnn.binary import BinaryOperation, Mul
from qimport.qnn.broadcast import inner_run
from qimport.qnn.sums import Add, Sub
from tests.cases import ACTIVATIONS, Draw, Operand, OperatorCase, add_tensor
from tests.flatbuffer_builder import ModelBuilder
from tests.single_op import all_codes, expect_same, quantized

OPERATIONS = {"ADD": Add, "SUB": Sub, "MUL": Mul}
SHAPES = (
    ((1, 3, 5, 7), (1, 3, 5, 7)),
    ((2, 3, 4, 5), (5,)),
    ((2, 3, 4, 5), (1, 1, 1, 5)),
    ((3, 1, 5), (1, 4, 5)),
    ((7,), (1,)),
    ((1,), (2, 9)),
    ((2, 3), ()),
    ((1, 2, 1, 2, 1, 3), (2, 2, 1, 3)),
)


def random_case(seed: int) -> OperatorCase:
    """Any broadcast, constant operands, and scale ratios from ordinary to beyond what the delegate takes."""
    draw = Draw.of(seed)
    builtin, dtype = draw.pick(*OPERATIONS), draw.dtype()
    left, right = draw.pick(*SHAPES)
    a, b = draw.tensor(dtype, left), draw.tensor(dtype, right)
    shape = np.broadcast_shapes(left, right)
    s_a, s_b = a.quant.scale, b.quant.scale
    usual = s_a * s_b * 60 if builtin == "MUL" else max(s_a, s_b) * 1.5
    out = draw.tensor(dtype, shape, draw.near(usual * draw.pick(1, 1, 1, 0.05, 7, 0.004, 300, 3000)))
    second = draw.fed(b)
    if draw.pick(True, False, False):
        second = Operand(b, data=second.value)
    return binary_case(builtin, draw.fed(a), second, out, draw.pick(*ACTIVATIONS))


def binary_case(
    builtin: str, a: Operand, b: Operand, out: TensorType, activation: str = "NONE"
) -> OperatorCase:
    """A sum, difference or product and its file."""
    options = {"fused_activation_function": activation}
    return OperatorCase(OPERATIONS[builtin](activation), (a, b), out, builtin, options)


@pytest.mark.parametrize("seed", range(60))
def test_equals_interpreter(seed: int, oracle: Oracle) -> None:
    random_case(seed).check(oracle)


def all_pairs(dtype: str) -> tuple[Operand, Operand]:
    """Every pair of codes; the scales are replaced by the tests."""
    lowest, highest = INTEGER_RANGE[dtype]
    codes = np.arange(lowest, highest + 1).astype(dtype)
    a, b = (quantized(dtype, shape, 1.0, 0) for shape in ((256, 1), (1, 256)))
    return Operand(a, value=codes[:, None]), Operand(b, value=codes[None, :])


@pytest.mark.parametrize("builtin", OPERATIONS)
@pytest.mark.parametrize(
    ("scales", "zeros"),
    [
        ((0.021, 0.037, 0.045), (3, -11, 20)),
        ((0.25, 0.25, 0.5), (0, 0, 0)),
        ((0.5, 0.125, 0.25), (-128, 127, -1)),
        ((0.03, 0.03, 0.03), (-128, -128, -128)),
    ],
)
def test_all_pairs(builtin: str, scales: tuple[float, ...], zeros: tuple[int, ...], oracle: Oracle) -> None:
    """C32, C33: natural, power-of-two and equal scales."""
    a, b = (
        replace(operand, type=quantized("int8", operand.type.shape, scale, zero))
        for operand, scale, zero in zip(all_pairs("int8"), scales, zeros, strict=False)
    )
    binary_case(builtin, a, b, quantized("int8", (256, 256), scales[2], zeros[2])).check(oracle)


def test_ties_of_sums(oracle: Oracle) -> None:
    """.25 + .25 -> .5: the fixed point rounds ties away, the delegate up."""
    a, b = quantized("int8", (8,), 0.25, 0), quantized("int8", (1,), 0.25, 0)
    fed = Operand(a, value=np.array([1, 2, 3, -1, -2, -3, 5, -5], np.int8))
    zero = Operand(b, value=np.zeros(1, np.int8))
    results = binary_case("ADD", fed, zero, quantized("int8", (8,), 0.5, 0)).check(oracle)
    away = [1, 1, 2, -1, -1, -2, 3, -3]
    assert results["reference"].tolist() == results["builtin"].tolist() == away
    assert results["xnnpack"].tolist() == [1, 1, 2, 0, -1, -1, 3, -2]


RUNS = (
    ((19,), (19,), (19, False)),
    ((3, 1, 7), (1, 3, 1, 7), (21, False)),
    ((2, 3, 5, 9), (9,), (9, False)),
    ((2, 1, 3, 10), (2, 4, 1, 10), (10, False)),
    ((2, 3, 11), (), (66, True)),
    ((4, 1, 21), (4, 5, 1), (21, True)),
    ((2, 3, 1, 1), (2, 3, 5, 9), (45, True)),
    ((1, 2, 1, 2, 1, 9), (2, 2, 1, 9), (18, False)),
    ((5, 1), (5, 7), (7, True)),
    ((3, 1, 17), (1, 5, 1), (0, False)),
    ((2, 1, 3, 1, 9), (1, 4, 1, 3, 9), (0, False)),
)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize(("left", "right", "run"), RUNS)
def test_vectors_of_the_optimized_add(
    left: tuple[int, ...], right: tuple[int, ...], run: tuple[int, bool], dtype: str, oracle: Oracle
) -> None:
    """Where one operand is zero and the other a multiple of half a step, the last bit of both decides."""
    assert inner_run(left, right) == inner_run(right, left) == run
    for seed in range(3):
        draw = Draw.of(seed)
        out_scale = draw.pick(0.5, 0.25)
        small = out_scale * draw.pick(0.5, 0.25)
        a = draw.tensor(dtype, left, float(np.float32(small * draw.rng.uniform(1, 9))))
        b = draw.tensor(dtype, right, small)
        zero = np.where(draw.rng.random(left) < 0.7, a.quant.zero_point, draw.codes(a)).astype(dtype)
        pair = Operand(a, value=zero), draw.fed(b)
        out = draw.tensor(dtype, np.broadcast_shapes(left, right), out_scale)
        for operands in (pair, pair[::-1]):
            binary_case("ADD", *operands, out).check(oracle)


def test_optimized_add_rounds_its_operands_downward_in_vectors(oracle: Oracle) -> None:
    """0 + 4.75 in steps of 1/2: eight elements fill a vector, the ninth is left over."""
    a = quantized("uint8", (9,), 0.3571473956108093, 0)
    b = quantized("uint8", (9,), 0.125, 76)
    operands = Operand(a, value=np.zeros(9, np.uint8)), Operand(b, value=np.full(9, 114, np.uint8))
    results = binary_case("ADD", *operands, quantized("uint8", (9,), 0.5, 138)).check(oracle)
    assert results["reference"].tolist() == [148] * 9
    assert results["builtin"].tolist() == [147] * 8 + [148]


def test_product_scale_above_one(oracle: Oracle) -> None:
    """C31: scales 2 * 2 / 1 need a left shift."""
    a, b = quantized("uint8", (2,), 2.0, 0), quantized("uint8", (1,), 2.0, 0)
    fed = Operand(a, value=np.array([3, 200], np.uint8)), Operand(b, value=np.array([5], np.uint8))
    results = binary_case("MUL", *fed, quantized("uint8", (2,), 1.0, 0)).check(oracle)
    assert all(codes.tolist() == [60, 255] for codes in results.values())


@pytest.mark.parametrize("builtin", OPERATIONS)
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("left_right", [shapes[:2] for shapes in RUNS])
def test_results_beyond_16_bits(
    left_right: tuple[tuple[int, ...], tuple[int, ...]], dtype: str, builtin: str, oracle: Oracle
) -> None:
    """The vectors of the optimized kernels overflow, each kind in its way; what is left over does not."""
    for seed in range(2):
        draw = Draw.of(seed)
        a, b = (
            draw.tensor(dtype, shape, scale) for shape, scale in zip(left_right, (0.25, 0.3), strict=True)
        )
        steps = draw.pick(5, 30, 200) if builtin == "MUL" else draw.pick(2e3, 8e3, 3e4)
        one = 0.25 * 0.3 if builtin == "MUL" else 0.25
        out = draw.tensor(dtype, np.broadcast_shapes(*left_right), float(np.float32(one / steps)))
        binary_case(builtin, draw.fed(a), draw.fed(b), out, draw.pick(*ACTIVATIONS)).check(oracle)


@pytest.mark.parametrize(
    ("builtin", "ratio", "family"),
    [
        ("ADD", 2.0**-10, "xnnpack"),
        ("SUB", 2.0**-11, "builtin"),
        ("ADD", 255.9, "xnnpack"),
        ("SUB", 256.0, "builtin"),
        ("MUL", 2.0**-16, "xnnpack"),
        ("MUL", 2.0**-17, "builtin"),
        ("MUL", 255.9, "xnnpack"),
    ],
)
def test_scales_the_delegate_takes(builtin: str, ratio: float, family: str, oracle: Oracle) -> None:
    draw = Draw.of(0)
    a, b = draw.tensor("int8", (3, 20), 1.0), draw.tensor("int8", (3, 20), 1.0)
    out = draw.tensor("int8", (3, 20), 1 / ratio)
    case = binary_case(builtin, draw.fed(a), draw.fed(b), out)
    assert case.op.kernel_family(case.call("xnnpack")) == family
    case.check(oracle)


@pytest.mark.parametrize("square", [True, False])
@pytest.mark.parametrize("seed", range(6))
def test_one_tensor_twice(seed: int, square: bool, oracle: Oracle) -> None:
    """A product of one tensor with itself is tabulated by the delegate; of two equal ones it is not."""
    draw = Draw.of(seed)
    x = draw.tensor(draw.dtype(), (256,))
    out = draw.tensor(x.dtype, (256,), draw.near(x.quant.scale**2 * draw.pick(40, 90, 200)))
    activation = draw.pick(*ACTIVATIONS)
    model, build, value = ModelBuilder(), Builder(), Value(x, "x")
    indices = [add_tensor(model, x), add_tensor(model, x)][: 1 if square else 2]
    values = [value] if square else [value, Value(x, "y")]
    y = add_tensor(model, out)
    model.operator("MUL", [indices[0], indices[-1]], [y], 2, fused_activation_function=activation)
    result = build.emit(Mul(activation, square), (values[0], values[-1]), out)
    graph, file = Graph("square", tuple(values), (result,), tuple(build.nodes)), model.build(indices, [y])
    codes = [all_codes(x.dtype)] * len(values)
    for mode in X86_NUMERICS:
        specified = interpret(graph, codes, mode)[0]
        expect_same(interpret(lower(graph, mode), codes)[0], specified, f"lowered in {mode}")
        expect_same(interpret(import_model(read_model(file)).graph, codes, mode)[0], specified, "imported")
        expect_same(specified, oracle.run(file, codes, mode).outputs[0], mode)


@pytest.mark.parametrize("builtin", OPERATIONS)
def test_scalars(builtin: str, oracle: Oracle) -> None:
    """Operands of rank 0."""
    draw = Draw.of(1)
    a, b, out = (draw.tensor("int8", (), scale) for scale in (0.1, 0.2, 0.25))
    binary_case(builtin, draw.fed(a), draw.fed(b), out).check(oracle)


X, ROW = quantized("int8", (2, 3), 1.0, 0), quantized("int8", (3,), 1.0, 0)


@pytest.mark.parametrize(
    ("label", "op", "types", "out"),
    [
        ("C1", Add(), (X, quantized("uint8", (3,), 1.0, 0)), X),
        ("C1", Mul(), (X, TensorType("int8", (3,))), X),
        ("C1", Sub(), (X, ROW), quantized("int16", (2, 3), 1.0, 0)),
        ("C2", Add(), (X, ROW.with_shape((2,))), X),
        ("C2", Mul(), (X, ROW), ROW),
        ("C3", Sub("SIGN_BIT"), (X, ROW), X),
        ("C4", Mul(square=True), (X, ROW), X),
    ],
)
def test_constraints(label: str, op: BinaryOperation, types: tuple[TensorType, ...], out: TensorType) -> None:
    Add().verify(Call((X, ROW), (X,)))
    with pytest.raises(VerifyError, match=label):
        op.verify(Call(types, (out,)))
