"""``qnn.arithmetic``: operators of two tensors of floats, plain integers or booleans."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np
import numpy.typing as npt

from qimport.elements import broadcast, quotient, remainder
from qimport.ir.check import require
from qimport.ir.graph import Array, Call, operation
from qimport.qnn.base import QnnOperation
from qimport.qnn.requantization import ACTIVATIONS

Numbers = npt.NDArray[Any]

INT_SIZES = ("int8", "int16", "int32")
UNSIGNED = ("uint8", "uint32")

MAX_DELEGATED_RANK = 6


@dataclass(frozen=True)
class Kind:
    """What one kind computes, on which element types, and whether its operator has a fused activation."""

    function: Callable[[Any, Any], Any]
    dtypes: tuple[str, ...]
    tflite: str
    activated: bool = False
    delegated: bool = False


def _floor_divide(a: Numbers, b: Numbers) -> Numbers:
    """Integers downward; float32 as the floor of the float64 quotient."""
    if a.dtype == np.float32:
        return np.asarray(np.floor(a.astype(np.float64) / b.astype(np.float64)), np.float32)
    nearer, rest = quotient(a, b), remainder(a, b)
    return np.asarray(nearer - ((rest != 0) & ((rest < 0) != (b < 0))), a.dtype)


def _floor_modulo(a: Numbers, b: Numbers) -> Numbers:
    rest = remainder(a, b)
    return np.asarray(np.where((rest != 0) & ((rest < 0) != (b < 0)), rest + b, rest), a.dtype)


def _shift_right(a: Numbers, b: Numbers) -> Numbers:
    return np.asarray(np.right_shift(a, np.clip(b, 0, 8 * a.itemsize - 1)))


def _squared_difference(a: Numbers, b: Numbers) -> Numbers:
    return np.asarray((a - b) * (a - b))


def _maximum(a: Numbers, b: Numbers) -> Numbers:
    return np.where(a > b, a, b)


def _minimum(a: Numbers, b: Numbers) -> Numbers:
    return np.where(a < b, a, b)


HALF = "float16"
"""A type whose numbers are computed as float32, every result being rounded."""

FLOATS = ("float32", HALF)
_MATH = ("int32", "int64", *FLOATS)
_CODES = ("int8", "uint8", "int16", *_MATH)
_BITS = (*INT_SIZES, *UNSIGNED)

KINDS: dict[str, Kind] = {
    "add": Kind(np.add, _MATH, "ADD", True, True),
    "sub": Kind(np.subtract, _MATH, "SUB", True, True),
    "mul": Kind(np.multiply, (*_MATH, "uint32"), "MUL", True, True),
    "div": Kind(
        lambda a, b: a / b if a.dtype.kind == "f" else quotient(a, b),
        ("int32", *FLOATS),
        "DIV",
        True,
        True,
    ),
    "floor_div": Kind(_floor_divide, (*INT_SIZES, "float32"), "FLOOR_DIV"),
    "floor_mod": Kind(_floor_modulo, (*INT_SIZES, "int64", "float32"), "FLOOR_MOD"),
    "maximum": Kind(_maximum, _CODES, "MAXIMUM", delegated=True),
    "minimum": Kind(_minimum, _CODES, "MINIMUM", delegated=True),
    "squared_difference": Kind(_squared_difference, ("int32", *FLOATS), "SQUARED_DIFFERENCE", delegated=True),
    "and": Kind(np.logical_and, ("bool",), "LOGICAL_AND"),
    "or": Kind(np.logical_or, ("bool",), "LOGICAL_OR"),
    "xor": Kind(np.bitwise_xor, _BITS, "BITWISE_XOR"),
    "shift_right": Kind(_shift_right, _BITS, "RIGHT_SHIFT"),
}
"""Every kind by name."""


@operation
@dataclass(frozen=True)
class Arithmetic(QnnOperation):
    """Two operands of one element type that broadcast as in NumPy; quantizations are not looked at.

    Results are rounded to the element type, integers wrap:

        add, sub, mul, div     div of integers: toward zero
        floor_div, floor_mod   downward; floor_div of float32: the floor of the float64 quotient;
                               floor_mod: C's remainder r, or r + b where r is not 0 and has not b's sign
        maximum, minimum       a > b ? a : b, a < b ? a : b, of codes as they are; see :meth:`swaps`
        squared_difference     (a - b) * (a - b)
        and, or, xor           of each bit
        shift_right            by min(max(b, 0), width - 1), with the sign of signed types

    The interpreter fails at an integer division by zero, which gives 0 here.
    A fused activation of add, sub, mul and div clamps. Without one, results of floats are still clamped to
    finite numbers (``ActivationFunctionWithMinMax``), except by the delegate, which takes floats with up to
    6 dimensions. NaN stays, but the delegate makes it and -0 of float16 the lower bound of an activation. In
    mode xnnpack the delegate's arithmetic replaces denormal numbers of float32 by zeros; qimport keeps them.
    Classic kernels know float16 for add, mul, maximum and minimum only; others are computed alike.

    C1 operands and result have one of the element types of the kind. C2 the shapes broadcast to the result's.
    C3 the kind is one of :data:`KINDS`. C4 the activation is one of the schema's; NONE for uint32 and for
    kinds without activation.
    """

    NAME = "qnn.arithmetic"
    TFLITE = tuple(kind.tflite for kind in KINDS.values())

    kind: str
    activation: str = "NONE"

    def verify(self, call: Call) -> None:
        """Check C1-C4."""
        a, b, out = call.input(0), call.input(1), call.output
        require(self.kind in KINDS, "C3", f"there is no kind {self.kind}")
        form = KINDS[self.kind]
        alike = a.dtype == b.dtype == out.dtype and out.dtype in form.dtypes
        require(alike, "C1", f"{self.kind} needs operands of one type of {', '.join(form.dtypes)}")
        shape = broadcast(a.shape, b.shape)
        require(shape == out.shape, "C2", f"{a.shape} and {b.shape} do not give {out.shape}")
        fits = form.activated and out.dtype != "uint32" and self.activation in ACTIVATIONS
        require(self.activation == "NONE" or fits, "C4", f"activation {self.activation} of {self.kind}")

    def xnnpack_takes(self, call: Call) -> bool:
        """Kinds on floats but division with rest, with up to 6 dimensions."""
        ranks = (len(call.input(0).shape), len(call.input(1).shape), len(call.output.shape))
        return KINDS[self.kind].delegated and call.output.dtype in FLOATS and max(ranks) <= MAX_DELEGATED_RANK

    def bounds(self, call: Call) -> tuple[float | None, float | None]:
        """What results are clamped to; None: not at all."""
        if not KINDS[self.kind].activated:
            return None, None
        low, high = _BOUNDS[self.activation]
        if call.output.dtype in FLOATS and self.kernel_family(call) != "xnnpack":
            largest = float(np.finfo(np.dtype(call.output.dtype)).max)
            return -largest if low is None else low, largest if high is None else high
        return low, high

    def forgets_nan(self, call: Call) -> bool:
        """Whether what is not greater than the lower bound becomes that bound."""
        return call.output.dtype == HALF and self.kernel_family(call) == "xnnpack"

    def swaps(self, call: Call) -> bool:
        """Whether maximum and minimum take a where neither is better, instead of b.

        So does the delegate where a repeats along the innermost dimension that is not 1.
        """
        if self.kind not in ("maximum", "minimum") or self.kernel_family(call) != "xnnpack":
            return False
        a, b = (call.input(index).shape[::-1] for index in (0, 1))
        pairs = zip_longest(a, b, fillvalue=1)
        return next((left == 1 for left, right in pairs if max(left, right) > 1), False)

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """The docstring's formula."""
        low, high = self.bounds(call)
        order = (1, 0) if self.swaps(call) else (0, 1)
        operands = (call.array(index) for index in order)
        with np.errstate(all="ignore"):
            result = np.asarray(KINDS[self.kind].function(*operands), call.output.numpy)
        if low is not None:
            below = ~(result > low) if self.forgets_nan(call) else result < low
            result = np.where(below, np.asarray(low, result.dtype), result)
        if high is not None:
            result = np.where(result > high, np.asarray(high, result.dtype), result)
        return (result,)


