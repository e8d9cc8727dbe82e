"""CONCATENATION: copies, and the float conversion of uint8 operands with a scale of their own."""

from __future__ import annotations

import numpy as np
import pytest

from qimport.errors import VerifyError
from qimport.ir.graph import Array
from qimport.ir.types import TensorType
from qimport.oracle import Oracle
from qimport.qnn import Concat
from tests.single_op import Case, all_codes, quantized, random_codes, scales_and_zeros

TWO_SCALES = [(0.05, 3), (0.031, 7)]


def values(rng: np.random.Generator, type_: TensorType) -> Array:
    if type_.dtype == "float32":
        return rng.normal(size=type_.shape).astype(np.float32)
    return random_codes(rng, type_)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "float32"])
@pytest.mark.parametrize(("shape", "axis"), [((4,), 0), ((2, 3), 1), ((2, 3, 2), 0), ((1, 2, 3, 2), 2)])
def test_equal_quantization_is_copied(dtype: str, shape: tuple[int, ...], axis: int, oracle: Oracle) -> None:
    rng = np.random.default_rng(axis)
    for count in (1, 2, 6):
        wide = (*shape[:axis], count * shape[axis], *shape[axis + 1 :])
        plain = dtype in ("int32", "float32")
        part, out = (TensorType(dtype, s) if plain else quantized(dtype, s, 0.1, 0) for s in (shape, wide))
        options = {"axis": axis - len(shape) if count == 2 else axis}
        case = Case(Concat(axis), (part,) * count, out, "CONCATENATION", version=2, options=options)
        case.check(oracle, [values(rng, part) for _ in range(count)])


def test_uint8_operands_of_two_scales(oracle: Oracle) -> None:
    parts = tuple(quantized("uint8", (256,), *pair) for pair in TWO_SCALES)
    out = quantized("uint8", (512,), *TWO_SCALES[0])
    case = Case(Concat(0), parts, out, "CONCATENATION", options={"axis": 0})
    case.check(oracle, [all_codes("uint8")] * 2)


def test_uint8_operands_of_many_scales(oracle: Oracle) -> None:
    rng = np.random.default_rng(7)
    for scale, zero in scales_and_zeros(rng, "uint8", 8):
        parts = tuple(quantized("uint8", (256, 1), *pair) for pair in scales_and_zeros(rng, "uint8", 4))
        out = quantized("uint8", (256, 5), scale, zero)
        first = quantized("uint8", (256, 1), scale, zero)
        case = Case(Concat(1), (first, *parts), out, "CONCATENATION", options={"axis": 1})
        case.check(oracle, [all_codes("uint8").reshape(256, 1)] * 5)


def test_int8_operands_of_two_scales_are_refused() -> None:
    parts = tuple(quantized("int8", (4,), *pair) for pair in TWO_SCALES)
    with pytest.raises(VerifyError, match=r"\(C3\) i8\[4\]<.*:7> is quantized unlike i8\[8\]<.*:3>"):
        Case(Concat(0), parts, quantized("int8", (8,), *TWO_SCALES[0]), "CONCATENATION").graph()


def test_shapes_and_zero_points_are_checked() -> None:
    x = quantized("uint8", (2, 3), 0.1, 0)
    for out, label in [((2, 7), "C2"), ((3, 6), "C2"), ((2, 3, 2), "C2")]:
        with pytest.raises(VerifyError, match=rf"\({label}\)"):
            Case(Concat(1), (x, x), x.with_shape(out), "CONCATENATION").graph()
    wide = quantized("int16", (2, 3), 0.1, 5)
    with pytest.raises(VerifyError, match=r"\(C4\)"):
        Case(Concat(1), (wide, wide), wide.with_shape((2, 6)), "CONCATENATION").graph()
