"""ADD, SUB and MUL: elementwise integer arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from qimport.fixedpoint import quantize_multiplier
from qimport.ir.graph import Value
from qimport.lower.requantization import emit_requantization
from qimport.lower.rule import Emitter, Use, rule
from qimport.qnn.binary import FRACTION_BITS, NARROW_LIMIT, NARROWING, Mul
from qimport.qnn.sums import LEFT_SHIFT, Add, Sub, SumOperation, VectorRounding

Operands = Sequence[Value]
"""Both operands, or the same part of each."""


@rule(Add)
def lower_add(emit: Emitter, op: Add, use: Use) -> Value:
    """See :func:`_lower_sum`."""
    return _lower_sum(emit, op, use)


@rule(Sub)
def lower_sub(emit: Emitter, op: Sub, use: Use) -> Value:
    """See :func:`_lower_sum`."""
    return _lower_sum(emit, op, use)


@rule(Mul)
def lower_mul(emit: Emitter, op: Mul, use: Use) -> Value:
    """The product of the differences from the zero points, rescaled; or a table of squares."""
    if op.tabulates(use.call):
        return emit.lut(use.operand(0), op.square_table(use.call))
    if op.narrows(use.call):
        return _narrow_product(emit, op, use, _product(emit, use, (use.operand(0), use.operand(1))))

    def codes(operands: Operands, vector: bool) -> Value:
        product = _product(emit, use, operands)
        if vector and op.overflows(use.call):
            return _overflowing_product(emit, op, use, product)
        return emit_requantization(emit, product, op.requantization(use.call, vector), use.output.dtype)

    return emit.reshape(_by_vectors(emit, use, op.vectors(use.call), codes), use.output.shape)


def _product(emit: Emitter, use: Use, operands: Operands) -> Value:
    a, b = (centred(emit, use, index, x) for index, x in enumerate(operands))
    return emit.binary("mul", a, b)


def _overflowing_product(emit: Emitter, op: Mul, use: Use, product: Value) -> Value:
    """Codes from products that overflow 16 bits."""
    scaled = emit.rescale(product, op.scale(use.call))
    if op.saturates(use.call):
        scaled = emit.binary("max", emit.binary("min", scaled, NARROW_LIMIT), -NARROW_LIMIT - 1)
    total = _wrapped16(emit, emit.binary("add", scaled, use.output.quant.zero_point))
    return emit.clamp(total, 0, *op.codes_range(use.call), use.output.dtype)


def _wrapped16(emit: Emitter, x: Value) -> Value:
    """int32 modulo 2^16, around 0."""
    return emit.cast(emit.cast(x, "int16"), "int32")


def _narrow_product(emit: Emitter, op: Mul, use: Use, product: Value) -> Value:
    """16-bit fractions to 8-bit codes."""
    raised = emit.binary("shift_right", emit.binary("add", product, 1 << (FRACTION_BITS - 1)), FRACTION_BITS)
    fraction = emit.binary("min", raised, 2**FRACTION_BITS - 1)
    low, high = op.codes_range(use.call)
    rounded = shifted_away(emit, fraction, NARROWING)
    codes = emit.clamp(rounded, use.output.quant.zero_point, low, high, use.output.dtype)
    return emit.reshape(codes, use.output.shape)


def _lower_sum(emit: Emitter, op: SumOperation, use: Use) -> Value:
    shifts = op.shifts(use.call)
    if shifts is not None:
        total = _shifted_sum(emit, op, use, shifts)
    elif op.kernel_family(use.call) == "xnnpack":
        total = _delegate_sum(emit, op, use)
    else:
        total = _classic_sum(emit, op, use)
    low, high = op.codes_range(use.call)
    codes = emit.clamp(total, use.output.quant.zero_point, low, high, use.output.dtype)
    return emit.reshape(codes, use.output.shape)


def _shifted_sum(emit: Emitter, op: SumOperation, use: Use, shifts: tuple[int, int]) -> Value:
    a, b = (shifted_away(emit, _wide(emit, use.operand(index)), shift) for index, shift in enumerate(shifts))
    return emit.binary("add" if op.SIGN > 0 else "sub", a, b)


def shifted_away(emit: Emitter, x: Value, bits: int) -> Value:
    """int32 shifted down, ties away from zero, as far as 2 * x does not overflow."""
    if bits == 0:
        return x
    half = emit.binary("add", emit.binary("shift_right", x, 31), 1 << (bits - 1))
    return emit.binary("shift_right", emit.binary("add", x, half), bits)


def _classic_sum(emit: Emitter, op: SumOperation, use: Use) -> Value:
    def total(operands: Operands, vector: bool) -> Value:
        return _fixed_point_sum(emit, op, use, operands, vector)

    return _by_vectors(emit, use, op.vectors(use.call), total)


def _by_vectors(
    emit: Emitter, use: Use, vectors: tuple[int, int], body: Callable[[Operands, bool], Value]
) -> Value:
    """Elements in whole vectors of a run and those left over apart, where they are computed differently."""
    operands = (use.operand(0), use.operand(1))
    run, whole = vectors
    if whole in (0, run):
        return body(operands, whole > 0)
    rows = [_in_runs(emit, x, use.output.shape, run) for x in operands]
    parts = [
        body([_columns(emit, x, first, count) for x in rows], vector)
        for first, count, vector in ((0, whole, True), (whole, run - whole, False))
    ]
    return emit.concat(parts, len(parts[0].type.shape) - 1)


def _in_runs(emit: Emitter, x: Value, result: tuple[int, ...], run: int) -> Value:
    """An operand with the dimensions of a run as one; a single element stays one."""
    joined = next(n for n in range(1, len(result) + 1) if math.prod(result[-n:]) == run)
    shape = (1,) * (len(result) - len(x.type.shape)) + x.type.shape
    return emit.reshape(x, (*shape[:-joined], math.prod(shape[-joined:])))


def _columns(emit: Emitter, x: Value, first: int, count: int) -> Value:
    """Part of every run of an operand."""
    shape = x.type.shape
    if shape[-1] == 1:
        return x
    lead = len(shape) - 1
    return emit.slice(x, (0,) * lead + (first,), (*shape[:-1], count), (1,) * len(shape))


def _fixed_point_sum(emit: Emitter, op: SumOperation, use: Use, operands: Operands, vector: bool) -> Value:
    factors, left = op.classic(use.call), LEFT_SHIFT[use.output.dtype]
    scaled = _RESCALES[op.vector_rounding(use.call) if vector else "away"]
    u, v = (
        scaled(emit, emit.binary("shift_left", centred(emit, use, index, x), left), factor)
        for index, (x, factor) in enumerate(zip(operands, (factors.a, factors.b), strict=True))
    )
    total = emit.rescale(emit.binary("add" if op.SIGN > 0 else "sub", u, v), factors.out)
    if not (vector and op.overflows(use.call)):
        return total
    zero = use.output.quant.zero_point
    return emit.binary("sub", _wrapped16(emit, emit.binary("add", total, zero)), zero)


def _scaled_once(emit: Emitter, x: Value, factor: float) -> Value:
    """Rescale by a factor up to 1/2 with one rounding, half up."""
    multiplier, exponent = quantize_multiplier(factor)
    product = emit.binary("mul", emit.cast(x, "int64"), multiplier)
    half = emit.binary("add", product, 1 << (30 - exponent))
    return emit.cast(emit.binary("shift_right", half, 31 - exponent), "int32")


def _scaled_down(emit: Emitter, x: Value, factor: float) -> Value:
    """Rescale by a factor up to 1/2, whose second step rounds downward instead."""
    _, exponent = quantize_multiplier(factor)
    high = emit.rescale(x, math.ldexp(factor, -exponent))
    return emit.binary("shift_right", high, -exponent) if exponent else high


_RESCALES: dict[VectorRounding, Callable[[Emitter, Value, float], Value]] = {
    "away": Emitter.rescale,
    "once": _scaled_once,
    "down": _scaled_down,
}


def _delegate_sum(emit: Emitter, op: SumOperation, use: Use) -> Value:
    k = op.delegate(use.call)
    a = emit.binary("mul", _wide(emit, use.operand(0)), k.a_factor)
    b = emit.binary("mul", _wide(emit, use.operand(1)), k.b_factor)
    return emit.binary("shift_right", emit.binary("add", emit.binary("add", a, b), k.offset), k.shift)


def _wide(emit: Emitter, x: Value) -> Value:
    """Codes as int32; scalars get the rank 1 that constants of rules have."""
    wide = emit.cast(x, "int32")
    return wide if wide.type.shape else emit.reshape(wide, (1,))


def centred(emit: Emitter, use: Use, index: int, x: Value) -> Value:
    """Codes of an operand, or of a part of it, as int32 minus its zero point."""
    wide, zero = _wide(emit, x), use.call.input(index).quant.zero_point
    return emit.binary("sub", wide, zero) if zero else wide
