"""RFFT2D, COMPLEX_ABS, REAL and IMAG."""

from __future__ import annotations

from functools import partial

import numpy as np

from qimport.ir.types import TensorType
from qimport.qnn.base import QnnOperation
from qimport.qnn.spectrum import ComplexAbs, Imag, Real, Rfft2d
from tests.cases import Draw, Operand, OperatorCase
from tests.one_operator.model import OneOperator, generator


def rfft2d_case(draw: Draw) -> OperatorCase:
    """Images that are cut, fit or are too small for the transform."""
    op = Rfft2d(int(draw.pick(1, 1, 2, 4, 8)), int(draw.pick(2, 4, 8, 16, 64)))
    batch = tuple(int(size) for size in draw.rng.integers(1, 4, int(draw.rng.integers(0, 3))))
    sizes = (int(draw.rng.integers(1, 10)), int(draw.rng.integers(1, 70)))
    x = TensorType("float32", (*batch, *draw.pick(sizes, (op.height, op.width))))
    value = draw.rng.normal(size=x.shape).astype(np.float32) * np.float32(draw.pick(1, 1, 1e-6, 1e6))
    lengths = np.array([op.height, op.width], np.int32)
    out = TensorType("complex64", op.result_shape(x.shape))
    return OperatorCase(op, (Operand(x, value=value),), out, "RFFT2D", attributes=(lengths,), version=1)


def complex_case(op: QnnOperation, draw: Draw) -> OperatorCase:
    """Parts of every size; now and then one that is no number."""
    shape = tuple(int(size) for size in draw.rng.integers(1, 6, int(draw.rng.integers(0, 5))))
    sizes = np.exp(draw.rng.normal(size=(2, *shape)) * draw.pick(1, 20))
    parts = np.clip(draw.rng.normal(size=(2, *shape)) * sizes, -3e38, 3e38).astype(np.float32)
    odd = draw.rng.choice([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45], parts.shape)
    parts = np.where(draw.rng.random(parts.shape) < 0.1, odd, parts).astype(np.float32)
    value = np.ascontiguousarray(np.moveaxis(parts, 0, -1)).view(np.complex64)[..., 0]
    x = Operand(TensorType("complex64", shape), value=value)
    return OperatorCase(op, (x,), TensorType("float32", shape), op.TFLITE[0], version=1)


@generator("RFFT2D")
def _rfft2d(draw: Draw) -> OneOperator:
    return OneOperator.of(rfft2d_case(draw))


def _complex(operation: type[QnnOperation], draw: Draw) -> OneOperator:
    return OneOperator.of(complex_case(operation(), draw))


for _operation in (ComplexAbs, Imag, Real):
    generator(_operation.TFLITE[0])(partial(_complex, _operation))
