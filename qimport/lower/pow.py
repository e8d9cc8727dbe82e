"""POW: repeated multiplication, or a logarithm and an exponential."""

from __future__ import annotations

import math

from qimport import prim
from qimport.ir.graph import Value
from qimport.ir.types import TensorType
from qimport.lower.arithmetic import bounded, ranked
from qimport.lower.rule import Emitter, Use, rule
from qimport.qnn.pow import ALL_EVEN, LARGEST, SQUARINGS, Pow, multiplications


@rule(Pow)
def lower_pow(emit: Emitter, op: Pow, use: Use) -> Value:
    """As the operand types and the exponent say."""
    x = ranked(emit, use.operand(0))
    if op.exponent is not None:
        return emit.reshape(_repeated(emit, x, op.exponent), use.output.shape)
    exponent = ranked(emit, use.operand(1))
    if use.output.dtype == "int32":
        power = _of_integers(emit, x, exponent, saturate=use.call.mode.arm64)
    else:
        power = _of_floats(emit, x, exponent)
    return emit.reshape(power, use.output.shape)


def _repeated(emit: Emitter, x: Value, exponent: int) -> Value:
    result = x
    for step in multiplications(exponent):
        result = emit.binary("mul", result if step == "s" else x, result)
        if x.type.dtype == "float32":
            result = bounded(emit, bounded(emit, result, LARGEST, "greater"), -LARGEST, "less")
    return result


def _of_integers(emit: Emitter, base: Value, exponent: Value, saturate: bool) -> Value:
    """Multiplies by the squares that the exponent's bits choose, in float64."""
    parity = emit.binary("and", exponent, 1)
    many = emit.compare("greater_equal", exponent, 2**SQUARINGS)
    few = emit.select(many, emit.binary("add", parity, 2**SQUARINGS - 2), exponent)
    few = emit.binary("max", few, 0)
    square = emit.cast(base, "float64")
    result = emit.number(1.0, square)
    for bit in range(SQUARINGS):
        chosen = emit.compare("not_equal", emit.binary("and", few, 1 << bit), 0)
        result = emit.select(chosen, emit.binary("mul", result, square), result)
        square = emit.binary("mul", square, square)
    to_int = prim.ToInt("even", saturate)
    return emit.emit(to_int, (result,), TensorType("int32", result.type.shape))


def _of_floats(emit: Emitter, base: Value, exponent: Value) -> Value:
    """The names are those of :func:`qimport.qnn.pow._of_floats`."""
    x, y = emit.cast(base, "float64"), emit.cast(exponent, "float64")
    magnitude = emit.cast(emit.math("abs", base), "float64")
    size = emit.cast(emit.math("exp", emit.binary("mul", emit.math("log", magnitude), y)), "float32")
    one = emit.binary("or", emit.compare("equal", magnitude, 1.0), emit.compare("equal", y, 0.0))
    size = emit.select(one, emit.number(1.0, size), size)
    small = emit.compare("less", emit.cast(emit.math("abs", exponent), "float64"), ALL_EVEN)
    parts = emit.cast(emit.select(small, y, emit.number(0.0, y)), "int64")
    whole = emit.compare("equal", emit.cast(parts, "float64"), y)
    broken = emit.binary("and", small, emit.binary("xor", whole, True))
    bit = emit.compare("not_equal", emit.binary("and", parts, 1), 0)
    odd = emit.binary("and", emit.binary("and", small, whole), bit)
    finite = emit.binary("and", emit.compare("less", x, 0.0), emit.compare("greater", x, -math.inf))
    flipped = emit.select(_is_negative(emit, base), emit.math("neg", size), size)
    signed = emit.select(odd, flipped, size)
    return emit.select(emit.binary("and", finite, broken), emit.number(math.nan, signed), signed)


def _is_negative(emit: Emitter, x: Value) -> Value:
    """Whether the sign is set; that of a zero shows in its reciprocal."""
    below = emit.compare("less", x, 0.0)
    reciprocal = emit.binary("div", emit.number(1.0, x), x)
    zero = emit.binary("and", emit.compare("equal", x, 0.0), emit.compare("less", reciprocal, 0.0))
    return emit.binary("or", below, zero)
