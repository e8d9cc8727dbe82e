"""The six relations: codes on a common measure, everything else as it is."""

from __future__ import annotations

from qimport.ir.graph import Value
from qimport.lower.arithmetic import ranked
from qimport.lower.rule import Emitter, Use, rule
from qimport.qnn.compare import LEFT_SHIFT, Compare


@rule(Compare)
def lower_compare(emit: Emitter, op: Compare, use: Use) -> Value:
    """Scale both operands where the kernel does, and compare."""
    a, b = (ranked(emit, use.operand(index)) for index in (0, 1))
    if op.scales(use.call):
        a, b = (_measure(emit, x, use, index) for index, x in enumerate((a, b)))
    elif a.type.dtype == "float16":
        a, b = (emit.cast(x, "float32") for x in (a, b))
    return emit.reshape(emit.compare(op.kind, a, b), use.output.shape)


def _measure(emit: Emitter, x: Value, use: Use, index: int) -> Value:
    quant = use.call.input(index).quant
    wide = emit.cast(x, "int32")
    if quant.zero_point:
        wide = emit.binary("sub", wide, quant.zero_point)
    return emit.rescale(emit.binary("shift_left", wide, LEFT_SHIFT), quant.scale)
