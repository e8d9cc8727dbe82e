"""ATAN2."""

from __future__ import annotations

import numpy as np

from qimport.ir.graph import Array
from tests.cases import Draw
from tests.one_operator.model import OneOperator, generator
from tests.one_operator.plain import dimensions, one_operator


def coordinates(draw: Draw, shape: tuple[int, ...]) -> Array:
    """Any magnitude, zeros and infinities of both signs, small whole numbers, which lie on diagonals."""
    wide = draw.rng.standard_normal(shape) * 10.0 ** draw.rng.uniform(-20, 20, shape)
    near = draw.rng.standard_normal(shape)
    edges = draw.rng.choice([0.0, -0.0, 1.0, -1.0, 2.0, np.inf, -np.inf], shape)
    return np.asarray(np.choose(draw.rng.integers(0, 3, shape), [wide, near, edges])).astype(np.float32)


@generator("ATAN2")
def atan2(draw: Draw) -> OneOperator:
    """Both operands of one shape."""
    shape = dimensions(draw)
    return one_operator(draw, "ATAN2", (coordinates(draw, shape), coordinates(draw, shape)), "float32")
