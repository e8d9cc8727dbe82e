"""AVERAGE_POOL_2D and MAX_POOL_2D against their lowering and the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

from qimport.errors import VerifyError
from qimport.ir.graph import Call
from qimport.ir.types import TensorType
from qimport.lower.pipeline import lower
from qimport.oracle import Oracle
from qimport.qnn.pool2d import AveragePool2d, MaxPool2d, Pool
from tests.cases import ACTIVATIONS, Draw, Operand, OperatorCase, window_options
from tests.single_op import quantized

OPERATIONS = {"AVERAGE_POOL_2D": AveragePool2d, "MAX_POOL_2D": MaxPool2d}


def random_case(seed: int) -> OperatorCase:
    """Any windows, strides beyond them, paddings, channel tails and activations."""
    draw = Draw.of(seed)
    extent = (draw.pick(1, 2, 4, 5, 7), draw.pick(1, 3, 5, 6))
    size, stride = (draw.pick(1, 2, 3), draw.pick(1, 2, 3, 5)), (draw.pick(1, 2, 3), draw.pick(1, 1, 2, 4))
    channels = draw.pick(1, 3, 8, 15, 16, 17, 33)
    x = draw.tensor(draw.dtype(), (draw.pick(1, 2), *extent, channels), draw.scale(0.002, 4))
    name, padding, counts = draw.window(extent, size, stride)
    out = TensorType(x.dtype, (x.shape[0], *counts, channels), x.quantization)
    builtin, activation = draw.pick(*OPERATIONS), draw.pick(*ACTIVATIONS)
    return pool_case(builtin, draw.fed(x), out, size, name, padding, stride, activation)


def pool_case(
    builtin: str,
    x: Operand,
    out: TensorType,
    size: tuple[int, int],
    name: str = "VALID",
    padding: tuple[tuple[int, int], tuple[int, int]] = ((0, 0), (0, 0)),
    stride: tuple[int, int] = (1, 1),
    activation: str = "NONE",
) -> OperatorCase:
    """A pool and its file."""
    options = window_options(name, stride, activation=activation, filter_height=size[0], filter_width=size[1])
    op = OPERATIONS[builtin](size, stride, padding, activation)
    return OperatorCase(op, (x,), out, builtin, options)


@pytest.mark.parametrize("seed", range(60))
def test_equals_interpreter(seed: int, oracle: Oracle) -> None:
    random_case(seed).check(oracle)


def image(dtype: str, codes: list[list[int]]) -> Operand:
    """A one-channel image."""
    value = np.array(codes, dtype)[None, :, :, None]
    return Operand(quantized(dtype, value.shape, 0.5, 0), value=value)


@pytest.mark.parametrize(
    ("codes", "mean"),
    [([[5, 5], [5, 5]], 5), ([[-1, -2], [-1, -1]], -1), ([[-1, -2], [-1, -2]], -2), ([[1, 2], [1, 2]], 2)],
)
def test_averages_round_half_away(codes: list[list[int]], mean: int, oracle: Oracle) -> None:
    """C47: sum first, then one rounding; its direction follows the code's sign."""
    case = pool_case("AVERAGE_POOL_2D", image("int8", codes), quantized("int8", (1, 1, 1, 1), 0.5, 0), (2, 2))
    assert all(found.item() == mean for found in case.check(oracle).values())


def test_averages_count_pixels_inside(oracle: Oracle) -> None:
    """C47: SAME 3x3, corners divide by 4, edges by 6."""
    x = image("int8", [[10, 20, 30], [40, 50, 60], [70, 80, 90]])
    case = pool_case("AVERAGE_POOL_2D", x, x.type, (3, 3), "SAME", ((1, 1), (1, 1)))
    for codes in case.check(oracle).values():
        assert codes.reshape(3, 3).tolist() == [[30, 35, 40], [45, 50, 55], [60, 65, 70]]


