"""LOG_SOFTMAX: reductions, tables by distance from the row's largest code, and a logarithm per row."""

from __future__ import annotations

import numpy as np

from qimport import prim
from qimport.ir.graph import Value
from qimport.ir.types import INTEGER_RANGE, TensorType
from qimport.lower.numbers import GraphNumbers
from qimport.lower.rule import Emitter, Use, rule
from qimport.lower.softmax import reduce_rows
from qimport.qnn.log_softmax import LogSoftmax, Scaling
from qimport.qnn.logarithm import divide_by_pot, logarithm


@rule(LogSoftmax)
def lower_log_softmax(emit: Emitter, op: LogSoftmax, use: Use) -> Value:
    """By the element type and the kernel family."""
    x = use.operand(0)
    if x.type.dtype == "float32":
        distance = emit.binary("sub", x, reduce_rows(emit, "max", x, "float32"))
        return emit.binary("sub", distance, _log_of_sum(emit, emit.math("exp", distance)))
    fixed = op.kernel_family(use.call) == "reference"
    return _fixed(emit, op, use) if fixed else _float(emit, op, use)


def _log_of_sum(emit: Emitter, e: Value) -> Value:
    return emit.math("log", reduce_rows(emit, "sum", e, "float32"))


def _distance(emit: Emitter, x: Value) -> tuple[Value, Value, Value]:
    """The row's largest code and the codes as int32, and how far they are apart as uint8."""
    top = emit.cast(reduce_rows(emit, "max", x, x.type.dtype), "int32")
    wide = emit.cast(x, "int32")
    return top, wide, emit.clamp(emit.binary("sub", top, wide), 0, 0, 255, "uint8")


def _float(emit: Emitter, op: LogSoftmax, use: Use) -> Value:
    source, out = use.call.input(0), use.output
    before, after = np.float32(source.quant.scale), np.float32(out.quant.scale)
    top, x, k = _distance(emit, use.operand(0))
    logarithm = _log_of_sum(emit, emit.lut(k, op.exponentials(source.quant.scale)))
    real_top, real = emit.cast(top, "float32"), emit.cast(x, "float32")
    if use.call.mode.arm64:
        total = emit.fma(real_top, emit.number(float(before), real_top), logarithm)
        offset = emit.binary("div", total, float(after))
        less = emit.binary("mul", offset, -1.0)
        difference = emit.fma(real, emit.number(float(before / after), real), less)
    else:
        total = emit.binary("add", emit.binary("mul", real_top, float(before)), logarithm)
        offset = emit.binary("div", total, float(after))
        difference = emit.binary("sub", emit.binary("mul", real, float(before / after)), offset)
    nearest = emit.emit(prim.ToInt("even", True), (difference,), TensorType("int32", x.type.shape))
    return emit.clamp(nearest, out.quant.zero_point, *INTEGER_RANGE[out.dtype], out.dtype)


def _fixed(emit: Emitter, op: LogSoftmax, use: Use) -> Value:
    source, out = use.call.input(0), use.output
    lowest, highest = INTEGER_RANGE[out.dtype]
    scaling, (terms, raw) = Scaling.of(source.quant.scale), op.terms(source.quant.scale)
    on = GraphNumbers(emit)
    _, _, k = _distance(emit, use.operand(0))
    total = reduce_rows(emit, "sum", emit.lut(k, terms.astype(np.int32)), "int32")
    log_sum = logarithm(on, on.of(total))
    back = emit.rescale(on.narrow(log_sum + -(2**31)), scaling.back)
    least = emit.binary("max", back, -scaling.limit - 1)
    shifted = divide_by_pot(on, on.wrap(on.table(k, raw) + log_sum * -1), 22)
    code = emit.clamp(on.narrow(shifted), highest, lowest, highest, out.dtype)
    inside = emit.compare("greater", emit.negative(emit.cast(k, "int32")), least)
    return emit.select(inside, code, emit.number(lowest, code))
