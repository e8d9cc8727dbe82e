"""ADD, SUB and MUL: elementwise integer arithmetic."""

from __future__ import annotations

from qimport.ir.graph import Value
from qimport.lower.requantization import emit_requantization
from qimport.lower.rule import Emitter, Use, rule
from qimport.qnn.binary import LEFT_SHIFT, Add, Mul, Sub, SumOperation


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
    product = emit.binary("mul", _centred(emit, use, 0), _centred(emit, use, 1))
    codes = emit_requantization(emit, product, op.requantization(use.call), use.output.dtype)
    return emit.reshape(codes, use.output.shape)


def _lower_sum(emit: Emitter, op: SumOperation, use: Use) -> Value:
    delegated = op.kernel_family(use.call) == "xnnpack"
    total = _delegate_sum(emit, op, use) if delegated else _classic_sum(emit, op, use)
    low, high = op.codes_range(use.call)
    codes = emit.clamp(total, use.output.quant.zero_point, low, high, use.output.dtype)
    return emit.reshape(codes, use.output.shape)


def _classic_sum(emit: Emitter, op: SumOperation, use: Use) -> Value:
    factors = op.classic(use.call)
    u = emit.rescale(
        emit.binary("shift_left", _centred(emit, use, 0), LEFT_SHIFT), [factors.a], "double_away"
    )
    v = emit.rescale(
        emit.binary("shift_left", _centred(emit, use, 1), LEFT_SHIFT), [factors.b], "double_away"
    )
    return emit.rescale(emit.binary("add" if op.SIGN > 0 else "sub", u, v), [factors.out], "double_away")


def _delegate_sum(emit: Emitter, op: SumOperation, use: Use) -> Value:
    k = op.delegate(use.call)
    a = emit.binary("mul", _wide(emit, use, 0), k.a_factor)
    b = emit.binary("mul", _wide(emit, use, 1), k.b_factor)
    return emit.binary("shift_right", emit.binary("add", emit.binary("add", a, b), k.offset), k.shift)


def _wide(emit: Emitter, use: Use, index: int) -> Value:
    """An operand as int32; scalars get the rank 1 that constants of rules have."""
    wide = emit.cast(use.operand(index), "int32")
    return wide if wide.type.shape else emit.reshape(wide, (1,))


def _centred(emit: Emitter, use: Use, index: int) -> Value:
    """An operand as int32 minus its zero point."""
    wide = _wide(emit, use, index)
    zero = use.call.input(index).quant.zero_point
    return emit.binary("sub", wide, zero) if zero else wide
