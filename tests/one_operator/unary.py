"""Functions of one tensor: every element type each has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from qimport.ir.graph import Array
from qimport.ir.types import INTEGER_RANGE, TensorType
from qimport.qnn.hard_swish import HardSwish
from qimport.qnn.prelu import SLOPES, Prelu
from qimport.qnn.real_function import REAL_FUNCTIONS
from qimport.qnn.relu import RELU_FAMILY, LeakyRelu
from qimport.qnn.root import Rsqrt, Sqrt
from qimport.qnn.sign import Abs, Neg, Sign
from qimport.qnn.tabulated import Elu, Exp, Gelu, Log, Logistic, Tanh
from qimport.qnn.unary import QUANTIZED, UnaryOperation
from tests.cases import Draw, Operand, OperatorCase
from tests.one_operator.model import OneOperator, generator
from tests.single_op import all_codes, quantized

Make = Callable[[Draw], UnaryOperation]

POSITIVE = (Sqrt, Rsqrt)
"""The interpreter fails for numbers below 0."""

REAL_RANGES: dict[type[UnaryOperation], tuple[float, float]] = {
    Exp: (-110.0, 95.0),
    Gelu: (-9.0, 8.0),
    Log: (0.001, 30.0),
    Rsqrt: (0.001, 30.0),
    Sqrt: (0.0, 30.0),
}
"""Where float32 operands lie; elsewhere within 12 of 0."""


def small_shape(draw: Draw, least: int = 0) -> tuple[int, ...]:
    """Up to 5 dimensions, sometimes none."""
    rank = int(draw.rng.integers(least, 6))
    return tuple(int(size) for size in draw.rng.integers(1, 6, rank))


def fed_codes(draw: Draw, dtype: str, zero: int, positive: bool) -> Array:
    """Every 8-bit code and some more; int16 at random, with the ends."""
    if dtype == "int16":
        codes = draw.rng.integers(-(2**15), 2**15, 300).astype(np.int16)
        codes[:4] = (-(2**15), 2**15 - 1, 0, 1)
    else:
        codes = all_codes(dtype, int(draw.rng.integers(0, 40)))
    return np.maximum(codes, np.array(zero, dtype)) if positive else codes


def wide_scale(draw: Draw) -> float:
    """Now and then far from what is usual."""
    return draw.scale(*draw.pick((0.002, 0.3), (0.002, 0.3), (0.002, 0.3), (1e-5, 1e-3), (0.3, 20.0)))


def quantized_types(draw: Draw, op: UnaryOperation, dtype: str, size: int) -> tuple[TensorType, TensorType]:
    """Operand and result."""
    zeros = [0 if dtype == "int16" else draw.zero_point(dtype) for _ in range(2)]
    before, after = wide_scale(draw), wide_scale(draw)
    if isinstance(op, Sqrt | Rsqrt):
        zeros[0] = min(zeros[0], 100) if dtype == "int8" else zeros[0]
    if isinstance(op, HardSwish):
        after = max(after, draw.near(before / 64))
    if isinstance(op, Abs | LeakyRelu) and draw.rng.random() < 0.5:
        after = before
    if isinstance(op, Logistic):
        after = 2.0**-15 if dtype == "int16" else 2.0**-8
    if dtype == "int16" and not op.CENTRED:
        zeros = [int(zero) for zero in draw.rng.integers(-5000, 5000, 2)]
    if dtype == "int16":
        before = draw.pick(2.0**-12, 2.0**-11, before / 200, before / 200)
        after = 2.0**-15 if isinstance(op, Tanh | Logistic) else after / 100
    return quantized(dtype, (size,), before, zeros[0]), quantized(dtype, (size,), after, zeros[1])


def quantized_case(make: Make, dtype: str, draw: Draw) -> OperatorCase:
    """All codes of one quantization."""
    op = make(draw)
    size = fed_codes(draw, dtype, 0, False).size
    x, out = quantized_types(draw, op, dtype, size)
    codes = np.resize(fed_codes(draw, dtype, x.quant.zero_point, isinstance(op, POSITIVE)), size)
    return unary_case(op, Operand(x, value=codes), out)


def unary_case(op: UnaryOperation, x: Operand, out: TensorType) -> OperatorCase:
    """The operator as every mode knows it."""
    return OperatorCase(op, (x,), out, op.TFLITE[0], options(op), version=1)


def options(op: UnaryOperation) -> dict[str, object]:
    """The attributes as the file has them."""
    return {name: getattr(op, name) for name in ("alpha", "approximate") if hasattr(op, name)}


def float_case(make: Make, draw: Draw) -> OperatorCase:
    """Numbers of every size that the function is for."""
    op, shape = make(draw), small_shape(draw)
    low, high = REAL_RANGES.get(type(op), (-12.0, 12.0))
    x = draw.rng.uniform(low, high, shape)
    x = np.where(draw.rng.random(shape) < 0.3, np.clip(np.rint(x * 2) / 2, low, high), x)
    type_ = TensorType("float32", shape)
    operand = Operand(type_, value=np.asarray(x, np.float32))
    return unary_case(op, operand, type_)


def integer_case(make: Make, dtype: str, draw: Draw) -> OperatorCase:
    """Numbers that are no codes."""
    op, shape = make(draw), small_shape(draw)
    type_ = TensorType(dtype, shape)
    lowest, highest = INTEGER_RANGE.get(dtype, (-9, 9))
    x = draw.rng.integers(lowest, highest, shape, endpoint=True) >> int(draw.rng.integers(0, 31))
    operand = Operand(type_, value=np.asarray(x, type_.numpy))
    return unary_case(op, operand, type_)


def _leaky(draw: Draw) -> UnaryOperation:
    alpha = draw.pick(0.0, 0.1, 0.2, 0.3, 1.0, -0.5, 1.7, draw.rng.uniform(-2, 2))
    return LeakyRelu(float(np.float32(alpha)))


MAKE: dict[type[UnaryOperation], Make] = {
    LeakyRelu: _leaky,
    Gelu: lambda draw: Gelu(bool(draw.rng.integers(2))),
}
KINDS: Sequence[type[UnaryOperation]] = (
    *(Abs, Elu, Exp, Gelu, HardSwish, LeakyRelu, Log, Logistic, Neg, Rsqrt, Sign, Sqrt, Tanh),
    *RELU_FAMILY,
    *REAL_FUNCTIONS,
)


def _default(kind: type[UnaryOperation], _draw: Draw) -> UnaryOperation:
    return kind()


def drawn(kind: type[UnaryOperation], dtype: str, draw: Draw) -> OperatorCase:
    """A case of one operation and element type."""
    make = MAKE.get(kind, partial(_default, kind))
    if dtype == "float32":
        return float_case(make, draw)
    case = quantized_case if dtype in QUANTIZED else integer_case
    return case(make, dtype, draw)


def _generated(kind: type[UnaryOperation], dtype: str, draw: Draw) -> OneOperator:
    return OneOperator.of(drawn(kind, dtype, draw))


for _kind in KINDS:
    for _dtype in _kind.TYPES:
        generator(f"{_kind.TFLITE[0]} {_dtype}")(partial(_generated, _kind, _dtype))


def slopes(draw: Draw, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape that stretches to ``shape``: some of its last dimensions, some of them 1."""
    rank = int(draw.rng.integers(1, len(shape) + 1))
    return tuple(int(draw.pick(1, size, size)) for size in shape[len(shape) - rank :])


