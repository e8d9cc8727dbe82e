"""Functions of one float32, equal on every target: their steps, and the table of all of them."""

from __future__ import annotations

from functools import partial
from typing import Literal

import numpy as np
import numpy.typing as npt

from qimport.real import (
    activation,
    circular,
    eigen,
    elementary,
    error_function,
    estimate,
    fdlibm,
    glibc,
    rounding,
    steps,
    xnnpack,
)
from qimport.real.steps import Function, Lanes, Steps

Kind = Literal[
    "abs",
    "ceil",
    "cos",
    "cos_of_quotient",
    "elu",
    "elu_of_polynomial",
    "erfc",
    "exp",
    "exp_in_packets",
    "exp_of_difference",
    "exp_of_quotient",
    "expm1",
    "floor",
    "gelu",
    "gelu_by_element",
    "gelu_by_tanh",
    "gelu_in_packets",
    "gelu_of_quotient",
    "gelu_tanh",
    "gelu_tanh_of_quotient",
    "hard_swish",
    "hard_swish_by_gate",
    "hard_swish_by_sixth",
    "hard_swish_sixth_last",
    "log",
    "log_of_quotient",
    "logistic",
    "logistic_by_cases",
    "logistic_by_element",
    "logistic_by_powers",
    "logistic_in_packets",
    "logistic_of_table",
    "neg",
    "neg_by_sub",
    "relu",
    "relu6",
    "relu_0_to_1",
    "relu_n1_to_1",
    "rint",
    "round",
    "rsqrt",
    "rsqrt_of_estimate",
    "sign",
    "sin",
    "sin_of_quotient",
    "sqrt",
    "sqrt_of_estimate",
    "square",
    "tanh",
    "tanh_of_quotient",
    "tanh_rational",
]
"""Names of the functions."""


FUNCTIONS64: dict[str, Function] = {
    name: getattr(elementary, name) for name in ("exp", "log", "logistic")
} | {"sqrt": rounding.square_root}
"""Functions as float64 steps, for arguments in the range of float32: with a relative error below 2^-45.

``sqrt`` is correctly rounded.
"""


def _rounded(function: Function, at: Steps, x: Lanes) -> Lanes:
    return at.rounded(function, x)


_ROUNDED: dict[str, Function] = {
    **{name: function for name, function in FUNCTIONS64.items() if name != "sqrt"},
    "cos": circular.cos,
    "exp": glibc.exp,
    "log": glibc.log,
    "sin": circular.sin,
}

FUNCTIONS: dict[str, Function] = {
    "abs": steps.absolute,
    "ceil": rounding.ceil,
    "cos_of_quotient": xnnpack.cos,
    "elu": activation.elu,
    "elu_of_polynomial": xnnpack.elu,
    "erfc": error_function.erfc,
    "exp_in_packets": eigen.exp_in_packets,
    "exp_of_difference": xnnpack.exp_of_difference,
    "exp_of_quotient": xnnpack.exp,
    "expm1": fdlibm.expm1,
    "floor": rounding.floor,
    "gelu": activation.gelu,
    "gelu_by_element": eigen.gelu_by_element,
    "gelu_by_tanh": eigen.gelu_by_tanh,
    "gelu_in_packets": eigen.gelu_in_packets,
    "gelu_of_quotient": xnnpack.gelu,
    "gelu_tanh": activation.gelu_tanh,
    "gelu_tanh_of_quotient": xnnpack.gelu_tanh,
    "hard_swish": activation.hard_swish,
    "hard_swish_by_gate": activation.hard_swish_by_gate,
    "hard_swish_by_sixth": activation.hard_swish_by_sixth,
    "hard_swish_sixth_last": activation.hard_swish_sixth_last,
    "log_of_quotient": xnnpack.log,
    "logistic_by_cases": activation.logistic_by_cases,
    "logistic_by_element": eigen.logistic_by_element,
    "logistic_by_powers": xnnpack.logistic,
    "logistic_in_packets": eigen.logistic_in_packets,
    "logistic_of_table": activation.logistic_of_table,
    "neg": steps.negative,
    "neg_by_sub": steps.difference_from_zero,
    "relu": activation.relu,
    "relu6": activation.relu6,
    "relu_0_to_1": activation.relu_0_to_1,
    "relu_n1_to_1": activation.relu_n1_to_1,
    "rint": rounding.nearest_even,
    "round": rounding.nearest_even_upwards,
    "rsqrt": activation.reciprocal_square_root,
    "rsqrt_of_estimate": estimate.reciprocal_square_root,
    "sign": rounding.sign,
    "sin_of_quotient": xnnpack.sin,
    "sqrt": rounding.square_root,
    "sqrt_of_estimate": estimate.square_root,
    "square": activation.square,
    "tanh": fdlibm.tanh,
    "tanh_of_quotient": xnnpack.tanh,
    "tanh_rational": eigen.tanh_rational,
    **{name: partial(_rounded, function) for name, function in _ROUNDED.items()},
}
"""Each function as float32 steps."""


def apply(kind: Kind, x: npt.ArrayLike) -> npt.NDArray[np.float32]:
    """Function ``kind`` of a float32 array."""
    return steps.run(FUNCTIONS[kind], x)


def apply64(kind: Kind, x: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Function ``kind`` of a float64 array, not rounded to float32."""
    with np.errstate(all="ignore"):
        return np.asarray(FUNCTIONS64[kind](steps.NumPySteps(np.float64), np.asarray(x, np.float64)))


def power(x: npt.ArrayLike, exponent: float) -> npt.NDArray[np.float32]:
    """x^exponent of float32 x > 0: exp(exponent * log x) in float64, then rounded."""
    with np.errstate(all="ignore"):
        return apply64("exp", apply64("log", x) * np.float64(exponent)).astype(np.float32)
