"""Operators of two tensors of floats, plain integers or booleans."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from qimport.ir.graph import Value
from qimport.lower.rule import Emitter, Use, rule
from qimport.prim.arithmetic import BinaryKind
from qimport.qnn.arithmetic import HALF, AddN, Arithmetic, LogicalNot

Code = Callable[[Emitter, Value, Value], Value]


@rule(Arithmetic)
def lower_arithmetic(emit: Emitter, op: Arithmetic, use: Use) -> Value:
    """The kind's primitives, then the bounds."""
    a, b = (ranked(emit, use.operand(index)) for index in ((1, 0) if op.swaps(use.call) else (0, 1)))
    half = use.output.dtype == HALF
    result = (HALF_CODE if half else CODE)[op.kind](emit, a, b)
    low, high = op.bounds(use.call)
    if half and (low, high) != (None, None):
        result = emit.cast(result, "float32")
    if low is not None and op.forgets_nan(use.call):
        result = emit.select(emit.compare("greater", result, low), result, emit.number(low, result))
    elif low is not None:
        result = bounded(emit, result, low, "less")
    if high is not None:
        result = bounded(emit, result, high, "greater")
    if result.type.dtype != use.output.dtype:
        result = emit.cast(result, use.output.dtype)
    return emit.reshape(result, use.output.shape)


@rule(LogicalNot)
def lower_logical_not(emit: Emitter, op: LogicalNot, use: Use) -> Value:
    """An exclusive or with true."""
    return emit.reshape(emit.binary("xor", ranked(emit, use.operand(0)), True), use.output.shape)


@rule(AddN)
def lower_add_n(emit: Emitter, op: AddN, use: Use) -> Value:
    """Sums of two."""
    total = use.operand(0)
    for index in range(1, len(use.operands)):
        total = emit.binary("add", total, use.operand(index))
    return total


def ranked(emit: Emitter, x: Value) -> Value:
    """The operand; a scalar gets the rank 1 that constants of rules have."""
    return x if x.type.shape else emit.reshape(x, (1,))


def bounded(emit: Emitter, x: Value, bound: float, beyond: str) -> Value:
    """``bound`` where x is beyond it; a NaN stays."""
    if x.type.dtype != "float32":
        return emit.binary("max" if beyond == "less" else "min", x, bound)
    outside = emit.compare("less" if beyond == "less" else "greater", x, bound)
    return emit.select(outside, emit.number(bound, x), x)


def primitive(kind: str) -> Code:
    """One ``prim.binary``."""
    return lambda emit, a, b: emit.binary(cast(BinaryKind, kind), a, b)


def _floor_div(emit: Emitter, a: Value, b: Value) -> Value:
    if a.type.dtype == "float32":
        quotient = emit.binary("div", emit.cast(a, "float64"), emit.cast(b, "float64"))
        return emit.cast(_floor(emit, quotient), "float32")
    quotient, rest = emit.binary("div", a, b), emit.binary("rem", a, b)
    return emit.select(_crosses_zero(emit, rest, b), emit.binary("sub", quotient, 1), quotient)


def _floor(emit: Emitter, x: Value) -> Value:
    """The floor of float64 numbers; whole ones stay as they are, with their sign of zero."""
    whole = emit.cast(emit.cast(x, "int64"), "float64")
    down = emit.select(emit.compare("greater", whole, x), emit.binary("sub", whole, 1.0), whole)
    small = emit.binary("and", emit.compare("less", x, 2.0**52), emit.compare("greater", x, -(2.0**52)))
    changes = emit.binary("and", small, emit.compare("not_equal", whole, x))
    return emit.select(changes, down, x)


def _floor_mod(emit: Emitter, a: Value, b: Value) -> Value:
    rest = emit.binary("rem", a, b)
    return emit.select(_crosses_zero(emit, rest, b), emit.binary("add", rest, b), rest)


def _crosses_zero(emit: Emitter, rest: Value, b: Value) -> Value:
    """Whether there is a rest and it has not the divisor's sign."""
    signs = emit.binary("xor", emit.compare("less", rest, 0), emit.compare("less", b, 0))
    return emit.binary("and", emit.compare("not_equal", rest, 0), signs)


def _squared_difference(emit: Emitter, a: Value, b: Value) -> Value:
    difference = emit.binary("sub", a, b)
    return emit.binary("mul", difference, difference)


def _choice(relation: str) -> Code:
    """maximum or minimum; of floats the second where neither is better."""

    def choose(emit: Emitter, a: Value, b: Value) -> Value:
        if a.type.dtype != "float32":
            return emit.binary("max" if relation == "greater" else "min", a, b)
        better = emit.compare("greater" if relation == "greater" else "less", a, b)
        return emit.select(better, a, b)

    return choose


def _shift_right(emit: Emitter, a: Value, b: Value) -> Value:
    bits = emit.binary("min", emit.binary("max", b, 0), 8 * a.type.itemsize - 1)
    return emit.binary("shift_right", a, bits)


CODE: dict[str, Code] = {
    **{kind: primitive(kind) for kind in ("add", "sub", "mul", "div", "and", "or", "xor")},
    "floor_div": _floor_div,
    "floor_mod": _floor_mod,
    "maximum": _choice("greater"),
    "minimum": _choice("less"),
    "squared_difference": _squared_difference,
    "shift_right": _shift_right,
}
"""How each kind becomes primitives."""


def _halves(code: Code) -> Code:
    """The kind on float16, by way of float32, which rounds no differently."""

    def through_float32(emit: Emitter, a: Value, b: Value) -> Value:
        return emit.cast(code(emit, emit.cast(a, "float32"), emit.cast(b, "float32")), HALF)

    return through_float32


def _squared_half_difference(emit: Emitter, a: Value, b: Value) -> Value:
    difference = HALF_CODE["sub"](emit, a, b)
    return HALF_CODE["mul"](emit, difference, difference)


HALF_CODE: dict[str, Code] = {
    **{kind: _halves(CODE[kind]) for kind in ("add", "sub", "mul", "div", "maximum", "minimum")},
    "squared_difference": _squared_half_difference,
}
"""The kinds that know float16."""
