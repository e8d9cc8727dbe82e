"""``prim.pair_sum`` and ``prim.scale_codes`` as code: for all pairs of codes and for every tail."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_harness import check, kernel_of

from qimport import prim
from qimport.codegen.host import resolve_target, why_not_runnable
from qimport.ir.graph import Builder, Value
from qimport.ir.types import INTEGER_RANGE, TensorType
from qimport.prim.scale_codes import limbs

FACTORS = (
    (2**29 - 1, -(2**29) + 1, 2**41, 28),
    (-(2**28), 12345, -(2**36) - 1, 30),
    (40000, -(2**20) - 1, 2**28 + 1, 15),
    (300, -77777, -(2**33) + 1, 20),
)


@pytest.mark.parametrize("target", ["x86-64", "x86-64-v3", "x86-64-v4", "host"])
@pytest.mark.parametrize(
    "types", ["int8 int8 int8", "uint8 int8 uint8", "int8 uint8 int8", "uint8 uint8 int8"]
)
def test_all_pairs_and_every_tail(target: str, types: str) -> None:
    if (reason := why_not_runnable(resolve_target(target))) is not None:
        pytest.skip(reason)
    a_type, b_type, out = types.split()
    rng, (lowest, highest) = np.random.default_rng(5), INTEGER_RANGE[out]
    a_codes, b_codes = (np.arange(256).astype(np.uint8).view(dtype) for dtype in (a_type, b_type))
    for number, (*factors, shift) in enumerate(FACTORS):
        op = (
            prim.PairSum(shift, lowest, highest)
            if number % 2
            else prim.PairSum(shift, lowest + 5, highest - 100)
        )
        shapes = (
            [((256, 256), (256, 256))] if number < 2 else [((3, size), (1, size)) for size in (1, 3, 14, 45)]
        )
        for shape, other in shapes:
            e = Builder()
            a, b = Value(TensorType(a_type, shape), "a"), Value(TensorType(b_type, other), "b")
            y = e.emit(op, (a, b, e.constant(np.array(factors, np.int64))), TensorType(out, shape))
            arrays = [rng.choice(codes, size) for codes, size in ((a_codes, shape), (b_codes, other))]
            if shape == other:
                arrays = [np.repeat(a_codes[:, None], 256, 1), np.repeat(b_codes[None, :], 256, 0)]
            check(kernel_of(e.nodes, y), arrays, target)


@pytest.mark.parametrize("target", ["x86-64", "x86-64-v3", "x86-64-v4", "host"])
@pytest.mark.parametrize("types", ["int8 int8", "uint8 uint8", "int8 uint8", "uint8 int8"])
def test_scaled_codes(target: str, types: str) -> None:
    """The largest limbs of either sign, in rows of every tail."""
    if (reason := why_not_runnable(resolve_target(target))) is not None:
        pytest.skip(reason)
    source, out = types.split()
    rng, (lowest, highest) = np.random.default_rng(6), INTEGER_RANGE[out]
    for number, columns in enumerate((1, 2, 3, 14, 64, 109)):
        slope, drop = (rng.integers(-(2**28), 2**28 + 1, columns) for _ in range(2))
        slope[0] = 2**28 if number % 2 else -(2**28)
        op = prim.ScaleCodes(100 - 60 * number, 28 - number, -99, lowest + number % 2, highest - number % 2)
        e, a = Builder(), Value(TensorType(source, (256, columns)), "a")
        lows, highs = (Value(TensorType("int32", (1, columns)), name) for name in ("lows", "highs"))
        rest = e.constant(np.array([2**29 - 1], np.int32))
        y = e.emit(op, (a, lows, highs, rest), TensorType(out, (256, columns)))
        codes = np.repeat(np.arange(256).astype(np.uint8).view(source)[:, np.newaxis], columns, 1)
        check(kernel_of(e.nodes, y), [codes, *(limb[np.newaxis] for limb in limbs(slope, drop))], target)
