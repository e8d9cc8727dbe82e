"""CONV_3D and CONV_3D_TRANSPOSE against its lowering and the interpreter."""

from __future__ import annotations

import pytest

from qimport.errors import ModelError
from qimport.oracle import Oracle
from tests.cases import Draw
from tests.importer_models import One, T, integers
from tests.one_operator.conv3d import conv3d_case, conv3d_transpose_case

STRIDES = {"stride_d": 1, "stride_h": 1, "stride_w": 1}


@pytest.mark.parametrize("seed", range(40))
def test_conv3d(seed: int, oracle: Oracle) -> None:
    conv3d_case(Draw.of(seed)).check(oracle)


@pytest.mark.parametrize("seed", range(40))
def test_conv3d_transpose(seed: int, oracle: Oracle) -> None:
    conv3d_transpose_case(Draw.of(seed)).check(oracle)


def conv3d(channels: int = 2, extent: int = 3, **options: int) -> One:
    x, w = T((1, extent, 3, 3, channels), "float32", None), T((2, 2, 2, 2, 4), "float32", None, data=True)
    return One("CONV_3D", [x, w], T((1, 2, 2, 2, 4), "float32", None), options={**STRIDES, **options})


def transposed(wanted: tuple[int, ...]) -> One:
    """x of 2 x 2 x 2 voxels and a window of 2 x 2 x 2 make 3 x 3 x 3."""
    x, w = T((1, 2, 2, 2, 2), "float32", None), T((2, 2, 2, 4, 2), "float32", None, data=True)
    options = {**STRIDES, "padding": "VALID"}
    return One("CONV_3D_TRANSPOSE", [integers(*wanted), w, x], T(wanted, "float32", None), options=options)


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (conv3d(channels=3), r"the weights have shape \(2, 2, 2, 2, 4\) for 3 input channels"),
        (transposed((1, 3, 3, 3, 3)), "the weights have shape"),
        (transposed((1, 4, 3, 3, 4)), "does not come from"),
        (conv3d(stride_h=0), r"stride_\* is \(1, 0, 1\); expected at least 1"),
        (conv3d(dilation_d_factor=0), r"dilation_\*_factor is \(0, 1, 1\); expected at least 1"),
        (
            conv3d(padding="VALID", extent=1),
            r"a window of \(2, 2, 2\) with dilation \(1, 1, 1\) does not fit",
        ),
    ],
)
def test_malformed(model: One, sentence: str) -> None:
    with pytest.raises(ModelError, match=sentence):
        model.load()
