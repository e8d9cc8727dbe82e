"""int16 logistic and tanh: table lookups with a line between, or gemmlowp's functions."""

from __future__ import annotations

import numpy as np

from qimport import prim
from qimport.ir.graph import Value
from qimport.lower.rule import Emitter
from qimport.numerics import Family
from qimport.qnn.sigmoid16 import LOGISTIC_POWERS, SIGMOID, TANH_POWERS, InputScale


def emit_logistic16(emit: Emitter, x: Value, scale: float, family: Family) -> Value:
    """int16 codes of ``scale`` to int16 codes of 1 / 32768."""
    given = InputScale.of(scale, LOGISTIC_POWERS)
    if given.power is not None and family != "reference":
        return emit.emit(prim.Activation16("logistic"), (x,), x.type)
    v = _steps(emit, x, given)
    r = _line(emit, v, 9, 0x7FFF << 10)
    above = emit.binary("add", r, 512)
    below = emit.binary("sub", emit.number(2**25 + 511, r), r)
    return _signed(emit, v, above, below, 10)


def emit_tanh16(emit: Emitter, x: Value, scale: float, family: Family) -> Value:
    """int16 codes of ``scale`` to int16 codes of 1 / 32768."""
    given = InputScale.of(scale, TANH_POWERS)
    if given.power is not None and family != "reference":
        doubled = emit.binary("shift_left", emit.cast(x, "int32"), given.power)
        x = emit.clamp(doubled, 0, -(2**15), 2**15 - 1, "int16")
        return emit.emit(prim.Activation16("tanh", 3), (x,), x.type)
    v = _steps(emit, x, given)
    r = _line(emit, v, 8, 0xFFFF << 8)
    above = emit.binary("sub", r, 2**23 - 128)
    below = emit.binary("sub", emit.number(2**23 + 127, r), r)
    return _signed(emit, v, above, below, 8)


def _steps(emit: Emitter, x: Value, given: InputScale) -> Value:
    """x in 24ths of a table step, shifted as the kernels need it."""
    v = emit.binary("mul", emit.cast(x, "int32"), given.multiplier)
    if given.shift == 0:
        return v
    return emit.binary("shift_right", emit.binary("add", v, 1 << (given.shift - 1)), given.shift)


def _line(emit: Emitter, v: Value, bits: int, beyond: int) -> Value:
    """Between two entries of the table, ``beyond`` past its end."""
    size = emit.binary("max", v, emit.negative(v))
    place = emit.binary("shift_right", size, bits)
    entry = emit.clamp(place, 0, 0, 254, "uint8")
    rise = np.append(np.diff(SIGMOID), 0)
    part = emit.binary(
        "mul", emit.binary("and", size, (1 << bits) - 1), emit.lut(entry, rise.astype(np.int32))
    )
    line = emit.binary("add", emit.lut(entry, (SIGMOID << bits).astype(np.int32)), part)
    outside = emit.compare("greater_equal", place, 255)
    return emit.select(outside, emit.number(beyond, line), line)


def _signed(emit: Emitter, v: Value, above: Value, below: Value, bits: int) -> Value:
    chosen = emit.select(emit.compare("greater_equal", v, 0), above, below)
    return emit.cast(emit.binary("shift_right", chosen, bits), "int16")
