"""Elementwise primitives. Operands broadcast as in NumPy; a constant operand may be scalar or per channel.

Each of these has one emitter of the same name in ``codegen/elementwise.py``; runs of them fuse into one
kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from qimport import fixedpoint
from qimport.fixedpoint import Rounding, wrap32
from qimport.ir.check import require
from qimport.ir.graph import Array, Call, Operation, operation
from qimport.ir.types import INTEGER_RANGE

BinaryKind = Literal["add", "sub", "mul", "div", "max", "min", "shift_left", "shift_right"]


def _broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...] | None:
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        return None


@operation
@dataclass(frozen=True)
class Binary(Operation):
    """Two operands, one result.

    One of add, sub, mul, max, min, shift_left, shift_right on int32 (wrapping; arithmetic shift), or
    add, sub, mul, div, max, min on float32 or float64 (each result rounded to that type).

    C1 both operands and the result have one element type, int32, float32 or float64. C2 the shapes broadcast
    to the result's. C3 div is floating only, shifts int32 only.
    """

    NAME = "prim.binary"

    kind: BinaryKind

    def verify(self, call: Call) -> None:
        """Check C1-C3."""
        a, b, out = call.input(0), call.input(1), call.output
        require(
            a.dtype == b.dtype == out.dtype and out.dtype in ("int32", *_FLOATING),
            "C1",
            "element types differ",
        )
        require(
            _broadcast(a.shape, b.shape) == out.shape,
            "C2",
            f"{a.shape} and {b.shape} do not give {out.shape}",
        )
        table = _FLOAT if out.dtype in _FLOATING else _INTEGER
        require(self.kind in table, "C3", f"no {self.kind} on {out.dtype}")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """NumPy with int32 wrapping or rounding to the floating type."""
        a, b = call.array(0), call.array(1)
        if call.output.dtype in _FLOATING:
            with np.errstate(all="ignore"):
                return (np.asarray(_FLOAT[self.kind](a, b), call.output.numpy),)
        return (wrap32(_INTEGER[self.kind](a.astype(np.int64), b.astype(np.int64))).astype(np.int32),)


_FLOATING = ("float32", "float64")
_FLOAT = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "max": np.maximum,
    "min": np.minimum,
}
_INTEGER = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "shift_left": np.left_shift,
    "shift_right": np.right_shift,
}


@operation
@dataclass(frozen=True)
class Cast(Operation):
    """Change the element type without clamping.

    8/16-bit integer -> int32 (extend), int32 -> float32 (ties even), float32 -> float64 (exact).

    C1 same shape. C2 one of the listed pairs.
    """

    NAME = "prim.cast"

    def verify(self, call: Call) -> None:
        """Check C1, C2."""
        source, target = call.input(0), call.output
        require(source.shape == target.shape, "C1", "shape changes")
        widening = source.dtype in ("int8", "uint8", "int16") and target.dtype == "int32"
        pairs = (("int32", "float32"), ("float32", "float64"))
        allowed = widening or (source.dtype, target.dtype) in pairs
        require(allowed, "C2", f"no cast from {source.dtype} to {target.dtype}")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """NumPy ``astype``."""
        return (call.array(0).astype(call.output.numpy),)


@operation
@dataclass(frozen=True)
class Rescale(Operation):
    """int32 times a real factor, rounded to int32 as ``rounding`` (:data:`qimport.fixedpoint.Rounding`) says.

    Fixed-point roundings take operands (x, multiplier int32, exponent int32); float roundings take
    (x, scale float32 for float32_even, float64 for float64_away). Factors are constants of shape [1] or [C],
    C the last dimension. Channels from ``leftover_from`` on use ``leftover`` instead, if given (kernels that
    vectorize over channels and round the remainder differently); fixed point only.

    C1 x and result are int32 of one shape. C2 rounding, factor shapes and types as above. C3 leftover is a
    fixed-point rounding, with others of that kind only.
    """

    NAME = "prim.rescale"

    rounding: Rounding
    leftover: Rounding | None = None
    leftover_from: int = 0

    @property
    def fixed_point(self) -> bool:
        """Whether the factor is a (multiplier, exponent) pair."""
        return self.rounding in ("double_away", "double_up")

    def verify(self, call: Call) -> None:
        """Check C1-C3."""
        x, out = call.input(0), call.output
        require(x == out and x.dtype == "int32", "C1", "operand and result must be the same int32 type")
        factors = [call.input(i) for i in range(1, len(call.inputs))]
        floating = self.rounding in ("float32_even", "float64_away")
        require(self.fixed_point or floating, "C2", f"there is no rounding {self.rounding}")
        wanted = ["int32", "int32"] if self.fixed_point else [self.rounding.split("_")[0]]
        require([f.dtype for f in factors] == wanted, "C2", f"factors must be {wanted}")
        channels = x.shape[-1] if x.shape else 1
        require(
            all(f.shape in ((1,), (channels,)) for f in factors), "C2", "factors must have 1 or C elements"
        )
        alike = self.fixed_point and self.leftover in ("double_away", "double_up") and self.leftover_from >= 0
        require(self.leftover is None or alike, "C3", "leftover needs fixed-point roundings")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """The rules of :mod:`qimport.fixedpoint`."""
        x = call.array(0)
        if self.rounding == "float32_even":
            return (fixedpoint.rescale_float32_even(x, call.array(1)).astype(np.int32),)
        if self.rounding == "float64_away":
            return (fixedpoint.rescale_float64_away(x, call.array(1)).astype(np.int32),)
        multiplier, exponent = call.array(1), call.array(2)
        result = fixedpoint.multiply_by_quantized_multiplier(x, multiplier, exponent, self.rounding)
        if self.leftover is not None:
            rest = fixedpoint.multiply_by_quantized_multiplier(x, multiplier, exponent, self.leftover)
            result[..., self.leftover_from :] = rest[..., self.leftover_from :]
        return (result.astype(np.int32),)


@operation
@dataclass(frozen=True)
class Clamp(Operation):
    """min(max(x + zero_point, low), high) without intermediate overflow, stored as the result's element type.

    C1 int32 operand, integer result, same shape. C2 low <= high and both lie in the result type's range.
    """

    NAME = "prim.clamp"

    zero_point: int
    low: int
    high: int

    def verify(self, call: Call) -> None:
        """Check C1, C2."""
        x, out = call.input(0), call.output
        require(
            x.dtype == "int32" and x.shape == out.shape, "C1", "operand must be int32 of the result's shape"
        )
        require(out.dtype in INTEGER_RANGE, "C1", f"{out} does not hold integers")
        lowest, highest = INTEGER_RANGE[out.dtype]
        require(lowest <= self.low <= self.high <= highest, "C2", f"[{self.low}, {self.high}] is no range")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """int64 NumPy."""
        shifted = call.array(0).astype(np.int64) + self.zero_point
        return (np.clip(shifted, self.low, self.high).astype(call.output.numpy),)


@operation
@dataclass(frozen=True)
class Lut(Operation):
    """table[x] for 8-bit x: the table has 256 entries in order of the code's value (from -128 or from 0).

    C1 operands are (8-bit tensor, constant [256]); the result has the table's element type and x's shape.
    """

    NAME = "prim.lut"

    def verify(self, call: Call) -> None:
        """Check C1."""
        x, table, out = call.input(0), call.input(1), call.output
        require(
            x.dtype in ("int8", "uint8") and table.shape == (256,),
            "C1",
            "needs an 8-bit operand, 256 entries",
        )
        require(out.dtype == table.dtype and out.shape == x.shape, "C1", "result type must follow the table")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """NumPy indexing."""
        lowest, _ = INTEGER_RANGE[call.input(0).dtype]
        return (call.array(1)[call.array(0).astype(np.int64) - lowest],)


@operation
@dataclass(frozen=True)
class DivRound(Operation):
    """x / divisor rounded half away from zero, int32; the divisor is a positive constant that broadcasts.

    C1 int32 throughout, x and the result of one shape. C2 the divisor broadcasts to x.
    """

    NAME = "prim.div_round"

    def verify(self, call: Call) -> None:
        """Check C1, C2."""
        x, divisor, out = call.input(0), call.input(1), call.output
        require(x == out and x.dtype == divisor.dtype == "int32", "C1", "int32 of one shape is needed")
        require(_broadcast(x.shape, divisor.shape) == x.shape, "C2", "divisor must broadcast to x")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """(|x| + divisor // 2) // divisor with x's sign."""
        x, divisor = call.array(0).astype(np.int64), call.array(1).astype(np.int64)
        return ((np.sign(x) * ((np.abs(x) + divisor // 2) // divisor)).astype(np.int32),)


@operation
@dataclass(frozen=True)
class ToInt(Operation):
    """float -> int32.

    NaN and results outside int32 give INT32_MIN (``saturate`` False: the x86 conversion), or saturate to the
    nearer end with NaN at the high end (``saturate`` True).

    ``rounding`` is ``even`` or ``away`` (ties). C1 float32 or float64 operand, int32 result, same shape. C2
    ``rounding`` is one of the two.
    """

    NAME = "prim.to_int"

    rounding: Literal["even", "away"]
    saturate: bool = False

    def verify(self, call: Call) -> None:
        """Check C1, C2."""
        x, out = call.input(0), call.output
        typed = x.dtype in _FLOATING and out.dtype == "int32" and x.shape == out.shape
        require(typed, "C1", "operand must be floating, result int32")
        require(self.rounding in ("even", "away"), "C2", f"there is no rounding {self.rounding}")

    def evaluate(self, call: Call) -> tuple[Array, ...]:
        """NumPy rounding, then the stated conversion."""
        x = call.array(0)
        with np.errstate(all="ignore"):
            rounded = (np.rint(x) if self.rounding == "even" else fixedpoint.round_away(x)).astype(np.float64)
        if self.saturate:
            rounded = np.where(np.isnan(rounded), fixedpoint.INT32_MAX, rounded)
            rounded = np.clip(rounded, fixedpoint.INT32_MIN, fixedpoint.INT32_MAX)
        return (fixedpoint.float_to_int32(rounded).astype(np.int32),)
