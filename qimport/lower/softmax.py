"""SOFTMAX: ``prim.softmax`` over a table of exponentials for 8 bits, reductions and tables otherwise."""

from __future__ import annotations

import numpy as np

from qimport import prim
from qimport.ir.graph import Value
from qimport.ir.types import TensorType
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
