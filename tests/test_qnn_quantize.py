"""QUANTIZE and DEQUANTIZE between all types: ties, ends of ranges, leftovers of blocks, NaN and infinity."""

from __future__ import annotations

import numpy as np
import pytest

import qimport
from qimport import qnn
from qimport.errors import VerifyError
from qimport.ir.graph import Array, Call
from qimport.ir.types import INTEGER_RANGE, Quantization, TensorType
from qimport.numerics import X86_NUMERICS
from qimport.oracle import Oracle
from qimport.qnn.quantize import REQUANTIZATIONS
from tests import cases
from tests.flatbuffer_builder import ModelBuilder
from tests.single_op import Case, all_codes, expect_same, quantized, random_codes, scales_and_zeros

PAIRS = [(source, target) for source, targets in REQUANTIZATIONS.items() for target in targets]
HUGE = [np.nan, np.inf, -np.inf, 1e30, -1e30, 2.0**31, -(2.0**31), 2147483520, 3e9]
SMALL = [0.0, -0.0, 1e-30, 0.5, -0.5]


def quantize_case(dtype: str, scale: float, zero_point: int, shape: tuple[int, ...]) -> Case:
    result = quantized(dtype, shape, scale, zero_point)
    return Case(qnn.Quantize(), (TensorType("float32", shape),), result, "QUANTIZE")


def zero_point_for(dtype: str, int8_zero: int) -> int:
    return {"int8": int8_zero, "uint8": int8_zero + 128}.get(dtype, 0)


def near_ties(rng: np.random.Generator, scale: float, size: int) -> Array:
    """Half-way values, their float32 neighbours, and values anywhere."""
    ties = ((rng.integers(-300, 300, size) + 0.5) * scale).astype(np.float32)
    above, below = np.nextafter(ties, np.float32(np.inf)), np.nextafter(ties, np.float32(-np.inf))
    anywhere = (rng.normal(size=size) * 100 * scale).astype(np.float32)
    return np.choose(rng.integers(0, 4, size), [ties, above, below, anywhere])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
def test_quantize_equals_the_interpreter(dtype: str, oracle: Oracle) -> None:
    rng = np.random.default_rng(1)
    for extra, (scale, zero) in enumerate(scales_and_zeros(rng, "int8", 9)):
        case = quantize_case(dtype, scale, zero_point_for(dtype, zero), (3, 40 + extra))
        case.check(oracle, [near_ties(rng, np.float32(scale), 3 * (40 + extra)).reshape(3, -1)])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
@pytest.mark.parametrize("scale", [1.0, 0.37])
def test_quantize_of_values_out_of_range(dtype: str, scale: float, oracle: Oracle) -> None:
    lowest, highest = INTEGER_RANGE[dtype]
    for shift, zero in enumerate((lowest, -1 if lowest < 0 else 1, highest)):
        values = np.roll(np.array(HUGE + SMALL, np.float32), shift)
        quantize_case(dtype, scale, zero, values.shape).check(oracle, [values])


def test_leftover_of_blocks_rounds_ties_away() -> None:
    case = quantize_case("int8", 1.0, 0, (39,))
    node, halves = case.graph().nodes[0], np.full(39, 0.5, np.float32)
    result = {mode: node.op.evaluate(node.call(mode, (halves,)))[0].tolist() for mode in X86_NUMERICS}
    assert result == {"reference": [1] * 39, "builtin": [0] * 32 + [1] * 7, "xnnpack": [0] * 39}


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_requantize_equals_the_interpreter(source: str, target: str, oracle: Oracle) -> None:
    rng = np.random.default_rng(2)
    draws = zip(scales_and_zeros(rng, "int8", 6), scales_and_zeros(rng, "int8", 6), strict=True)
    for index, ((scale, zero), (scale_out, zero_out)) in enumerate(draws):
        size, fine = 257 + 3 * index, {"int16": 64, "int32": 4096}.get(source, 1)
        before = quantized(source, (size,), scale / fine, zero_point_for(source, zero))
        after = quantized(target, (size,), scale_out, zero_point_for(target, zero_out))
        narrow = source in ("int8", "uint8")
        codes = all_codes(source, size - 256) if narrow else random_codes(rng, before)
        Case(qnn.Requantize(), (before,), after, "QUANTIZE", version=2).check(oracle, [codes])


@pytest.mark.parametrize("zero_out", [121, 120])
def test_int8_to_uint8_with_and_without_the_shortcut(zero_out: int, oracle: Oracle) -> None:
    before, after = quantized("int8", (256,), 0.05, -7), quantized("uint8", (256,), 0.05, zero_out)
    Case(qnn.Requantize(), (before,), after, "QUANTIZE", version=2).check(oracle, [all_codes("int8")])


@pytest.mark.parametrize("ratio", [2.0**-9, 2.0**-8, 2.0**7, 129.0, 2.0**22, 2.0**24, 1.9e8])
def test_requantize_at_and_beyond_the_range_of_the_delegate(ratio: float, oracle: Oracle) -> None:
    before, after = quantized("int8", (263,), 0.01 * ratio, -5), quantized("int8", (263,), 0.01, -100)
    case = Case(qnn.Requantize(), (before,), after, "QUANTIZE", version=2)
    case.check(oracle, [all_codes("int8", 7)])
    node = case.graph().nodes[0]
    assert qnn.Requantize().xnnpack_takes(node.call()) == bool(oracle.delegated_ops(case.file()))