def test_average_of_a_large_window(oracle: Oracle) -> None:
    """C49: 65 * 65 times 255."""
    x = Operand(quantized("uint8", (1, 65, 65, 1), 0.5, 0), value=np.full((1, 65, 65, 1), 255, np.uint8))
    case = pool_case("AVERAGE_POOL_2D", x, quantized("uint8", (1, 1, 1, 1), 0.5, 0), (65, 65))
    assert all(codes.item() == 255 for codes in case.check(oracle).values())


def test_maximum_ignores_what_is_outside(oracle: Oracle) -> None:
    """C53: all codes negative, SAME."""
    x = image("int8", [[-100, -90, -80], [-70, -128, -60], [-50, -40, -127]])
    case = pool_case("MAX_POOL_2D", x, x.type, (2, 2), "SAME", ((0, 1), (0, 1)))
    for codes in case.check(oracle).values():
        assert codes.reshape(3, 3).tolist() == [[-70, -60, -60], [-40, -40, -60], [-40, -40, -127]]


def test_maximum_of_unlike_quantization(oracle: Oracle) -> None:
    """The delegate does not load it; the classic kernels compare codes and clip to the result's bounds."""
    x, out = image("int8", [[1, 60], [3, 4]]), quantized("int8", (1, 1, 1, 1), 0.25, 10)
    results = pool_case("MAX_POOL_2D", x, out, (2, 2), activation="RELU6").check(oracle)
    assert {mode: codes.item() for mode, codes in results.items()} == {"reference": 34, "builtin": 34}


def test_lowered_maximum_is_clamped_only_by_activations() -> None:
    x = image("int8", [[1, 2], [3, 4]])
    out = quantized("int8", (1, 1, 1, 1), 0.5, 0)
    for activation, wanted in (
        ("NONE", ["prim.window"]),
        ("RELU", ["prim.window", "prim.lut"]),
    ):
        graph = pool_case("MAX_POOL_2D", x, out, (2, 2), activation=activation).graph()
        assert [node.op.NAME for node in lower(graph, "reference").nodes] == wanted


@pytest.mark.parametrize("size", [(1, 1), (1, 2), (2, 3)])
@pytest.mark.parametrize("activation", ["NONE", "RELU", "RELU6"])
def test_signs_of_largest_zeros(size: tuple[int, int], activation: str, oracle: Oracle) -> None:
    x = Operand(TensorType("float32", (1, 2, 3, 1)), value=np.full((1, 2, 3, 1), -0.0, np.float32))
    out = TensorType("float32", (1, 3 - size[0], 4 - size[1], 1))
    pool_case("MAX_POOL_2D", x, out, size, activation=activation).check(oracle)


X, OUT = quantized("int8", (1, 4, 4, 3), 1.0, 0), quantized("int8", (1, 2, 2, 3), 1.0, 0)


@pytest.mark.parametrize(
    ("label", "op", "x", "out"),
    [
        ("C1", MaxPool2d((2, 2), (2, 2)), X.with_shape((4, 4, 3)), OUT),
        ("C1", AveragePool2d((2, 2), (2, 2)), X, quantized("uint8", OUT.shape, 1.0, 0)),
        ("C2", MaxPool2d((3, 2), (2, 2)), X, OUT),
        ("C2", MaxPool2d((0, 2), (2, 2)), X, OUT),
        ("C2", MaxPool2d((2, 2), (2, 2)), X, OUT.with_shape((1, 2, 2, 4))),
        ("C3", AveragePool2d((2, 2), (2, 2), ((2, 0), (0, 0))), X, OUT.with_shape((1, 3, 2, 3))),
        ("C4", MaxPool2d((2, 2), (2, 2), activation="TANH"), X, OUT),
    ],
)
def test_constraints(label: str, op: Pool, x: TensorType, out: TensorType) -> None:
    MaxPool2d((2, 2), (2, 2)).verify(Call((X,), (OUT,)))
    with pytest.raises(VerifyError, match=label):
        op.verify(Call((x,), (out,)))
