"""PAD and PADV2."""

from __future__ import annotations

from qimport.frontend.ops import checks
from qimport.frontend.ops.context import OperatorContext, importer
from qimport.ir.graph import Value
from qimport.qnn.pad import Pad

INDEX_TYPES = ("int32", "int64", "int8", "int16")
"""Element types of paddings."""

MAX_RANK = 5
"""The interpreter's kernels pad no more dimensions."""


@importer("PAD", versions=range(1, 7))
def pad(context: OperatorContext) -> None:
    """Surround with the result's zero point."""
    context.operands(2)
    _pad(context, None)


@importer("PADV2", versions=range(1, 7))
def padv2(context: OperatorContext) -> None:
    """Surround with a code, constant or computed at run time."""
    context.operands(3)
    filler, out = context.input(2), context.out
    checks.same_type(context, context.input(0), filler)
    if filler.type.size != 1:
        context.malformed(f"the fill value {filler.name!r} has {filler.type.size} elements; expected 1")
    if filler.type.dtype in checks.EIGHT_BIT:
        zeros = [
            0 if value.type.quantization is None else value.type.quant.zero_point for value in (filler, out)
        ]
        sentence = f"the fill value has zero point {zeros[0]}; expected {zeros[1]} like the result"
        context.require(zeros[0] == zeros[1], sentence, filler)
    _pad(context, filler)


def _pad(context: OperatorContext, filler: Value | None) -> None:
    x = context.input(0)
    checks.moves(context, x, context.out)
    shape, counts = x.type.shape, context.integers(1, "padding", INDEX_TYPES)
    context.require(len(shape) <= MAX_RANK, f"it has {len(shape)} dimensions; expected at most {MAX_RANK}", x)
    if len(counts) != 2 * len(shape):
        context.misfit(
            f"the padding {context.input(1).name!r} has {len(counts)} numbers for shape {shape}", x
        )
    if min(counts, default=0) < 0:
        context.malformed(f"the padding {context.input(1).name!r} holds {min(counts)}; expected 0 or more")
    before, after = counts[::2], counts[1::2]
    padded = [sum(sizes) for sizes in zip(shape, before, after, strict=True)]
    if filler is None or filler.data is None:
        operands = (x,) if filler is None else (x, filler)
        context.emit(Pad(before=before, after=after), operands, padded)
    else:
        op = Pad(before=before, after=after, value=filler.data.reshape(-1)[0].item())
        context.emit(op, (x,), padded)
