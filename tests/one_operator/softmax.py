"""SOFTMAX, LOG_SOFTMAX and normalizations along rows."""

from __future__ import annotations

from functools import partial

import numpy as np

from qimport.ir.types import INTEGER_RANGE, TensorType
from qimport.qnn import l2_normalization, log_softmax
from qimport.qnn.base import QnnOperation
from qimport.qnn.l2_normalization import L2Normalization
from qimport.qnn.local_response_normalization import LocalResponseNormalization
from qimport.qnn.log_softmax import LogSoftmax
from qimport.qnn.softmax import Softmax, result_quantization
from tests.cases import Draw, Operand, OperatorCase
from tests.one_operator.model import OneOperator, generator
from tests.single_op import quantized


def row_shape(draw: Draw) -> tuple[int, ...]:
    """Up to 4 dimensions, of which the last is longer."""
    outer = draw.rng.integers(1, 5, int(draw.rng.integers(0, 4)))
    return (*(int(size) for size in outer), int(draw.rng.integers(1, 40)))


def operand(draw: Draw, dtype: str, spread: float) -> Operand:
    """Codes over the whole range, or close together; floats about 0, ``spread`` wide at most."""
    shape = row_shape(draw)
    if dtype == "float32":
        value = draw.rng.normal(size=shape) * draw.pick(0.1, 1, 1, spread)
        return Operand(TensorType(dtype, shape), value=value.astype(np.float32))
    scale = draw.scale() / 200 if dtype == "int16" else draw.scale(*draw.pick((0.01, 0.3), (1e-4, 3.0)))
    zero = 0 if dtype == "int16" else draw.zero_point(dtype)
    type_ = quantized(dtype, shape, scale, zero)
    codes = draw.codes(type_)
    if draw.rng.random() < 0.3:
        codes = (codes // 16 + int(draw.rng.integers(0, 7))).astype(codes.dtype)
    return Operand(type_, value=codes)


def case_of(op: QnnOperation, x: Operand, out: TensorType, **options: object) -> OneOperator:
    """A model with the bound of each mode."""
    return OneOperator.of(OperatorCase(op, (x,), out, op.TFLITE[0], options, version=1))


def softmax(dtype: str, result: str, draw: Draw) -> OneOperator:
    """Results of the one scale there is, or, from 8 to 16 bits, of any."""
    x = operand(draw, dtype, 4)
    beta = float(np.float32(draw.pick(1.0, 1.0, 1.0, 0.5, 2.0, draw.rng.uniform(0.1, 3))))
    out = x.type
    if result != "float32" and result_quantization(dtype, result) is None:
        scale = draw.pick(2**-15, 2**-16, 1 / 65535, 2**-8, float(np.exp(draw.rng.uniform(-20, 3))))
        out = quantized(result, x.type.shape, scale, draw.pick(0, -(2**15), draw.zero_point(result)))
    elif result != "float32":
        count = 2**15 if result == "int16" else 2**8
        zero = 0 if result == "int16" else INTEGER_RANGE[result][0]
        out = quantized(result, x.type.shape, (1 + draw.pick(0, 0, 0, 9e-4, -9e-4)) / count, zero)
    return case_of(Softmax(beta), x, out, beta=beta)


for _pair in ("int8 int8", "uint8 uint8", "int8 int16", "uint8 int16", "int16 int16", "float32 float32"):
    generator(f"SOFTMAX {_pair}")(partial(softmax, *_pair.split()))


def along_rows(
    op: QnnOperation, results: dict[str, tuple[float, int]], dtype: str, draw: Draw
) -> OneOperator:
    """Results of the one quantization there is."""
    x = operand(draw, dtype, 1)
    out = x.type if dtype == "float32" else quantized(dtype, x.type.shape, *results[dtype])
    return case_of(op, x, out)


for _dtype in ("int8", "uint8", "float32"):
    generator(f"LOG_SOFTMAX {_dtype}")(partial(along_rows, LogSoftmax(), log_softmax.RESULT, _dtype))
    generator(f"L2_NORMALIZATION {_dtype}")(
        partial(along_rows, L2Normalization(), l2_normalization.RESULT, _dtype)
    )


@generator("LOCAL_RESPONSE_NORMALIZATION")
def local_response_normalization(draw: Draw) -> OneOperator:
    """Any radius, also beyond the channels."""
    shape = tuple(int(size) for size in draw.rng.integers(1, 5, 3))
    type_ = TensorType("float32", (*shape, int(draw.rng.integers(1, 20))))
    radius = int(draw.pick(0, 1, 2, 5, 30))
    bias, alpha = draw.pick(1.0, 2.0), draw.pick(1.0, 1e-4, 0.5)
    beta = draw.pick(0.5, 0.75, 1.0, 0.3)
    numbers = {"bias": bias, "alpha": alpha, "beta": beta}
    op = LocalResponseNormalization(radius, *(float(np.float32(value)) for value in numbers.values()))
    x = Operand(type_, value=draw.rng.normal(size=type_.shape).astype(np.float32))
    return case_of(op, x, type_, radius=radius, **numbers)
