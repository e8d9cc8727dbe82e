"""SEGMENT_SUM and UNSORTED_SEGMENT_SUM, _PROD, _MAX, _MIN."""

from __future__ import annotations

import numpy as np

from qimport.ir.graph import Array
from tests.cases import Draw
from tests.flatbuffer_builder import ModelBuilder
from tests.one_operator.float_weighted import floats
from tests.one_operator.model import OneOperator, generator


def rows(draw: Draw, shape: tuple[int, ...]) -> Array:
    """int32 of any size, so that they wrap, or floats."""
    if draw.pick(True, False):
        return draw.rng.integers(-(2**31), 2**31, shape).astype(np.int32)
    return floats(draw, shape)


def unsorted(draw: Draw, builtin: str) -> OneOperator:
    """Numbers of one or two dimensions, negative ones too, known or not."""
    lead, inner = draw.pick((5,), (2, 3), (1,)), draw.pick((), (3,), (2, 4))
    segments = int(draw.rng.integers(1, 6))
    x = rows(draw, (*lead, *inner))
    numbers = draw.rng.integers(-2, segments, lead).astype(np.int32)
    model, known = ModelBuilder(), bool(draw.pick(True, False))
    first = model.tensor(x.shape, x.dtype.name)
    second = model.tensor(lead, "int32", data=numbers if known else None)
    third = model.tensor((), "int32", data=np.array(segments, np.int32))
    out = model.tensor((segments, *inner), x.dtype.name)
    model.operator(builtin, [first, second, third], [out])
    file = model.build([first] if known else [first, second], [out])
    return OneOperator(file, ([x] if known else [x, numbers],), f"{x.dtype} {x.shape}, {numbers.tolist()}")


@generator("SEGMENT_SUM")
def segment_sum(draw: Draw) -> OneOperator:
    """Constant numbers, as the shape of the result depends on them."""
    steps = draw.rng.integers(0, 2, int(draw.rng.integers(1, 7)))
    steps[0] = 0
    numbers, inner = steps.cumsum().astype(np.int32), draw.pick((), (3,), (2, 4))
    x = rows(draw, (len(numbers), *inner))
    model = ModelBuilder()
    first = model.tensor(x.shape, x.dtype.name)
    second = model.tensor(numbers.shape, "int32", data=numbers)
    out = model.tensor((int(numbers[-1]) + 1, *inner), x.dtype.name)
    model.operator("SEGMENT_SUM", [first, second], [out])
    return OneOperator(model.build([first], [out]), ([x],), f"{x.dtype} {x.shape}, {numbers.tolist()}")


for _kind in ("SUM", "PROD", "MAX", "MIN"):
    _name = f"UNSORTED_SEGMENT_{_kind}"
    generator(_name)(lambda draw, name=_name: unsorted(draw, name))