def prelu_case(dtype: str, draw: Draw) -> OperatorCase:
    """Alpha constant or fed, of any shape that stretches."""
    shape = tuple(int(size) for size in draw.rng.integers(1, 6, int(draw.rng.integers(1, 5))))
    stretched = slopes(draw, shape)
    if dtype == "float32":
        x, alpha = TensorType(dtype, shape), TensorType(dtype, stretched)
        value, slope = (draw.rng.normal(size=t.shape).astype(np.float32) for t in (x, alpha))
        out = x
    else:
        x, out = draw.tensor(dtype, shape), draw.tensor(dtype, shape)
        alpha = draw.tensor(SLOPES[dtype], stretched, draw.scale(0.001, 0.1))
        if dtype == "int16":
            x, out = (
                quantized(dtype, shape, draw.scale() / 99, 0),
                quantized(dtype, shape, draw.scale() / 99, 0),
            )
        value, slope = draw.codes(x), draw.codes(alpha)
    constant = Operand(alpha, data=slope) if draw.rng.random() < 0.7 else Operand(alpha, value=slope)
    return OperatorCase(Prelu(), (Operand(x, value=value), constant), out, "PRELU", version=1)


def _prelu(dtype: str, draw: Draw) -> OneOperator:
    return OneOperator.of(prelu_case(dtype, draw))


for _dtype in SLOPES:
    generator(f"PRELU {_dtype}")(partial(_prelu, _dtype))