_BOUNDS: dict[str, tuple[float | None, float | None]] = {
    "NONE": (None, None),
    "RELU": (0, None),
    "RELU6": (0, 6),
    "RELU_N1_TO_1": (-1, 1),
    "RELU_0_TO_1": (0, 1),
}


@operation
@dataclass(frozen=True)
class LogicalNot(QnnOperation):
    """Whether a bool is false.

    C1 operand and result are bool, of one shape.
    """

    NAME = "qnn.logical_not"
    TFLITE = ("LOGICAL_NOT",)

    def verify(self, call: Call) -> None:
        """Check C1."""
        x, out = call.input(0), call.output
        require(x.dtype == out.dtype == "bool" and x.shape == out.shape, "C1", "needs bool of one shape")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """``numpy.logical_not``."""
        return (np.asarray(np.logical_not(call.array(0))),)


@operation
@dataclass(frozen=True)
class AddN(QnnOperation):
    """The sum of any number of tensors, added from left to right; integers wrap.

    C1 operands and result are all int32 or all float32, and of one shape.
    """

    NAME = "qnn.add_n"
    TFLITE = ("ADD_N",)

    def verify(self, call: Call) -> None:
        """Check C1."""
        out = call.output
        require(out.dtype in ("int32", "float32"), "C1", f"{out} is not int32 or float32")
        for index in range(len(call.inputs)):
            x = call.input(index)
            alike = (x.dtype, x.shape) == (out.dtype, out.shape)
            require(alike, "C1", f"{x} differs from the result {out}")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """NumPy sums of two."""
        total = call.array(0)
        with np.errstate(all="ignore"):
            for index in range(1, len(call.inputs)):
                total = np.asarray(np.add(total, call.array(index)), call.output.numpy)
        return (total,)
