"""Arithmetic, comparison, choice and conversion of elements: what every processor has an instruction for.

Operands broadcast as in NumPy. ``codegen/arithmetic.py`` has the code of each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from qimport.elements import RELATIONS, Relation, broadcast, convert, quotient, remainder
from qimport.ir.check import require
from qimport.ir.graph import Array, Call, Operation, operation
from qimport.ir.types import INTEGER_RANGE

BinaryKind = Literal[
    "add", "sub", "mul", "div", "rem", "max", "min", "and", "or", "xor", "shift_left", "shift_right"
]

FLOATING = ("float32", "float64")
"""Element types with floating arithmetic; float16 is only a form of storage."""


@operation
@dataclass(frozen=True)
class Binary(Operation):
    """Two operands, one result of the same element type.

    Integers: add, sub, mul (wrapping), max, min, and, or, xor; div toward zero and its rem, which has the
    sign of the first operand; shift_left, shift_right (arithmetic for signed types) by 0 to width - 1 bits.
    Nothing traps: x div 0 and x rem 0 are 0, the smallest number div -1 is itself, rem -1 is 0.
    float32, float64: add, sub, mul, div, each result rounded to that type; max, min (a NaN operand is the
    result; of equal ones, as zeros are, the first). float32 also: rem, C's ``fmodf``. bool: and, or, xor.

    C1 both operands and the result have one element type. C2 the shapes broadcast to the result's.
    C3 the kind exists on that type.
    """

    NAME = "prim.binary"

    kind: BinaryKind

    def verify(self, call: Call) -> None:
        """Check C1-C3."""
        a, b, out = call.input(0), call.input(1), call.output
        require(a.dtype == b.dtype == out.dtype, "C1", "element types differ")
        shape = broadcast(a.shape, b.shape)
        require(shape == out.shape, "C2", f"{a.shape} and {b.shape} do not give {out.shape}")
        require(self.kind in _kinds(out.dtype), "C3", f"no {self.kind} on {out.dtype}")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """NumPy, whose integers wrap and whose floats round to their type."""
        with np.errstate(all="ignore"):
            result = _kinds(call.output.dtype)[self.kind](call.array(0), call.array(1))
        return (np.asarray(result, call.output.numpy),)


_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}
_BITWISE: dict[str, Callable[[Any, Any], Any]] = {
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
_INTEGER: dict[str, Callable[[Any, Any], Any]] = {
    **_ARITHMETIC,
    **_BITWISE,
    "div": quotient,
    "rem": remainder,
    "shift_left": np.left_shift,
    "shift_right": np.right_shift,
}
# NumPy's own extrema leave it to the machine which of two zeros they give.
_FLOAT: dict[str, Callable[[Any, Any], Any]] = {
    **_ARITHMETIC,
    "div": np.divide,
    "max": lambda a, b: np.where((a >= b) | np.isnan(a), a, b),
    "min": lambda a, b: np.where((a <= b) | np.isnan(a), a, b),
}
_KINDS: dict[str, dict[str, Callable[[Any, Any], Any]]] = {
    "bool": _BITWISE,
    "float32": {**_FLOAT, "rem": remainder},
    "float64": _FLOAT,
    **dict.fromkeys(INTEGER_RANGE, _INTEGER),
}


def _kinds(dtype: str) -> dict[str, Callable[[Any, Any], Any]]:
    """The kinds that exist on an element type, with their meaning in NumPy."""
    return _KINDS.get(dtype, {})


@operation
@dataclass(frozen=True)
class Compare(Operation):
    """Whether the relation holds, as bool. Comparisons with a NaN are false, except ``not_equal``.

    C1 both operands have one element type, not float16 or complex64; the result is bool. C2 the shapes
    broadcast to the result's. C3 the relation is one of :data:`Relation`.
    """

    NAME = "prim.compare"

    kind: Relation

    def verify(self, call: Call) -> None:
        """Check C1-C3."""
        a, b, out = call.input(0), call.input(1), call.output
        alike = a.dtype == b.dtype not in ("float16", "complex64") and out.dtype == "bool"
        require(alike, "C1", "operands must have one element type, the result bool")
        shape = broadcast(a.shape, b.shape)
        require(shape == out.shape, "C2", f"{a.shape} and {b.shape} do not give {out.shape}")
        require(self.kind in RELATIONS, "C3", f"there is no relation {self.kind}")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """NumPy's comparison of the same name."""
        return (np.asarray(RELATIONS[self.kind](call.array(0), call.array(1)), np.bool_),)


@operation
@dataclass(frozen=True)
class Select(Operation):
    """a where the condition holds, else b; operands are (condition, a, b).

    C1 the condition is bool; a, b and the result have one element type. C2 the shapes broadcast to the
    result's.
    """

    NAME = "prim.select"

    def verify(self, call: Call) -> None:
        """Check C1, C2."""
        condition, a, b, out = call.input(0), call.input(1), call.input(2), call.output
        alike = condition.dtype == "bool" and a.dtype == b.dtype == out.dtype
        require(alike, "C1", "needs a bool and two operands of the result's element type")
        shape = broadcast(condition.shape, a.shape, b.shape)
        require(shape == out.shape, "C2", f"the operands do not give {out.shape}")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """``numpy.where``."""
        chosen = np.where(call.array(0).astype(np.bool_), call.array(1), call.array(2))
        return (np.asarray(chosen, call.output.numpy),)


@operation
@dataclass(frozen=True)
class Cast(Operation):
    """Change the element type as :func:`qimport.elements.convert` says.

    C1 same shape. C2 float16 converts from and to float32 only, complex64 not at all.
    """

    NAME = "prim.cast"

    def verify(self, call: Call) -> None:
        """Check C1, C2."""
        source, target = call.input(0), call.output
        require(source.shape == target.shape, "C1", "shape changes")
        half = "float16" in (source.dtype, target.dtype)
        partner = "float32" in (source.dtype, target.dtype)
        allowed = (partner or not half) and "complex64" not in (source.dtype, target.dtype)
        require(allowed, "C2", f"no cast from {source.dtype} to {target.dtype}")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """:func:`qimport.elements.convert`."""
        return (convert(call.array(0), call.output.numpy.name),)
