"""MEAN against its lowering and the interpreter; products that reduce nothing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import qimport
from qimport.errors import VerifyError
from qimport.ir.graph import Call
from qimport.ir.types import TensorType
from qimport.numerics import X86_NUMERICS
from qimport.oracle import Oracle
from qimport.qnn.mean import Mean
from tests.cases import Draw, Operand, OperatorCase
from tests.flatbuffer_builder import ModelBuilder
from tests.single_op import quantized


def random_case(seed: int) -> OperatorCase:
    """Any axes, often the image form, channel tails, scale ratios."""
    draw = Draw.of(seed)
    image = (draw.pick(1, 2), draw.pick(1, 2, 3, 7), draw.pick(1, 2, 5), draw.pick(1, 3, 15, 16, 17, 33))
    shape = draw.pick(image, image, (5,), (4, 9), (3, 4, 5), (1, 2, 2, 3, 4))
    rank = len(shape)
    chosen = draw.rng.permutation(rank)[: int(draw.rng.integers(1, rank + 1))]
    axes = (1, 2) if rank == 4 and draw.pick(True, True, False) else tuple(sorted(int(a) for a in chosen))
    stated = [int(a) - draw.pick(0, 0, rank) for a in draw.rng.permutation(axes)]
    x = draw.tensor(draw.dtype(), shape)
    ratio = draw.pick(1, 1, 0.7, 0.15, 0.03, 3, 300, 0.001)
    return mean_case(draw.fed(x), axes, stated, draw, x.quant.scale * ratio, bool(draw.pick(True, False)))


def mean_case(
    x: Operand, axes: tuple[int, ...], stated: Sequence[int], draw: Draw, scale: float, keep_dims: bool
) -> OperatorCase:
    """A mean and its file, which states the axes as in ``stated``."""
    pairs = enumerate(x.type.shape)
    shape = tuple(1 if i in axes else size for i, size in pairs if keep_dims or i not in axes)
    out = draw.tensor(x.type.dtype, shape, draw.near(scale))
    attributes = (np.array(stated, np.int32),)
    return OperatorCase(Mean(axes, keep_dims), (x,), out, "MEAN", {"keep_dims": keep_dims}, attributes)


@pytest.mark.parametrize("seed", range(60))
def test_equals_interpreter(seed: int, oracle: Oracle) -> None:
    random_case(seed).check(oracle)


@pytest.mark.parametrize(
    ("axes", "stated", "keep_dims"),
    [
        ((3,), [3], False),
        ((3,), [-1], True),
        ((1, 2), [1, 2], True),
        ((1, 2), [-2, 1, 2], True),
        ((1, 2), [1, 2], False),
        ((0, 1, 2, 3), [0, 1, 2, 3], False),
    ],
)
def test_any_axes(axes: tuple[int, ...], stated: list[int], keep_dims: bool, oracle: Oracle) -> None:
    """C50: negative and repeated dimensions, with and without keep_dims."""
    draw = Draw.of(1)
    x = draw.tensor("int8", (1, 3, 3, 3), 0.5)
    mean_case(draw.fed(x), axes, stated, draw, 0.25, keep_dims).check(oracle)


def test_three_kernels(oracle: Oracle) -> None:
    """Quarters of 2, -2, 6, -6: ties away; ties up in a block of 16, away behind it; ties to even."""
    x = quantized("int8", (1, 2, 2, 17), 0.5, 0)
    value = np.zeros(x.shape, np.int8)
    value[0, 0, 0] = np.resize([2, -2, 6, -6], 17)
    value[0, 0, 0, 16] = -2
    out = quantized("int8", (1, 1, 1, 17), 0.5, 0)
    options, attributes = {"keep_dims": True}, (np.array([1, 2], np.int32),)
    case = OperatorCase(Mean((1, 2), True), (Operand(x, value=value),), out, "MEAN", options, attributes)
    found = {mode: codes.ravel()[[0, 1, 2, 3, 16]].tolist() for mode, codes in case.check(oracle).items()}
    assert found == {
        "reference": [1, -1, 2, -2, -1],
        "builtin": [1, 0, 2, -1, -1],
        "xnnpack": [0, 0, 2, -2, 0],
    }


def test_rank_seven_does_not_load_in_xnnpack(oracle: Oracle) -> None:
    draw = Draw.of(2)
    x = draw.tensor("int8", (1, 2, 3, 1, 2, 1, 3), 0.5)
    assert list(mean_case(draw.fed(x), (1, 2), [1, 2], draw, 0.3, False).check(oracle)) == [
        "reference",
        "builtin",
    ]


X = quantized("int8", (2, 3, 4), 1.0, 0)


@pytest.mark.parametrize(
    ("label", "op", "out"),
    [
        ("C1", Mean((1,)), quantized("uint8", (2, 4), 1.0, 0)),
        ("C2", Mean((1, 1)), X.with_shape((2, 4))),
        ("C2", Mean((2, 1)), X.with_shape((2,))),
        ("C2", Mean((-1,)), X.with_shape((2, 3))),
        ("C2", Mean((3,)), X),
        ("C3", Mean((1,)), X.with_shape((2, 1, 4))),
        ("C3", Mean((1,), keep_dims=True), X.with_shape((2, 4))),
    ],
)
def test_constraints(label: str, op: Mean, out: TensorType) -> None:
    Mean((1,)).verify(Call((X,), (X.with_shape((2, 4)),)))
    with pytest.raises(VerifyError, match=label):
        op.verify(Call((X,), (out,)))


@pytest.mark.parametrize(("shape", "axes"), [((2, 1, 3), (1,)), ((1, 3, 1), (-1, 0)), ((1,), (0,))])
@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_a_product_over_single_elements(
    dtype: str, shape: tuple[int, ...], axes: tuple[int, ...], oracle: Oracle
) -> None:
    """Reference rescales the codes; the other kernels copy them."""
    model = ModelBuilder()
    x, y = model.tensor(shape, dtype, 0.05), model.tensor(shape, dtype, 0.03)
    model.operator(
        "REDUCE_PROD",
        [x, model.tensor((len(axes),), "int32", data=np.array(axes))],
        [y],
        2,
        keep_dims=True,
    )
    file = model.build([x], [y])
    codes = np.arange(-40, 60)[: int(np.prod(shape))].reshape(shape).astype(dtype)
    for mode in X86_NUMERICS:
        (wanted,) = oracle.run(file, [codes], mode).outputs
        (found,) = qimport.compile(file, numerics=mode).run([codes])
        assert found.tobytes() == wanted.tobytes(), mode
