"""L2_NORMALIZATION: a sum per row, and its inverse square root as multiplier and exponent."""

from __future__ import annotations

import numpy as np

from qimport.fixedpoint import INT32_MAX
from qimport.ir.graph import Value
from qimport.ir.types import INTEGER_RANGE
from qimport.lower.numbers import GraphNumbers, Number
from qimport.lower.rule import Emitter, Use, rule
from qimport.lower.softmax import reduce_rows
from qimport.qnn.l2_normalization import EPSILON, L2Normalization
from qimport.qnn.logarithm import divide_by_pot, high_mul


@rule(L2Normalization)
def lower_l2_normalization(emit: Emitter, op: L2Normalization, use: Use) -> Value:
    """Float arithmetic for floats, fixed point for codes."""
    x, out = use.operand(0), use.output
    if out.dtype == "float32":
        total = reduce_rows(emit, "sum", emit.binary("mul", x, x), "float32")
        norm = emit.binary("max", emit.math("sqrt", total), float(np.float32(EPSILON)))
        return emit.binary("div", x, norm)
    d = emit.binary("sub", emit.cast(x, "int32"), use.call.input(0).quant.zero_point)
    total = reduce_rows(emit, "sum", emit.binary("mul", d, d), "int32")
    on = GraphNumbers(emit)
    multiplier, right = _inverse_root(on, on.of(total))
    left = 7 if out.dtype == "int8" else 0
    scale = 1 if out.dtype == "int8" else 128
    shift = right + -left
    nothing = on.of(emit.number(0, shift.value))
    value = on.wrap(on.shift_left(on.of(d) * scale, on.larger(shift * -1, nothing)))
    code = _divide(on, high_mul(on, value, multiplier), on.larger(shift, nothing))
    return emit.clamp(on.narrow(code), out.quant.zero_point, *INTEGER_RANGE[out.dtype], out.dtype)


def _inverse_root(on: GraphNumbers, total: Number) -> tuple[Number, Number]:
    """``fixedpoint.inverse_sqrt_multiplier``: the multiplier, and the exponent's right shift."""
    x = on.larger(total, 2)
    large = on.shift_right(x, 29) * 2  # 2 where x has to be divided by 4
    large = on.smaller(large, 2)
    x = on.shift_right(x, large)
    pairs = on.shift_right(on.leading_zeros(x) + -1, 1) + -1
    x = on.shift_left(x, pairs * 2)
    shift = on.shift_right(large, 1) + pairs * -1 + 11
    half = divide_by_pot(on, on.shift_right(x, 1), 1)
    root = x * 0 + (1 << 28)
    for _ in range(5):
        cube = on.saturate(on.shift_left(high_mul(on, high_mul(on, root, root), root), 6))
        root = high_mul(on, root, 3 << 27) + high_mul(on, half, cube) * -1
        root = on.saturate(on.shift_left(root, 3))
    root = on.shift_left(high_mul(on, root, 1518500250), on.larger(shift * -1, 0))
    small = on.emit.compare("less_equal", total.value, 1)
    most, none = (on.emit.number(number, total.value) for number in (INT32_MAX, 0))
    right = on.larger(shift, 0)
    return (
        Number(on.emit, on.emit.select(small, most, root.value)),
        Number(on.emit, on.emit.select(small, none, right.value)),
    )


def _divide(on: GraphNumbers, a: Number, exponent: Number) -> Number:
    """``rounding_divide_by_pot`` by 2^exponent, which may be 1."""
    half = on.shift_right(on.shift_left(exponent * 0 + 1, exponent), 1)
    tie = on.shift_right(a, 63) * on.smaller(exponent, 1)
    return on.shift_right(a + half + tie, exponent)
