"""ATAN2: the steps of the specification in float64."""

from __future__ import annotations

import math

from qimport.ir.graph import Value
from qimport.lower.arithmetic import ranked
from qimport.lower.rule import Emitter, Use, rule
from qimport.qnn.atan2 import SPLIT, Atan2, series


@rule(Atan2)
def lower_atan2(emit: Emitter, _op: Atan2, use: Use) -> Value:
    """By octants: the angle of the quotient, then what mirrors it."""
    y, x = (emit.cast(ranked(emit, use.operand(index)), "float64") for index in (0, 1))
    high, wide = (_magnitude(emit, number) for number in (y, x))
    steep = emit.compare("less", wide, high)
    quotient = emit.binary("div", emit.select(steep, wide, high), emit.select(steep, high, wide))
    zero, one = emit.number(0.0, quotient), emit.number(1.0, quotient)
    diagonal = emit.select(emit.compare("equal", high, 0.0), zero, one)
    quotient = emit.select(emit.compare("equal", high, wide), diagonal, quotient)
    angle = _angle(emit, quotient)
    angle = emit.select(steep, _from(emit, math.pi / 2, angle), angle)
    angle = emit.select(_negative(emit, x), _from(emit, math.pi, angle), angle)
    angle = emit.select(_negative(emit, y), _from(emit, 0.0, angle), angle)
    return emit.reshape(emit.cast(angle, "float32"), use.output.shape)


def _angle(emit: Emitter, quotient: Value) -> Value:
    """The arctangent of numbers from 0 to 1."""
    upper = emit.compare("greater", quotient, SPLIT)
    turned = emit.binary("div", emit.binary("sub", quotient, 1.0), emit.binary("add", quotient, 1.0))
    reduced = emit.select(upper, turned, quotient)
    square = emit.binary("mul", reduced, reduced)
    total: Value | float = series()[-1]
    for factor in reversed(series()[:-1]):
        total = emit.binary("add", emit.binary("mul", square, total), factor)
    start = emit.select(upper, emit.number(math.pi / 4, reduced), emit.number(0.0, reduced))
    return emit.binary("add", emit.binary("mul", reduced, total), start)


def _from(emit: Emitter, whole: float, x: Value) -> Value:
    return emit.binary("sub", emit.number(whole, x), x)


def _magnitude(emit: Emitter, x: Value) -> Value:
    return emit.select(emit.compare("less", x, 0.0), _from(emit, 0.0, x), x)


def _negative(emit: Emitter, x: Value) -> Value:
    """Whether the sign is set, of zeros and infinities too."""
    inverse = emit.binary("div", emit.number(1.0, x), x)
    return emit.binary("or", emit.compare("less", x, 0.0), emit.compare("less", inverse, 0.0))