@pytest.mark.parametrize("zero_out", [30000, -30000])
def test_zero_point_of_wide_requantize_wraps(zero_out: int, oracle: Oracle) -> None:
    scale = np.float32(0.1)
    below = float(np.nextafter(scale, np.float32(0)))
    codes = np.array([2**31 - 1, -(2**31), 2**31 - 50, 2**30, -(2**30), 5, 0], np.int32)
    before, after = quantized("int32", (7,), below, 0), quantized("int16", (7,), scale, zero_out)
    Case(qnn.Requantize(), (before,), after, "QUANTIZE", version=2).check(oracle, [codes])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
def test_dequantize_equals_the_interpreter(dtype: str, oracle: Oracle) -> None:
    rng = np.random.default_rng(3)
    for extra, (scale, zero) in enumerate(scales_and_zeros(rng, "int8", 6)):
        x = quantized(dtype, (257 + extra,), scale, zero_point_for(dtype, zero))
        codes = random_codes(rng, x) if dtype == "int16" else all_codes(dtype, 1 + extra)
        case = Case(qnn.Dequantize(), (x,), TensorType("float32", x.shape), "DEQUANTIZE", version=3)
        case.check(oracle, [codes])


@pytest.mark.parametrize(("shape", "axis"), [((3, 5), 0), ((5, 3), 1), ((2, 3, 4), 1)])
def test_dequantize_per_channel(shape: tuple[int, ...], axis: int, oracle: Oracle) -> None:
    scales = tuple(float(np.float32(scale)) for scale in (0.1, 0.037, 0.25))
    x = TensorType("int8", shape, Quantization(scales, (3, 0, -7), axis))
    case = Case(qnn.Dequantize(), (x,), TensorType("float32", shape), "DEQUANTIZE", version=5)
    case.check(oracle, [random_codes(np.random.default_rng(4), x)])


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_dequantize_of_a_constant(dtype: str, oracle: Oracle) -> None:
    codes = all_codes(dtype, 5)
    x = quantized(dtype, codes.shape, 0.00516, zero_point_for(dtype, -128))
    out = TensorType("float32", x.shape)
    model, one = ModelBuilder(), np.ones(1, np.float32)
    known, wide = cases.add_tensor(model, x, codes), cases.add_tensor(model, out)
    factor, y = model.tensor((1,), "float32"), cases.add_tensor(model, out)
    model.operator("DEQUANTIZE", [known], [wide])
    model.operator("MUL", [wide, factor], [y])
    file = model.build([factor], [y])
    for mode in X86_NUMERICS:
        wanted = oracle.run(file, [one], mode).outputs[0]
        expect_same(qimport.compile(file, numerics=mode).run([one])[0], wanted, mode)


def test_scalars_keep_their_rank(oracle: Oracle) -> None:
    real, codes = TensorType("float32", ()), quantized("int8", (), 0.1, 3)
    wide = quantized("int16", (), 0.1, 0)
    Case(qnn.Quantize(), (real,), codes, "QUANTIZE").check(oracle, [np.array(3.3, np.float32)])
    Case(qnn.Requantize(), (wide,), codes, "QUANTIZE", version=2).check(oracle, [np.array(5, np.int16)])
    Case(qnn.Dequantize(), (wide,), real, "DEQUANTIZE", version=3).check(oracle, [np.array(5, np.int16)])


def test_float16_widens_exactly() -> None:
    halves = np.array([0.1, -65504, 6e-8, np.inf], np.float16)
    call = Call((TensorType("float16", (4,)),), (TensorType("float32", (4,)),), (halves,))
    qnn.Dequantize().verify(call)
    assert np.array_equal(qnn.Dequantize().evaluate(call)[0], halves.astype(np.float32))


@pytest.mark.parametrize(
    ("op", "before", "after", "label"),
    [
        (qnn.Quantize(), TensorType("int32", (4,)), quantized("int8", (4,), 0.1, 0), "C1"),
        (qnn.Quantize(), TensorType("float32", (4,)), quantized("int32", (4,), 0.1, 0), "C1"),
        (qnn.Quantize(), TensorType("float32", (4,)), TensorType("int8", (4,)), "C3"),
        (qnn.Quantize(), TensorType("float32", (2, 2)), quantized("int8", (4,), 0.1, 0), "C2"),
        (qnn.Requantize(), quantized("int16", (4,), 0.1, 0), quantized("uint8", (4,), 0.1, 0), "C1"),
        (qnn.Requantize(), quantized("int16", (4,), 0.1, 1), quantized("int16", (4,), 0.1, 0), "C3"),
        (qnn.Dequantize(), TensorType("int8", (4,)), TensorType("float32", (4,)), "C1"),
        (
            qnn.Dequantize(),
            TensorType("int8", (4,), Quantization((0.1, 0.2), (0, 0), 0)),
            TensorType("float32", (4,)),
            "C3",
        ),
    ],
)
def test_types_are_checked(op: qnn.QnnOperation, before: TensorType, after: TensorType, label: str) -> None:
    with pytest.raises(VerifyError, match=rf"\({label}\)"):
        op.verify(Call((before,), (after,)))
