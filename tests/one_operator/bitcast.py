"""BITCAST."""

from __future__ import annotations

import numpy as np

from qimport.ir.types import TensorType
from qimport.qnn.bitcast import ELEMENTS, Bitcast
from tests.cases import Draw, Operand, OperatorCase
from tests.one_operator.model import OneOperator, generator


def bitcast_case(draw: Draw) -> OperatorCase:
    """Any two element types; smaller ones in groups that make a larger one."""
    source = draw.pick(*ELEMENTS)
    target = draw.pick(*(dtype for dtype in ELEMENTS if dtype != "bool"))
    sizes = TensorType(source, ()).itemsize, TensorType(target, ()).itemsize
    group = (sizes[1] // sizes[0],) if sizes[0] < sizes[1] else ()
    x = TensorType(source, (*draw.pick((), (3,), (2, 3), (1, 2, 3)), *group))
    data = draw.rng.integers(0, 2 if source == "bool" else 256, x.nbytes, np.uint8).view(x.numpy)
    shape = Bitcast.result_shape(x, TensorType(target, ()))
    assert shape is not None
    operand = Operand(x, value=data.reshape(x.shape))
    return OperatorCase(Bitcast(), (operand,), TensorType(target, shape), "BITCAST", version=1)


@generator("BITCAST")
def bitcast(draw: Draw) -> OneOperator:
    """Bytes read as something else."""
    return OneOperator.of(bitcast_case(draw))
