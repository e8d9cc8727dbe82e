"""SOFTMAX: ``prim.softmax`` over a table of exponentials for 8 bits, reductions and tables otherwise."""

from __future__ import annotations

import numpy as np

from qimport import prim
from qimport.ir.graph import Value
from qimport.ir.types import INTEGER_RANGE, TensorType
from qimport.lower.rule import Emitter, Use, plain, rule
from qimport.numerics import Family
from qimport.qnn import softmax16
from qimport.qnn.interpolation import HIGHEST, LOWEST
from qimport.qnn.softmax import SMALLEST, Softmax
from qimport.summation import PACKET, RowOrder


@rule(Softmax)
def lower_softmax(emit: Emitter, op: Softmax, use: Use) -> Value:
    """By the element type; 8 bits in fixed point in the reference kernels, in float in the others."""
    x, out = use.operand(0), plain(use.output)
    if out.dtype == "float32":
        return _real(emit, op, x, op.kernel_family(use.call))
    quant, scale = use.output.quant, use.call.input(0).quant.scale
    if x.type.dtype == "int16":
        return _int16(emit, x, softmax16.factor(scale, op.beta))
    if op.kernel_family(use.call) == "reference":
        return emit.emit(prim.Softmax("fixed"), (x, emit.constant(op.fixed_table(scale))), out)
    if op.sums_integers(use.call):
        return _integer(emit, op, use)
    primitive = prim.Softmax("float", quant.scale, quant.zero_point)
    return emit.emit(primitive, (x, emit.constant(op.float_table(scale))), out)


def reduce_rows(emit: Emitter, kind: prim.ReduceKind, x: Value, dtype: str) -> Value:
    """Over the last dimension, which stays with size 1."""
    shape = (*x.type.shape[:-1], 1)
    return emit.emit(prim.Reduce(kind, (len(shape) - 1,)), (x,), TensorType(dtype, shape))


def _real(emit: Emitter, op: Softmax, x: Value, family: Family) -> Value:
    distance = emit.binary("sub", x, reduce_rows(emit, "max", x, "float32"))
    distance = emit.binary("mul", distance, float(np.float32(op.beta)))
    if family == "reference":
        e = emit.math("exp", distance)
        return emit.binary("div", e, reduce_rows(emit, "sum", e, "float32"))
    if family == "xnnpack":
        e = emit.math("exp_of_difference", distance)
        result = _normalized(emit, e, "fours")
        return emit.select(emit.compare("less", result, SMALLEST), emit.number(0, result), result)
    e = emit.in_blocks(
        distance,
        PACKET,
        lambda part: emit.math("exp_in_packets", part),
        lambda part: emit.math("exp", part),
    )
    return _normalized(emit, e, "packets")


def _normalized(emit: Emitter, e: Value, order: RowOrder) -> Value:
    """Times the reciprocal of the sums of rows."""
    total = emit.emit(prim.RowSum(order), (e,), TensorType("float32", (*e.type.shape[:-1], 1)))
    return emit.binary("mul", e, emit.binary("div", emit.number(1, total), total))


def _integer(emit: Emitter, op: Softmax, use: Use) -> Value:
    """Exponentials and their sums as integers, a multiplier per row from the bits of a float.

    The inverse is less than 2^-7, as the largest exponential is 65535, so that the exponent of the multiplier
    is negative and both roundings are one shift, as in MBQM of numbers that are not negative.
    """
    x, source, out = use.operand(0), use.call.input(0), use.output
    top = emit.cast(reduce_rows(emit, "max", x, x.type.dtype), "int32")
    k = emit.clamp(emit.binary("sub", top, emit.cast(x, "int32")), 0, 0, 255, "uint8")
    e = emit.lut(k, op.integer_table(source.quant.scale))
    total = emit.cast(reduce_rows(emit, "sum", e, "int32"), "float32")
    inverse = emit.binary("div", emit.number(1, total), emit.binary("mul", total, out.quant.scale))
    bits = emit.emit(prim.Bitcast(), (inverse,), TensorType("int32", inverse.type.shape))
    significand = emit.binary("or", emit.binary("and", bits, 2**23 - 1), 2**23)
    multiplier = emit.cast(emit.binary("shift_left", significand, 7), "int64")
    right = emit.binary("sub", emit.number(126, bits), emit.binary("shift_right", bits, 23))
    place = emit.cast(emit.binary("add", right, 30), "int64")
    half = emit.binary("shift_left", emit.number(1, multiplier), place)
    product = emit.binary("mul", emit.cast(e, "int64"), multiplier)
    total = emit.binary("add", product, emit.binary("add", half, 1 << 30))
    shift = emit.cast(emit.binary("add", right, 31), "int64")
    scaled = emit.cast(emit.binary("shift_right", total, shift), "int32")
    return emit.clamp(scaled, out.quant.zero_point, *INTEGER_RANGE[out.dtype], out.dtype)


def _int16(emit: Emitter, x: Value, factor: float) -> Value:
    top = emit.cast(reduce_rows(emit, "max", x, "int16"), "int32")
    d = emit.rescale(emit.binary("sub", emit.cast(x, "int32"), top), factor)
    e16 = emit.lut16(emit.clamp(d, HIGHEST, LOWEST, HIGHEST, "int16"), softmax16.EXPONENTIAL)
    total = reduce_rows(emit, "sum", e16, "int32")
    headroom = emit.emit(prim.LeadingZeros(), (total,), total.type)
    less = emit.binary("sub", headroom, 1)
    shifted = emit.binary("add", emit.binary("shift_left", total, less), 1 << 13)
    place = emit.clamp(emit.binary("shift_right", shifted, 14), -3 * 2**15, LOWEST, HIGHEST, "int16")
    r = emit.cast(emit.lut16(place, softmax16.RECIPROCAL), "int32")
    shift = emit.binary("sub", emit.number(31, headroom), headroom)
    half = emit.binary("shift_left", emit.number(1, shift), emit.binary("sub", shift, 1))
    product = emit.binary("add", emit.binary("mul", emit.cast(e16, "int32"), r), half)
    return emit.clamp(emit.binary("shift_right", product, shift), 0, 0, HIGHEST, "int16")
