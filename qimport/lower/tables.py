"""Tables of 8-bit operations: the operation's own evaluation over all 256 codes."""

from __future__ import annotations

import numpy as np

from qimport.ir.graph import Array, Call, Value
from qimport.lower.rule import Emitter, Use
from qimport.numerics import Numerics, without_delegate
from qimport.qnn.base import QnnOperation
from qimport.qnn.unary import code_range

TABLE_SHAPE = (256,)


def table_of(op: QnnOperation, call: Call, numerics: Numerics) -> Array:
    """Results of an elementwise operation for every code of its 8-bit operand, in whole blocks."""
    x = call.input(0).with_shape(TABLE_SHAPE)
    codes = code_range(x.dtype).astype(x.numpy)
    return op.evaluate(Call((x,), (call.output.with_shape(TABLE_SHAPE),), (codes,), numerics))[0]


def emit_table(emit: Emitter, op: QnnOperation, use: Use) -> Value:
    """The operation as one table lookup."""
    return emit.lut(use.operand(0), table_of(op, use.call, use.call.numerics))


def emit_table_in_blocks(emit: Emitter, op: QnnOperation, use: Use, block: int) -> Value:
    """As :func:`emit_table`, where elements outside whole blocks go through the reference kernel's loop."""
    body = table_of(op, use.call, without_delegate(use.call.numerics, op.kernel_family(use.call)))
    leftover = table_of(op, use.call, "reference")
    if np.array_equal(body, leftover):
        return emit.lut(use.operand(0), body)
    return emit.in_blocks(use.operand(0), block, lambda x: emit.lut(x, body), lambda x: emit.lut(x, leftover))
