"""``prim.math``: functions of one float32, equal on every target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from qimport.ir.check import require
from qimport.ir.graph import Array, Call, Operation, operation
from qimport.prim.functions import IN_FLOAT32, IN_FLOAT64

MathKind = Literal[
    "exp",
    "expm1",
    "logistic",
    "tanh",
    "log",
    "sin",
    "cos",
    "erfc",
    "abs",
    "neg",
    "sign",
    "floor",
    "ceil",
    "round",
    "rint",
    "sqrt",
]


class NumPySteps:
    """:class:`qimport.prim.functions.Steps` on NumPy arrays of one element type."""

    def __init__(self, element: type[np.floating[Any]]) -> None:
        self.element = element
        self.mantissa = np.finfo(element).nmant
        self.integer = np.uint64 if self.mantissa == 52 else np.uint32

    def bits(self, value: Array) -> Array:
        """A view."""
        return np.asarray(value, self.element).view(self.integer)

    def floats(self, bits: Array) -> Array:
        """A view."""
        return np.asarray(bits, self.integer).view(self.element)

    def choose(self, condition: Array, yes: Array | float, no: Array | float) -> Array:
        """``numpy.where`` in the element type."""
        return np.asarray(np.where(condition, yes, no), self.element)

    def sqrt(self, value: Array) -> Array:
        """``numpy.sqrt``, which is IEEE's."""
        return np.asarray(np.sqrt(value), self.element)


def math_function(kind: MathKind, x: Array) -> Array:
    """Function ``kind`` of float32 ``x``, as ``prim.math`` specifies it."""
    with np.errstate(all="ignore"):
        if kind in IN_FLOAT64:
            wide = np.asarray(x, np.float64)
            return np.asarray(IN_FLOAT64[kind](NumPySteps(np.float64), wide), np.float32)
        return np.asarray(IN_FLOAT32[kind](NumPySteps(np.float32), np.asarray(x, np.float32)), np.float32)


@operation
@dataclass(frozen=True)
class Math(Operation):
    """A function of each float32 element, by the steps in :mod:`qimport.prim.functions`.

    exp, expm1, logistic, tanh, log, sin, cos, erfc: computed in float64 and rounded, so correctly rounded in
    all but about one case in a million. abs, neg, sign, floor, ceil, rint (ties to even), round (as rint, but
    only zeros give -0) and sqrt are exact or correctly rounded. A NaN gives itself, an invalid operand the
    negative quiet NaN of x86.

    C1 float32 operand and result of one shape. C2 ``kind`` is one of these.
    """

    NAME = "prim.math"

    kind: MathKind

    def verify(self, call: Call) -> None:
        """Check C1, C2."""
        x, out = call.input(0), call.output
        require(x == out and x.dtype == "float32", "C1", "operand and result must be the same float32 type")
        require(self.kind in IN_FLOAT64 or self.kind in IN_FLOAT32, "C2", f"there is no function {self.kind}")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """The steps on NumPy arrays."""
        return (math_function(self.kind, call.array(0)),)
