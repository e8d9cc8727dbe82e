"""Activation functions of float32, step by step as the kernels of the interpreter compute them."""

from __future__ import annotations

import numpy as np

from qimport.real.error_function import erfc
from qimport.real.fdlibm import expm1, tanh
from qimport.real.glibc import exp
from qimport.real.steps import Lanes, Steps, negative, settled


def _f32(value: float) -> float:
    return float(np.float32(value))


def relu(at: Steps, x: Lanes) -> Lanes:
    """max(x, 0); -0 and NaN stay."""
    return at.choose(x < 0.0, 0.0, x)


def relu6(at: Steps, x: Lanes) -> Lanes:
    """min(max(x, 0), 6)."""
    return at.choose(x > 6.0, 6.0, relu(at, x))


def relu_n1_to_1(at: Steps, x: Lanes) -> Lanes:
    """min(max(x, -1), 1)."""
    return at.choose(x > 1.0, 1.0, at.choose(x < -1.0, -1.0, x))


def relu_0_to_1(at: Steps, x: Lanes) -> Lanes:
    """min(max(x, 0), 1)."""
    return at.choose(x > 1.0, 1.0, relu(at, x))


def square(at: Steps, x: Lanes) -> Lanes:
    """x * x."""
    return x * x


def reciprocal_square_root(at: Steps, x: Lanes) -> Lanes:
    """1 / sqrt(x), two roundings."""
    return settled(at, x, 1.0 / at.sqrt(x))


def logistic_by_cases(at: Steps, x: Lanes) -> Lanes:
    """``reference_ops::Logistic``: e^x below -9, 1 above 16.619047, 1 / (1 + e^-x) between."""
    middle = 1.0 / (1.0 + at.rounded(exp, negative(at, x)))
    value = at.choose(x < -9.0, at.rounded(exp, x), middle)
    return at.choose(x > _f32(16.619047164916992), 1.0, value)


def logistic_of_table(at: Steps, x: Lanes) -> Lanes:
    """1 / (1 + e^-x) in three roundings, of which the interpreter makes its 8-bit tables."""
    return 1.0 / (1.0 + at.rounded(exp, 0.0 - x))


def elu(at: Steps, x: Lanes) -> Lanes:
    """e^x - 1 below 0, x from there on."""
    return at.choose(x < 0.0, expm1(at, x), x)


def gelu(at: Steps, x: Lanes) -> Lanes:
    """x / 2 * erfc(-x sqrt(1/2))."""
    return settled(at, x, (0.5 * x) * erfc(at, x * -_f32(np.sqrt(0.5))))


def gelu_tanh(at: Steps, x: Lanes) -> Lanes:
    """x / 2 * (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))."""
    cube = _f32(0.044715) * x * x * x
    inner = _f32(0.7978845608028654) * (x + cube)
    return settled(at, x, 0.5 * x * (1.0 + tanh(at, inner)))


def hard_swish(at: Steps, x: Lanes) -> Lanes:
    """``reference_ops::HardSwish``: x * min(max(x + 3, 0), 6) / 6."""
    return settled(at, x, x * relu6(at, x + 3.0) / 6.0)


def hard_swish_by_sixth(at: Steps, x: Lanes) -> Lanes:
    """The optimized kernel in blocks: the product with the float32 nearest to 1/6 comes first."""
    return settled(at, x, (x * _f32(1 / 6)) * relu6(at, x + 3.0))


def hard_swish_sixth_last(at: Steps, x: Lanes) -> Lanes:
    """The optimized kernel on what is left of its blocks: that product comes last."""
    return settled(at, x, (x * relu6(at, x + 3.0)) * _f32(1 / 6))


def hard_swish_by_gate(at: Steps, x: Lanes) -> Lanes:
    """XNNPACK: x * min(max(x / 6 + 1/2, 0), 1), where the inner product and sum are rounded once."""
    gate = at.rounded(lambda _, wide: wide * _f32(1 / 6) + 0.5, x)
    return settled(at, x, x * at.choose(gate > 1.0, 1.0, at.choose(gate < 0.0, 0.0, gate)))
